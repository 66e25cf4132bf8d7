"""Remembers in `_groupledger/<cluster>/source.json` which topic or capture a cluster's ledger was read from.

Offsets mean the same records only while the topic is the same. So another cluster, a recreated topic, another partition
count or another kind of source is an error here, before anything is read.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.shard import WHOLE, Shard
from groupledger.jobs.warehouse.storage import STATE_FOLDER, read_parsed
from groupledger.transforms.coverage.rules.stretches import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from groupledger.jobs.warehouse.storage import Storage

KAFKA = "kafka"
CAPTURE = "capture"


@dataclass(frozen=True)
class TopicIdentity:
    """Identifies a topic: offsets mean the same records only while all of this stays the same. `shard` is the part of
    it that the ledger follows (`kafka.shard`), such as 1/4; None if it follows all of it."""

    cluster_id: str
    topic_id: str
    partition_count: int
    shard: str | None = None


@dataclass(frozen=True)
class Before:
    """The readings of each partition before the newest micro-batch was judged, and `begins`, the offset by partition at
    which that batch begins."""

    begins: Mapping[int, int]
    readings: Mapping[int, list[Reading]]


@dataclass(frozen=True)
class LedgerSource:
    """The source of a ledger: `kind` is a topic (KAFKA) or a CAPTURE, `readings` are those of each partition.
    `identity` is None if a capture does not say which topic it was copied from.

    Readings are written before their rows. If a run was killed in between, the same offsets are read again, perhaps
    after Kafka's cleaner has removed some of the records. They are then judged from the readings `before`.
    `leader_epochs` has, by partition, the leader epoch of the last record read, or of a later record; it is empty if an
    older release has written the source.
    """

    kind: str
    identity: TopicIdentity | None
    readings: Mapping[int, list[Reading]]
    before: Before | None = None
    leader_epochs: Mapping[int, int] = field(default_factory=dict)

    def at(self, positions: Mapping[int, int]) -> LedgerSource:
        """Returns the source for a read that continues at `positions`, the next offsets by partition. If the newest
        micro-batch begins there, its rows were not written, and the source as it was before that batch is returned."""
        if self.before is None or any(positions.get(key) != begin for key, begin in self.before.begins.items()):
            return self
        return replace(self, readings=self.before.readings, before=None)

    def with_readings(self, new: Mapping[int, Reading]) -> LedgerSource:
        """Returns the source with one more reading for each partition in `new`. If a new reading does not resume an
        earlier one, it replaces all earlier ones.

        Earlier readings that begin after the offset where the new one resumes are dropped too, because they ended
        before they had read anything.
        """
        readings = dict(self.readings)
        for partition, reading in new.items():
            resumed = -1 if reading.resumed_from is None else reading.resumed_from
            before = [earlier for earlier in readings.get(partition, []) if earlier.from_offset <= resumed]
            readings[partition] = [*before, reading]
        return self._with_others(readings, new)

    def with_readings_after_cuts(self, new: Mapping[int, Reading]) -> LedgerSource:
        """Returns the source with a new reading for each partition in `new` whose log was truncated and has grown
        again. Earlier readings are retained, since their records were in the log then."""
        readings = dict(self.readings)
        for partition, reading in new.items():
            before = [earlier for earlier in readings.get(partition, []) if earlier.from_offset < reading.from_offset]
            readings[partition] = [*before, reading]
        return self._with_others(readings, new)

    def back_to(self, ends: Mapping[int, int]) -> LedgerSource:
        """Returns the source as if nothing at or after the offsets `ends` had been read. Partitions without an offset
        there are treated as unread."""
        kept = {
            partition: [each for each in readings if each.begin < ends.get(partition, 0)]
            for partition, readings in self.readings.items()
        }
        return replace(self, readings={key: readings for key, readings in kept.items() if readings}, before=None)

    def _with_others(self, readings: Mapping[int, list[Reading]], new: Mapping[int, Reading]) -> LedgerSource:
        epochs = {partition: epoch for partition, epoch in self.leader_epochs.items() if partition not in new}
        return replace(self, readings=readings, before=None, leader_epochs=epochs)


def source_name(cluster: str) -> str:
    return f"{STATE_FOLDER}/{cluster}/source.json"


def read_source(storage: Storage, cluster: str) -> LedgerSource | None:
    """Returns the source of the cluster's ledger; None if nothing was read yet. Raises OutsideError if the file is
    damaged."""
    remedy = "restore it, or move it out of the warehouse and run `groupledger ingest --recover`"
    return read_parsed(storage, source_name(cluster), _parsed, remedy)


def own_groups(storage: Storage, cluster: str, shard: Shard) -> Callable[[str | None], bool]:
    """Returns a function that says whether a group may be in the ledger's shard; it may, if its id is not known. Raises
    InputError if the ledger has not read the topic yet, and so can't know."""
    if shard == WHOLE:
        return lambda _: True
    source = read_source(storage, cluster)
    if source is None or source.identity is None:
        raise InputError(
            f"Cluster {cluster} is the shard {shard.number}/{shard.count} of another one, and its ledger can't know yet"
            " which groups are in it: run `groupledger ingest` first."
        )
    count = source.identity.partition_count
    return lambda group_id: group_id is None or shard.has_group(group_id, count)


