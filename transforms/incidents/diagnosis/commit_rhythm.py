"""Determines from the request log whether a member still polls, by the interval of its commits.

Java's client and kafka-python commit automatically when they are polled, every auto.commit.interval.ms, whether or not
there is anything new, also for partitions that are paused or make no progress. So a member that had such a rhythm, and
now sends heartbeats alone, does not poll. librdkafka commits only offsets that have advanced, so the silence of a
member that uses librdkafka proves nothing. But a client of any of the three that leaves after max.poll.interval.ms of
silence left because it had not polled: a client that is closed commits first.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from operator import itemgetter
from statistics import median
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kinds.triggers import LEFT_POLL_TIMEOUT
from groupledger.transforms.history.rules.departures import SILENT_BEFORE_IT_LEFT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    Row = Mapping[str, Any]

SURE_OF_A_RHYTHM = 0.85  # somebody may commit by hand as regularly
COMMIT_AS_POLLED = ("apache-kafka-java", "kafka-python")
GAPS_MIN = 10
ALIKE = 0.25  # how far an interval may be off, as a share of the usual one
MOST = 0.8
SILENT_INTERVALS = 5
SILENT_MIN = timedelta(seconds=30)
LEAVES_WITHIN = timedelta(seconds=20)  # a client looks at its interval now and then, and a leave takes a round


def has_ceased(requests: Iterable[Row], member_id: str, at: datetime) -> bool:
    """Returns whether a member that commits whenever it polls had stopped committing at the instant `at`: its last
    commit was then at least SILENT_INTERVALS of its usual intervals ago."""
    commits = _commits(requests, member_id, at)
    usual = _rhythm(commits)
    return (
        usual is not None
        and (commits[-1]["client_software_name"] or "").startswith(COMMIT_AS_POLLED)
        and at - commits[-1]["happened_at"] >= max(SILENT_MIN, SILENT_INTERVALS * usual)
    )


def with_poll_timeouts(members: Iterable[Row], requests: Sequence[Row]) -> list[dict[str, Any]]:
    """Returns the given rows of `members`, which `with_logged_causes` has returned. If it guessed that a member left
    because it had not polled, and the member's last commit came about one poll interval before its leave, the guess
    gets the confidence SURE_OF_A_RHYTHM."""
    guess = {"leave_cause": LEFT_POLL_TIMEOUT.name, "leave_cause_confidence": SILENT_BEFORE_IT_LEFT}
    known = {"leave_cause_confidence": SURE_OF_A_RHYTHM}
    return [
        {**row, **(known if guess.items() <= row.items() and _left_after_its_interval(row, requests) else {})}
        for row in members
    ]


def _left_after_its_interval(member: Row, requests: Iterable[Row]) -> bool:
    commits = _commits(requests, member["member_id"], member["left_at"])
    usual = _rhythm(commits)
    if usual is None or not member["rebalance_timeout_ms"]:
        return False
    silent = member["left_at"] - commits[-1]["happened_at"]
    interval = timedelta(milliseconds=member["rebalance_timeout_ms"])
    return bool(interval <= silent <= interval + usual + LEAVES_WITHIN)


def _commits(requests: Iterable[Row], member_id: str, until: datetime) -> list[Row]:
    """Returns a member's commits in order."""
    found = (row for row in requests if row["member_id"] == member_id and row["api"] == ApiKey.OFFSET_COMMIT.name)
    return sorted((row for row in found if row["happened_at"] <= until), key=itemgetter("happened_at"))


def _rhythm(commits: Sequence[Row]) -> timedelta | None:
    """Returns the usual time between two commits if most are about so far apart."""
    gaps = [after["happened_at"] - before["happened_at"] for before, after in pairwise(commits)]
    if len(gaps) < GAPS_MIN:
        return None
    usual = median(gaps)
    alike = sum(abs(gap - usual) <= ALIKE * usual for gap in gaps)
    return usual if alike >= MOST * len(gaps) else None
