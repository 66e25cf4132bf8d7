"""What a cluster's ledger is fed from, remembered in `_groupledger/<cluster>/source.json`.

Offsets only mean the same records while the topic is the same one: a warehouse that was fed from another cluster, a
recreated topic, another partition count or another kind of source is refused here, before anything is read.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.storage import STATE_FOLDER
from groupledger.transforms.coverage.rules.stretches import Reading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.jobs.warehouse.storage import Storage

KAFKA = "kafka"
CAPTURE = "capture"


@dataclass(frozen=True)
class TopicIdentity:
    """What must stay the same for offsets to mean the same record."""

    cluster_id: str
    topic_id: str
    partition_count: int


@dataclass(frozen=True)
class LedgerSource:
    """What a ledger is fed from. `identity` is None for a capture that does not tell where it is from."""

    kind: str
    identity: TopicIdentity | None
    readings: Mapping[int, list[Reading]]

    def with_readings(self, new: Mapping[int, Reading]) -> LedgerSource:
        """Adds one reading for some partitions: behind the readings that came as far as it resumes, and instead of all
        if it resumes none.

        An earlier reading that began further on was given up before it read anything.
        """
        readings = dict(self.readings)
        for partition, reading in new.items():
            resumed = -1 if reading.resumed_from is None else reading.resumed_from
            before = [earlier for earlier in readings.get(partition, []) if earlier.from_offset <= resumed]
            readings[partition] = [*before, reading]
        return replace(self, readings=readings)


def source_name(cluster: str) -> str:
    return f"{STATE_FOLDER}/{cluster}/source.json"


def read_source(storage: Storage, cluster: str) -> LedgerSource | None:
    text = storage.read(source_name(cluster))
    if text is None:
        return None
    fields = json.loads(text)
    return LedgerSource(
        kind=fields["kind"],
        identity=TopicIdentity(**fields["identity"]) if fields["identity"] else None,
        readings={
            int(partition): [Reading(**reading) for reading in readings]
            for partition, readings in fields["readings"].items()
        },
    )


def write_source(storage: Storage, cluster: str, source: LedgerSource) -> None:
    storage.write(source_name(cluster), json.dumps(asdict(source)))


def check_same_source(source: LedgerSource, kind: str, identity: TopicIdentity | None, cluster: str) -> None:
    """Raises InputError if this is not what the ledger was fed from so far."""
    remedy = "use another --cluster name or another --warehouse for it"
    if source.kind != kind:
        raise InputError(f"The ledger of cluster {cluster} is fed from a {source.kind}, not from a {kind}: {remedy}.")
    if source.identity is None or identity is None:
        return
    for name, before, now in (
        ("cluster", source.identity.cluster_id, identity.cluster_id),
        ("topic", source.identity.topic_id, identity.topic_id),
        ("partition count", source.identity.partition_count, identity.partition_count),
    ):
        if before != now:
            raise InputError(
                f"The {name} is another one: the ledger of cluster {cluster} was fed from {before}, and this is {now}."
                f" Its offsets mean other records; {remedy}."
            )
