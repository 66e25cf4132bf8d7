"""Finds the times in which a group's members changed: a deployment, a change of their number, two applications.

None of these is trouble by itself, so such an episode has the severity that its cause has without harm. It is listed
only to show what happened. `transforms.history.rules.turnovers` decides which changes belong together: a group that
begins has not changed, and a process that comes and goes is not a change of the group (`member_signs.restless`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.schemas.kinds.symptoms import MEMBER_COMES_AND_GOES, NOBODY_HAS_PARTITIONS, REBALANCES_GO_ON
from groupledger.transforms.incidents.diagnosis.evidence import TroubleEpisode
from groupledger.transforms.incidents.diagnosis.member_signs import members_at, subscribe_apart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.transforms.incidents.diagnosis.evidence import DiagnosisRows


def turnovers(rows: DiagnosisRows) -> Iterator[TroubleEpisode]:
    """Yields the times in which members changed, and the time in which two applications shared the group."""
    yield from _two_applications(rows)
    for change in rows.turnovers:
        since, last = change.began_at, change.ended_at
        yield TroubleEpisode(
            symptoms=(MEMBER_COMES_AND_GOES if change.after else NOBODY_HAS_PARTITIONS,),
            since=since,
            last_seen_at=last,
            until=last,
            rounds=tuple(row for row in rows.rounds if since <= row["sampled_at"] <= last),
            is_change=True,
        )


def _two_applications(rows: DiagnosisRows) -> Iterator[TroubleEpisode]:
    """Yields the time from the first until the last step after which members had no topic in common."""
    steps = sorted(row[name] for row in rows.members for name in ("joined_at", "left_at") if row[name] is not None)
    apart = [at for at in steps if subscribe_apart(members_at(rows, at))]
    if apart:
        goes_on = apart[-1] == steps[-1]
        last = rows.known_until if goes_on and rows.known_until is not None else apart[-1]
        yield TroubleEpisode(
            symptoms=(REBALANCES_GO_ON,),
            since=apart[0],
            last_seen_at=last,
            until=None if goes_on else last,
            is_change=True,
        )