def _parsed(text: str) -> LedgerSource:
    fields = json.loads(text)
    return LedgerSource(
        kind=fields["kind"],
        identity=TopicIdentity(**fields["identity"]) if fields["identity"] else None,
        readings=_readings(fields["readings"]),
        before=_before(fields.get("before")),
        leader_epochs={int(key): epoch for key, epoch in fields.get("leader_epochs", {}).items()},
    )


def _before(fields: dict[str, Any] | None) -> Before | None:
    if fields is None:
        return None
    return Before({int(key): begin for key, begin in fields["begins"].items()}, _readings(fields["readings"]))


def _readings(fields: dict[str, Any]) -> dict[int, list[Reading]]:
    return {int(partition): [_reading(reading) for reading in readings] for partition, readings in fields.items()}


def _reading(fields: dict[str, Any]) -> Reading:
    """Returns a reading. Those of older releases have other names for two fields, and nothing proves them."""
    older = {"end_offset": "complete_from", "started_at_ms": "complete_from_ms"}
    return Reading(**{"proof": None} | {older.get(name, name): value for name, value in fields.items()})


def write_source(storage: Storage, cluster: str, source: LedgerSource) -> None:
    storage.write(source_name(cluster), json.dumps(asdict(source, dict_factory=as_written)))


def as_written(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the fields of a dataclass for a file. A shard is named only if there is one: an older release knows no
    such field, and could not read the file."""
    return {name: value for name, value in fields if name != "shard" or value is not None}


def check_same_source(source: LedgerSource, kind: str, identity: TopicIdentity | None, cluster: str) -> None:
    """Raises InputError if `kind` or `identity` differs from those of the source that the ledger was read from so far.
    An identity that is None is not compared."""
    remedy = "use another --cluster name or another --warehouse for it"
    if source.kind != kind:
        raise InputError(f"The ledger of cluster {cluster} is fed from a {source.kind}, not from a {kind}: {remedy}.")
    if source.identity is None or identity is None:
        return
    for name, before, now in (
        ("cluster", source.identity.cluster_id, identity.cluster_id),
        ("topic", source.identity.topic_id, identity.topic_id),
        ("partition count", source.identity.partition_count, identity.partition_count),
        ("shard", source.identity.shard or "the whole topic", identity.shard or "the whole topic"),
    ):
        if before != now:
            raise InputError(
                f"The {name} is another one: the ledger of cluster {cluster} was fed from {before}, and this is {now}."
                f" Its offsets mean other records; {remedy}."
            )
