"""Asks the warehouses of a run about all groups, and lets `lab.truth.cluster_judge` compare each answer with the truth.

The warehouses are asked as a user asks them, with the present rules. So a run that was saved can be judged again.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.group_timeline import with_causes
from groupledger.jobs.ask.incidents import incidents_of
from groupledger.jobs.ask.owners import read_history
from groupledger.jobs.ask.why import why
from groupledger.jobs.process.errors import InputError
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.words import Severity
from lab.kafka.cluster_play import read_lines
from lab.kafka.cluster_product import AFTER, CLUSTER
from lab.kafka.monitor_process import LIVE
from lab.truth.cluster_judge import (
    AFTER_WHY_MS,
    Tally,
    judge_departure,
    judge_episodes,
    judge_incident,
    judge_lag,
    judge_members,
    judge_owner,
    judge_positions,
    judge_rest,
    judge_why,
)
from lab.truth.cluster_truth import Truth, client_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from groupledger.jobs.ask.owners import GroupHistory
    from lab.truth.cluster_truth import Place

    Row = dict[str, Any]

INSTANTS = 200  # of each group
OF_FAULT_MS = 30_000  # so long after a fault its sessions expire: a member has 10 s to find the new coordinator
AT_REST, SHARED_AT_REST = "lag at rest", "share groups at rest"
AT = r"^\[(?P<at>[\d-]+ [\d:,]+)\].*"
# What a coordinator logs as a session ends: of a classic member, and of the others.
EXPIRED = re.compile(
    AT + r"(?:Member (?P<failed>\S+) in group \S+ has failed, removing it"
    r"|removing member (?P<removed>\S+) on heartbeat expiration|[Mm]ember (?P<modern>\S+) .*session expired)",
    re.MULTILINE,
)
# What a coordinator logs when a member leaves by itself.
LEFT = re.compile(AT + r"[Mm]ember (?P<member>\S+) (?:has )?left (?:the )?(?:\S+ )?group\b", re.MULTILINE)
# What the controller logs as it takes a broker for dead.
FENCED = re.compile(AT + r"Fencing broker \d+ .*because its session has timed out", re.MULTILINE)


def read_truth(folder: Path) -> Truth:
    return Truth(
        happened=read_lines(folder / "happened.jsonl"),
        lives={row["client_id"]: row for row in read_lines(folder / "lives.jsonl")},
        reported=read_lines(folder / "reported.jsonl"),
        asked=read_lines(folder / "truth.jsonl"),
        expired=expired_sessions(folder),
        left={line["member"]: _logged_ms(line) for line in _logged(folder, LEFT)},
        fenced=sorted(_logged_ms(line) for line in _logged(folder, FENCED)),
    )


def _logged(folder: Path, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    for path in sorted(folder.glob("brokers/*/server.log")):
        yield from pattern.finditer(path.read_text(errors="replace"))


def _logged_ms(line: re.Match[str]) -> int:
    at = datetime.strptime(line["at"], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=timezone.utc)
    return round(at.timestamp() * 1_000)


def expired_sessions(folder: Path) -> dict[str, list[int]]:
    """Returns, by member id, the times in milliseconds at which the brokers' server logs say that its session
    expired."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for line in _logged(folder, EXPIRED):
        found[line["failed"] or line["removed"] or line["modern"]].append(_logged_ms(line))
    return dict(found)


def slow_groups(truth: Truth) -> dict[str, int]:
    """Returns the groups in which a session expired because the machine was slow: long before or after the faults of
    brokers. Each has the number of such sessions."""
    groups = {
        each[0]: group_id for group_id, rows in truth.described.items() for row in rows for each in row["members"]
    }
    found = Counter[str]()
    for member_id, times in truth.expired.items():
        is_slow = any(not any(fault.holds(at_ms, OF_FAULT_MS) for fault in truth.faults) for at_ms in times)
        found.update([groups[member_id]] if is_slow and member_id in groups else [])
    return dict(found)


