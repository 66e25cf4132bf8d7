"""Asks the warehouses of a run about all groups, and lets `lab.truth.cluster_judge` compare each answer with the truth.

The warehouses are asked as a user asks them, with the present rules. So a run that was saved can be judged again.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
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
from lab.kafka.cluster_product import AFTER, CLUSTER, LIVE
from lab.truth.cluster_judge import (
    AFTER_WHY_MS,
    Tally,
    judge_departure,
    judge_episodes,
    judge_incident,
    judge_lag,
    judge_owner,
    judge_rest,
    judge_why,
)
from lab.truth.cluster_truth import Truth

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from groupledger.jobs.ask.owners import GroupHistory
    from lab.truth.cluster_truth import Place

    Row = dict[str, Any]

INSTANTS = 200  # of each group
AT_REST = "lag at rest"
# What a coordinator logs as a session ends: of a classic member, and of the others.
EXPIRED = re.compile(
    r"^\[(?P<at>[\d-]+ [\d:,]+)\].*(?:Member (?P<failed>\S+) in group \S+ has failed, removing it"
    r"|removing member (?P<removed>\S+) on heartbeat expiration|[Mm]ember (?P<modern>\S+) .*session expired)",
    re.MULTILINE,
)


def read_truth(folder: Path) -> Truth:
    return Truth(
        happened=read_lines(folder / "happened.jsonl"),
        lives={row["client_id"]: row for row in read_lines(folder / "lives.jsonl")},
        reported=read_lines(folder / "reported.jsonl"),
        asked=read_lines(folder / "truth.jsonl"),
        expired=expired_sessions(folder),
    )


def expired_sessions(folder: Path) -> dict[str, list[int]]:
    """Returns, by member id, the times in milliseconds at which the brokers' server logs say that its session
    expired."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for path in sorted(folder.glob("brokers/*/server.log")):
        for line in EXPIRED.finditer(path.read_text(errors="replace")):
            at = datetime.strptime(line["at"], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=timezone.utc)
            member_id = line["failed"] or line["removed"] or line["modern"]
            found[member_id].append(round(at.timestamp() * 1_000))
    return dict(found)


def judged(folder: Path, warehouse: str, truth: Truth, seed: int) -> Tally:
    """Asks a warehouse of a run about all groups, and returns the outcomes of its answers."""
    tally, tables = Tally(), ClusterRows(str(folder / warehouse), CLUSTER)
    dice = random.Random(seed)
    for group_id in truth.groups:
        _judge_group(tally, tables, truth, group_id, dice)
    # A monitor that is behind all the time looks for none.
    found = incidents_of(tables, None, None, None, Severity.INFO) if tables.exists("incidents") else []
    incidents = [_with_ms(row) for row in found]
    for row in incidents:
        judge_incident(tally, truth, row)
    judge_episodes(tally, truth, incidents)
    if warehouse in (LIVE, AFTER):
        _judge_lag(tally, tables, truth, folder, warehouse)
    return tally


def _judge_group(tally: Tally, tables: ClusterRows, truth: Truth, group_id: str, dice: random.Random) -> None:
    try:
        history = read_history(tables, group_id)
    except InputError:  # not in the history yet
        tally.add("owners", "not known")
        return
    places = sorted(place for place in truth.holders if place[0] == group_id)
    clients = {row["member_id"]: row["client_id"] for row in history.members}
    for at_ms in sorted(dice.randrange(truth.begun_ms, truth.rest_ms) for _ in range(INSTANTS)):
        for place, answer in _owners(history, clients, places, at_ms):
            judge_owner(tally, truth, group_id, place, at_ms, answer)
    for row in with_causes(tables, group_id, tables.rows("members", ("group_id", "=", group_id))):
        left_at = row["left_at"]
        judge_departure(tally, truth, {**row, "left_ms": None if left_at is None else _ms(left_at)})
    for fault in truth.faults:
        if history.group["kafka_partition"] in fault.led:
            span = (instant_of_ms(fault.from_ms), instant_of_ms(fault.until_ms + AFTER_WHY_MS))
            judge_why(tally, truth, fault, group_id, why(tables, group_id, *span)[1]["diagnosis"])


def _owners(
    history: GroupHistory, clients: dict[str, str], places: Sequence[Place], at_ms: int
) -> Iterator[tuple[Place, tuple[str, str]]]:
    found = history.owners_at(instant_of_ms(at_ms))
    for place in places:
        answer = found.get(place)
        if answer is not None:
            yield place, (answer.status, ", ".join(str(clients.get(each)) for each in answer.member_ids))


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
    judge_rest(tally, AT_REST, read_lines(folder / "rest.jsonl"), last)


def _with_ms(row: Row) -> Row:
    return {**row, "first_seen_ms": _ms(row["first_seen_at"]), "last_seen_ms": _ms(row["last_seen_at"])}


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1_000)
