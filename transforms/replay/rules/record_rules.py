"""Checks the rules that hold for any `group_metadata` record by itself, whatever records around it are missing.

A coordinator writes a group's record in two cases only (Kafka ClassicGroup). In the state Empty the record has no
protocol and no leader. With the leader's assignment it has a generation above 0, a protocol, and a leader among its
members.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from groupledger.schemas.words import FindingKind
from groupledger.transforms.replay.rules.finding import Contradiction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from groupledger.transforms.history.rules.events import GroupRecord


def record_contradictions(record: GroupRecord) -> Iterator[Contradiction]:
    faults = list(_faults(record))
    if faults:
        yield Contradiction(
            FindingKind.ILLEGAL_RECORD, f"No coordinator writes this record: {faults[0]}.", evidence={"faults": faults}
        )
    member_ids = {member.facts.member_id for member in record.members}
    if record.members and record.leader is not None and record.leader not in member_ids:
        yield Contradiction(
            FindingKind.LEADER_IS_NO_MEMBER,
            f"{record.leader} leads generation {record.generation}, but is not one of its {len(member_ids)} members.",
            member_id=record.leader,
            evidence={"members": sorted(member_ids)},
        )


def _faults(record: GroupRecord) -> Iterator[str]:
    if record.generation < 0:
        yield f"its generation is {record.generation}"
    chosen = {"protocol": record.protocol, "leader": record.leader}
    if not record.members:
        yield from (f"it has no members, but the {name} {value}" for name, value in chosen.items() if value is not None)
        return
    if record.generation == 0:
        yield "it has members in generation 0"
    if not record.protocol_type:
        yield "it has members, but no protocol type"
    yield from (f"it has members, but no {name}" for name, value in chosen.items() if value is None)
    facts = [member.facts for member in record.members]
    yield from _repeated("member id", (each.member_id for each in facts))
    yield from _repeated("instance id", (each.group_instance_id for each in facts))


def _repeated(name: str, values: Iterable[str | None]) -> Iterator[str]:
    counts = Counter(value for value in values if value is not None)
    yield from (f"{count} of its members have the {name} {value}" for value, count in counts.items() if count > 1)