def judged(folder: Path, warehouse: str, truth: Truth, seed: int) -> Tally:
    """Asks a warehouse of a run about all groups in `truth`, and returns the outcomes of its answers."""
    tally, tables = Tally(), ClusterRows(str(folder / warehouse), CLUSTER)
    dice = random.Random(seed)
    for group_id in truth.groups:
        _judge_group(tally, tables, truth, group_id, dice)
    # A monitor that is behind all the time looks for none.
    found = incidents_of(tables, None, None, None, Severity.INFO) if tables.exists("incidents") else []
    incidents = [_with_ms(row) for row in found]
    for row in incidents:
        if row["group_id"] is None or row["group_id"] in truth.groups:
            judge_incident(tally, truth, row)
    judge_episodes(tally, truth, incidents)
    if warehouse in (LIVE, AFTER):
        _judge_lag(tally, tables, truth, folder, warehouse)
    return tally


def _judge_group(tally: Tally, tables: ClusterRows, truth: Truth, group_id: str, dice: random.Random) -> None:
    try:
        history = read_history(tables, group_id)
    except InputError:  # not in the history yet
        tally.add(f"owners, {truth.groups[group_id]}", "not known")
        return
    places = truth.places(group_id)
    clients = {row["member_id"]: client_of(row["client_id"]) for row in history.members}
    for at_ms in sorted(dice.randrange(truth.begun_ms, truth.rest_ms) for _ in range(INSTANTS)):
        for place, answer in _owners(history, clients, places, at_ms):
            judge_owner(tally, truth, group_id, place, at_ms, answer)
        judge_members(tally, truth, group_id, at_ms, _members(history, at_ms))
    for row in with_causes(tables, group_id, tables.rows("members", ("group_id", "=", group_id))):
        left_at = row["left_at"]
        judge_departure(tally, truth, {**row, "left_ms": None if left_at is None else _ms(left_at)})
    for fault in truth.faults:
        if history.group["kafka_partition"] in fault.led:
            span = (instant_of_ms(fault.from_ms), instant_of_ms(fault.until_ms + AFTER_WHY_MS))
            judge_why(tally, truth, fault, group_id, why(tables, group_id, *span)[1]["diagnosis"])


def _owners(
    history: GroupHistory, clients: dict[str, str], places: Sequence[Place], at_ms: int
) -> Iterator[tuple[Place, tuple[str, frozenset[str]]]]:
    found = history.owners_at(instant_of_ms(at_ms))
    for place in places:
        answer = found.get(place)
        if answer is not None:
            yield place, (answer.status, frozenset(str(clients.get(each)) for each in answer.member_ids))


def _members(history: GroupHistory, at_ms: int) -> tuple[object, list[str]] | None:
    at = instant_of_ms(at_ms)
    generation = history.generation_at(at)
    if generation is None:
        return None
    return generation["generation"], [row["member_id"] for row in history.members_at(at)]


def _judge_lag(tally: Tally, tables: ClusterRows, truth: Truth, folder: Path, warehouse: str) -> None:
    rows = [
        {**row, "sampled_ms": _ms(row["sampled_at"])}
        for row in tables.rows("lag")
        if (row["topic"], row["partition"]) in truth.ends
    ]
    if warehouse == LIVE:
        for row in rows:
            if truth.begun_ms <= row["sampled_ms"] < truth.rest_ms:
                judge_lag(tally, truth, row)
    last = [row for row in rows if row["sampled_ms"] > truth.rest_ms]
    rest = read_lines(folder / "rest.jsonl")
    judge_rest(tally, AT_REST, rest, last)
    if warehouse == AFTER:
        passes = [{**row, "sampled_ms": _ms(row["sampled_at"])} for row in tables.rows_if_any("share_partitions")]
        judge_positions(tally, SHARED_AT_REST, rest, passes)


def _with_ms(row: Row) -> Row:
    return {**row, "first_seen_ms": _ms(row["first_seen_at"]), "last_seen_ms": _ms(row["last_seen_at"])}


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1_000)
