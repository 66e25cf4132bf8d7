"""The settings of one consumer, under Kafka's names, with the defaults of Kafka 4.2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.coordinator.assignors import ASSIGNORS

if TYPE_CHECKING:
    from groupledger.coordinator.model.groups.streams.topology import Topology

CLASSIC, CONSUMER = "classic", "consumer"
SHARE = "share"  # no value of Kafka's setting: there a share consumer is a class of its own
STREAMS = "streams"
_PROTOCOLS = (CLASSIC, CONSUMER, SHARE, STREAMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """The settings of a consumer. `assignors` is partition.assignment.strategy. With the group protocol `consumer`
    (KIP-848), and in share and streams groups, the broker sets session timeout, heartbeat interval and assignor. A
    thread of Kafka Streams has the topology and the id of its process. Raises ValueError for settings that Kafka's own
    client refuses."""

    group_id: str
    client_id: str
    client_host: str = "/127.0.0.1"
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    assignors: tuple[str, ...] = ("range", "cooperative-sticky")
    group_protocol: str = CLASSIC
    server_assignor: str | None = None  # group.remote.assignor: the broker's choice if None
    auto_offset_reset: str = "latest"  # or earliest, none
    client_rack: str | None = None
    max_poll_records: int = 500
    fetch_max_wait_ms: int = 500
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    topology: Topology | None = None
    process_id: str = ""

    def __post_init__(self) -> None:
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError(
                f"heartbeat.interval.ms ({self.heartbeat_interval_ms}) must be below"
                f" session.timeout.ms ({self.session_timeout_ms})"
            )
        if self.auto_offset_reset not in ("earliest", "latest", "none"):
            raise ValueError(f"auto.offset.reset is earliest, latest or none, not {self.auto_offset_reset!r}")
        if self.group_protocol not in _PROTOCOLS:
            raise ValueError(
                f"group.protocol is {', '.join(_PROTOCOLS[:-1])} or {STREAMS}, not {self.group_protocol!r}"
            )
        if (self.group_protocol == STREAMS) != (self.topology is not None):
            raise ValueError("a topology is what a member of a streams group has, and nobody else")
        if not self.assignors or len(set(self.assignors)) != len(self.assignors):
            raise ValueError("partition.assignment.strategy names at least one assignor, and none twice")
        unknown = [name for name in self.assignors if name not in ASSIGNORS]
        if unknown:
            raise ValueError(f"partition.assignment.strategy: no assignor {unknown[0]!r}, choose of {list(ASSIGNORS)}")
