"""Goal: the ends of `__consumer_offsets` belong together, although they come by requests one after the other."""

from __future__ import annotations

from collections import namedtuple
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from kafka.admin import OffsetSpec
from kafka.errors import KafkaConnectionError, KafkaError, TopicAuthorizationFailedError
from kafka.protocol.consumer import IsolationLevel

from groupledger.jobs.kafka import offsets_topic
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

GROWTH = 10  # records between two requests
Answer = namedtuple("Answer", "offset")  # noqa: PYI024 - as kafka-python answers


class GrowingTopic:
    """An admin client for partitions 0, without transactions, and 1, where one is open from offset 5 on."""

    def __init__(self) -> None:
        self.end = 100

    def describe_cluster(self) -> dict[str, Any]:
        return {"cluster_id": "c"}

    def describe_topics(self, _names: list[str]) -> list[dict[str, Any]]:
        partitions = [{"partition_index": 0}, {"partition_index": 1}]
        return [{"error_code": 0, "partitions": partitions, "topic_id": str(UUID(int=7))}]

    def list_partition_offsets(self, asked: dict[Any, OffsetSpec], isolation_level: IsolationLevel) -> dict[Any, Any]:
        self.end += GROWTH
        is_committed = isolation_level == IsolationLevel.READ_COMMITTED

        def offset(place: Any, spec: OffsetSpec) -> int:
            if spec == OffsetSpec.EARLIEST:
                return 0
            return 5 if is_committed and place.partition == 1 else self.end

        return {place: Answer(offset(place, spec)) for place, spec in asked.items()}


@contextmanager
def growing(*_: Any) -> Iterator[GrowingTopic]:
    yield GrowingTopic()


def test_a_shard_reads_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: only the partitions of the shard are described; the identity has the number of all, and the shard."""
    monkeypatch.setattr(offsets_topic, "admin_client", growing)
    settings = load_settings().kafka.model_copy(update={"shard": "2/2"})
    identity, topic = offsets_topic.describe_offsets_topic("b:9092", settings)
    assert (identity.partition_count, identity.shard) == (2, "2/2")
    assert [*topic.high_watermark] == [*topic.log_start_offset] == [1]
    with pytest.raises(InputError, match="The shard 3/3 is empty, since __consumer_offsets has 2 partitions: divide"):
        offsets_topic.describe_offsets_topic("b:9092", settings.model_copy(update={"shard": "3/3"}))


def test_a_log_that_grows_between_two_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: without an open transaction the last stable offset is the end, however fast the log grows; with one it is
    where the transaction began."""
    monkeypatch.setattr(offsets_topic, "admin_client", growing)
    _, topic = offsets_topic.describe_offsets_topic("b:9092", load_settings().kafka)
    assert (topic.high_watermark, topic.last_stable_offset) == ({0: 120, 1: 120}, {0: 120, 1: 5})


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.mark.parametrize(
    ("error", "for_s", "is_answered"),
    [
        (KafkaConnectionError("111 ECONNREFUSED"), 12, True),
        (KafkaConnectionError("111 ECONNREFUSED"), 600, False),
        (TopicAuthorizationFailedError(), 1, False),
    ],
)
def test_a_broker_that_has_just_died(
    monkeypatch: pytest.MonkeyPatch, error: KafkaError, for_s: float, *, is_answered: bool
) -> None:
    """Goal: a command goes on if another broker becomes the leader in time; it ends at once if it is refused."""
    clock = Clock()

    class Admin(GrowingTopic):
        def __init__(self, **_: Any) -> None:
            super().__init__()

        def describe_cluster(self) -> dict[str, Any]:
            if clock.now_s < for_s:
                raise error
            return super().describe_cluster()

        def close(self) -> None: ...

    monkeypatch.setattr(offsets_topic, "KafkaAdminClient", Admin)
    monkeypatch.setattr(offsets_topic, "time", clock)
    settings = load_settings().kafka
    if is_answered:
        assert offsets_topic.offsets_topic_identity("b:9092", settings).cluster_id == "c"
    else:
        with pytest.raises(OutsideError, match="refused or did not answer"):
            offsets_topic.offsets_topic_identity("b:9092", settings)
        assert clock.now_s <= (settings.request_timeout_ms / 1000 if error.retriable else 0)
