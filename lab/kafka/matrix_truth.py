"""Compares the history of real groups with the broker's server log and with the partitions that their consumers
reported.

The history is that of a ledger that read the topic from its begin: the topic's bytes go through the decoder and the
fold. Rows are compared as multisets: a surplus row is as wrong as a missing one.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.words import Completeness
from groupledger.transforms.history.rules.events import Coverage
from groupledger.transforms.history.rules.fold import fold
from groupledger.transforms.records.decode import decode_batches
from groupledger.transforms.replay.rules import replay
from lab.kafka import matrix, oracle
from lab.kafka.server_log import logged_groups
from lab.truth import simulated
from lab.truth.against_truth import Guessed
from lab.truth.histories import position, stretch, summaries

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lab.kafka.local_broker import LocalBroker
    from lab.kafka.matrix import Case, Played
    from lab.kafka.server_log import LoggedGroup, Recorded
    from lab.truth.histories import Entry
    from lab.truth.simulated import Ledger

INSTANTS_PER_PERIOD = 20
Log = tuple[int, list[Any]]  # the group's partition, and its records in order


@dataclass
class Comparison:
    """Counts the rows or answers that were compared, by kind, and lists the wrong ones. `triggers` has the true and the
    inferred trigger of each rebalance."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    triggers: list[Guessed] = field(default_factory=list)


def measure(broker: LocalBroker, cases: Sequence[Case]) -> Comparison:
    """Plays the cases, compares their history with the logs and the consumers' reports, and returns the result."""
    log_start = broker.server_log.stat().st_size
    began_ms = matrix.now_ms()
    played = matrix.play(broker.bootstrap_servers, cases)
    logs = group_logs(broker, [case.group for case in cases])
    with broker.server_log.open("rb") as log:
        log.seek(log_start)
        lines = log.read().decode().splitlines()
    logged = logged_groups(lines, logs)
    found = Comparison()
    for one in played:
        compare(found, one, logged[one.case.group], logs[one.case.group], began_ms)
    return found


def group_logs(broker: LocalBroker, groups: Iterable[str]) -> dict[str, Log]:
    """Returns, by group, the partition of its records and the records in the order of the log."""
    logs: dict[str, Log] = {}
    wanted = set(groups)
    for row, at_ms in decoded_rows(broker):
        if row["group_id"] in wanted:
            log = logs.setdefault(row["group_id"], (row["kafka_partition"], []))
            log[1].append(simulated._entry(row, at_ms))
    return logs


def decoded_rows(broker: LocalBroker) -> Iterable[tuple[dict[str, Any], int]]:
    """Yields the decoded rows of all records that a read_committed consumer gets, in the order of the log, each with
    its time in milliseconds."""
    stored = sorted(oracle.read_topic(broker, OFFSETS_TOPIC, "read_committed").items())
    topic = pa.table(
        {
            "key": pa.array([record.key for _, record in stored], pa.binary()),
            "value": pa.array([record.value for _, record in stored], pa.binary()),
            "partition": pa.array([partition for (partition, _), _ in stored], pa.int32()),
            "offset": pa.array([offset for (_, offset), _ in stored], pa.int64()),
            "timestamp": pa.array([record.timestamp_ms for _, record in stored], pa.timestamp("ms", tz="UTC")),
        }
    )
    for decoded in decode_batches(topic.to_batches()):
        times_us = decoded.column("kafka_timestamp").cast(pa.int64()).to_pylist()
        yield from ((row, time_us // 1_000) for row, time_us in zip(decoded.to_pylist(), times_us, strict=True))


def compare(found: Comparison, played: Played, logged: LoggedGroup, log: Log, began_ms: int) -> None:
    group = played.case.group
    partition, entries = log
    entries.sort(key=position)
    marked: list[Entry] = [Coverage(0, Completeness.COMPLETE), *entries]
    rows = fold(group, partition, None, summaries(marked)).rows
    end = entries[-1].kafka_offset + 1
    ledger = simulated.Ledger(rows, (stretch(0, end, (began_ms, matrix.now_ms()), Completeness.COMPLETE),))
    tables = {
        "generations": (map(expected_generation, logged.recorded), found_generations(ledger, logged.recorded)),
        "rebalances": (expected_rebalances(logged), found_rebalances(ledger)),
    }
    for table, (expected, stated) in tables.items():
        wanted, had = Counter(expected), Counter(stated)
        found.counts[table] += had.total()
        found.wrong += [f"{group}: {table} lack {row}" for row in (wanted - had).elements()]
        found.wrong += [f"{group}: {table} have {row} too many" for row in (had - wanted).elements()]
    compare_owners(found, played, ledger)
    found.triggers += [
        Guessed(trigger(played, logged, row), row["inferred_trigger"], row["inferred_trigger_confidence"])
        for row in rows["rebalances"]
        if not row["is_hole"]
    ]
    findings = [each for each in replay(group, partition, summaries(marked)) if each.severity == "error"]
    found.wrong += [f"{group}: {finding}" for finding in findings]


def trigger(played: Played, logged: LoggedGroup, row: dict[str, Any]) -> str:
    """Returns the true trigger of a rebalance: the server log's, or a poll timeout if the member that left had a
    stalled poll loop. Only Java's client gives the broker that reason to leave; the others give none."""
    leaver = logged.leavers.get(row["to_generation"], "")
    if any(leaver.startswith(f"{client_id}-") for client_id in played.stalled):
        return "left_poll_timeout"
    return logged.triggers[row["to_generation"]]


def expected_generation(row: Recorded) -> tuple[Any, ...]:
    return (row.generation, row.revision, row.leader, row.member_count)


def found_generations(ledger: Ledger, recorded: Iterable[Recorded]) -> Iterable[tuple[Any, ...]]:
    """Yields the folded generations in the form of `expected_generation`. If a leader was replaced, the server log does
    not have its new id. Then the row has no leader if it differs from the old one."""
    old_leaders = {(row.generation, row.revision): row.old_leader for row in recorded if row.old_leader is not None}
    for row in ledger.rows["generations"]:
        if row["generation"] == 0:
            continue  # the group's creation, which the server log does not mention
        place = (row["generation"], row["revision"])
        is_new_leader = place in old_leaders and row["leader"] not in (None, old_leaders[place])
        yield (*place, None if is_new_leader else row["leader"], row["member_count"])


def expected_rebalances(logged: LoggedGroup) -> Iterable[tuple[Any, ...]]:
    last = 0
    for row in logged.recorded:
        if row.revision == 0:
            lost = sum(last < number < row.generation for number in logged.begun)
            yield (last, row.generation, row.member_count, lost, bool(lost))
            last = row.generation


def found_rebalances(ledger: Ledger) -> Iterable[tuple[Any, ...]]:
    columns = ("from_generation", "to_generation", "member_count", "generation_gap", "is_hole")
    return (tuple(row[name] for name in columns) for row in ledger.rows["rebalances"])


def compare_owners(found: Comparison, played: Played, ledger: Ledger) -> None:
    source = random.Random(played.case.group)
    clients = {row["member_id"]: row["client_id"] for row in ledger.rows["members"]}
    for period in played.periods:
        for at_ms in matrix.instants(period, INSTANTS_PER_PERIOD, source):
            for unit, owner in period.owners.items():
                answer = ledger.owner(*unit, at_ms)
                found.counts["owners at an instant"] += 1
                if [clients[member_id] for member_id in answer.member_ids] != [owner]:
                    found.wrong.append(f"{played.case.group}: {unit} at {at_ms}: {answer}, not {owner}")
