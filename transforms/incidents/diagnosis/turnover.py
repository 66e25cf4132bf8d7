"""Finds the times in which a group's members changed: a deployment, a change of their number, two applications.

None of these is trouble by itself, so an episode of it is never more than its cause is without harm. It is there for
whoever asks what happened. A group that starts has not changed, and a process that comes and goes is not a change of
the group (`member_signs.restless`).

Members that are replaced one after the other, within five minutes each, are one change; members that only come or go
are one change if they do so within half a minute.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from groupledger.schemas.kinds.symptoms import MEMBER_COMES_AND_GOES, NOBODY_HAS_PARTITIONS, REBALANCES_GO_ON
from groupledger.transforms.incidents.diagnosis.evidence import RIGHT_BESIDE, Episode
from groupledger.transforms.incidents.diagnosis.member_signs import members_at, subscribe_apart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from groupledger.transforms.incidents.diagnosis.evidence import GroupRows

TOGETHER = timedelta(seconds=30)
REPLACED_TOGETHER = timedelta(minutes=5)


class _Step(NamedTuple):
    at: datetime
    is_departure: bool


def turnovers(rows: GroupRows) -> Iterator[Episode]:
    """Yields the times in which members changed, and that in which two applications shared the group."""
    steps = sorted(
        [_Step(row["joined_at"], False) for row in rows.members if row["joined_at"] is not None]
        + [_Step(row["left_at"], True) for row in rows.members if row["left_at"] is not None]
    )
    yield from _two_applications(rows, steps)
    for run in _runs(steps, REPLACED_TOGETHER):
        departed = next((n for n, step in enumerate(run) if step.is_departure), len(run))
        replaced = run[departed:]
        whole = _are_replaced(rows, replaced)
        for change in _runs(run[:departed] if whole else run, TOGETHER):
            if len(members_at(rows, change[0].at - RIGHT_BESIDE)) != len(members_at(rows, change[-1].at)):
                yield from _episode(rows, change)
        if whole:
            yield from _episode(rows, replaced)


def _two_applications(rows: GroupRows, steps: Sequence[_Step]) -> Iterator[Episode]:
    """Yields the time from the first until the last step after which members had no topic in common."""
    apart = [step.at for step in steps if subscribe_apart(members_at(rows, step.at))]
    if apart:
        goes_on = apart[-1] == steps[-1].at
        last = rows.known_until if goes_on and rows.known_until is not None else apart[-1]
        yield Episode(
            symptoms=(REBALANCES_GO_ON,),
            since=apart[0],
            last_seen_at=last,
            until=None if goes_on else last,
            is_change=True,
        )


def _episode(rows: GroupRows, steps: Sequence[_Step]) -> Iterator[Episode]:
    since, last = steps[0].at, steps[-1].at
    if members_at(rows, since - RIGHT_BESIDE):
        symptom = MEMBER_COMES_AND_GOES if members_at(rows, last) else NOBODY_HAS_PARTITIONS
        yield Episode(
            symptoms=(symptom,),
            since=since,
            last_seen_at=last,
            until=last,
            rounds=tuple(row for row in rows.rounds if since <= row["sampled_at"] <= last),
            is_change=True,
        )


def _are_replaced(rows: GroupRows, steps: Sequence[_Step]) -> bool:
    """Returns whether members of the same client ids are there before and after, and each of them went."""
    if not steps:
        return False
    before, after = members_at(rows, steps[0].at - RIGHT_BESIDE), members_at(rows, steps[-1].at)
    clients = [Counter(row["client_id"] for row in each) for each in (before, after)]
    stayed = {row["member_id"] for row in before} & {row["member_id"] for row in after}
    return bool(before) and clients[0] == clients[1] and not stayed


def _runs(steps: Sequence[_Step], together: timedelta) -> Iterator[list[_Step]]:
    """Yields steps that follow each other soon enough."""
    run: list[_Step] = []
    for step in steps:
        if run and step.at - run[-1].at > together:
            yield run
            run = []
        run.append(step)
    if run:
        yield run
