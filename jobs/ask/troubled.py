"""Ranks groups by their trouble now, for all lists of groups: `groups`, `serve` and the Python API.

A group is in trouble if it has an open incident of at least severity warning, or if the status of its lag is trouble.
It ranks by the more severe of the two. A status can say little of the cause: one partition that stands still makes its
group `stopped`, also if the group is catching up. Only a diagnosis (`jobs.ask.present`) tells these apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.schemas.words import LagStatus, Severity, words_of

if TYPE_CHECKING:
    from groupledger.jobs.process.output import Answer

SEVERITIES = words_of(Severity)
# A group that has stopped hurts as much as one with an error, whether an incident says so or not.
HURTS = {LagStatus.STALLED, LagStatus.STOPPED, LagStatus.UNSUBSCRIBED}
# The lag statuses of a group that are trouble now, each with its meaning.
MEANS = {
    LagStatus.STOPPED: "Records wait, and nobody commits.",
    LagStatus.STALLED: "Records wait, and each commit is of the same offset.",
    LagStatus.GROWING: "More records come than it reads.",
    LagStatus.REWOUND: "The committed offset went back: records are read again.",
    LagStatus.AHEAD_OF_LOG: "The committed offset lies beyond the end of the log.",
    # The status of a group: partitions that healthy groups have left behind are not in it.
    LagStatus.UNSUBSCRIBED: "Records wait, only in topics that no member subscribes to.",
}
TROUBLED = {*MEANS}


def severity_of(status: str | None) -> str | None:
    """Returns how severe a status of lag is by itself; None if it is no trouble."""
    return Severity.ERROR if status in HURTS else Severity.WARNING if status in TROUBLED else None


def gravity(*severities: str | None) -> int:
    """Returns a number that grows with the worst of some severities; it is the lowest if all are None."""
    return max((SEVERITIES.index(each) for each in severities if each is not None), default=-1)


def rank(row: Answer, name: str = "group_id") -> tuple[int, int, str]:
    """Returns the sort key of a row with a status and a sum of lag, such as a topic: the worst status first, then the
    most lag, then the name, which is in the column `name`."""
    status = words_of(LagStatus).index(row["status"]) if row["status"] else -1
    return -status, -(row["lag_sum"] or 0), row[name]


def by_trouble(row: Answer, severity: str | None) -> tuple[int, int, int, int, str]:
    """Returns the sort key of a group: the most severe trouble first, and then the order of `rank`. `severity` is that
    of its open incidents or of its diagnosis; a group that only has a status comes after those that have one."""
    return -gravity(severity, severity_of(row["status"])), -gravity(severity), *rank(row)


def is_troubled(row: Answer) -> bool:
    """Returns whether a row of `group_list` is in trouble. Every count of groups in trouble is one of these."""
    return row["incident_severity"] is not None or row["status"] in TROUBLED


def in_words(row: Answer) -> tuple[str, str]:
    """Returns the severity of a group in trouble that has no diagnosis, and a sentence about it."""
    severity = row["incident_severity"] or severity_of(row["status"]) or Severity.WARNING
    return severity, MEANS.get(row["status"]) or f"Incidents that are open: {row['open_incidents']:,}."
