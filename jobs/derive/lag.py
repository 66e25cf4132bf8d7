"""Computes the rows of `lag` for the sampling rounds that have none yet.

A round can be computed when `__consumer_offsets` is read up to the ends that the round saw there. The run ends before
the first round for which this is not so, so that rounds stay in order. Rounds are appended in parts. Each part is one
Delta commit, and its batch number is the time of its last round: so a part that is written again is skipped, and the
run after a kill continues after the last part.

The history must be updated before, since the owners of a round come from its tables.

The cost of a run depends on the new rounds only. The state after earlier rounds is stored (`jobs.derive.lag_seeds`),
and of the history only intervals are read that are open or ended no more than a day before the new rounds. The offsets
of the log decide which of these intervals hold; the extra day is for a broker whose clock is late.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from pyspark.sql import functions as F

from groupledger.jobs.derive.lag_seeds import first_seeds, seeds_at
from groupledger.jobs.derive.troubles import gathering, groups_in, look_for_anybody, note_troubles
from groupledger.jobs.ingest.samples import append_rows, batch_of, last_sampled_at_ms
from groupledger.jobs.process.settings import rules_from
from groupledger.jobs.warehouse.ledger import known_positions, records_since
from groupledger.jobs.warehouse.source import read_source
from groupledger.jobs.warehouse.tables import dicts_in_order, ended_since, every_row, is_open
from groupledger.jobs.warehouse.upsert import append
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.group_states import GROUP_STATES
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.schemas.words import LagSeedKind, TroubledStep
from groupledger.transforms.coverage.rules.coverage_at import hidden_ends
from groupledger.transforms.coverage.rules.losses import LogLosses, thinned_stretches
from groupledger.transforms.lag.lag import (
    LagInputs,
    at_ms,
    commit_events,
    fold_lag,
    history_events,
    is_below,
    lag_events,
    lag_table,
    sampled_within,
)
from groupledger.transforms.lag.lag_seeds import as_events, last_points
from groupledger.transforms.lag.rules import End, LagRules, LagState, is_read_to
from groupledger.transforms.lag.rules.of_group import (
    COMMIT,
    POINT,
    SAMPLE,
    TOPIC,
    RoundsToCompute,
    by_kind,
    group_history,
    restore_group,
    restore_topics,
)
from groupledger.transforms.offsets.offset_commits import commit_log
from groupledger.transforms.troubles import each_judged, stop

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from groupledger.jobs.derive.lag_seeds import Seeds
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.tables import Tables
    from groupledger.transforms.lag.rules import GroupHistory, LagRow
    from groupledger.transforms.troubles import Report

HISTORY = (GENERATIONS, MEMBERS, ASSIGNMENTS)  # they say who owned what
OPEN_ONLY = 2**63 - 1  # an offset that no record has
LAST_MS = 253_402_300_799_999  # the end of the year 9999, the last that Spark has dates for

# How many rounds are folded at once: a task holds all events of a group in them. 288 are a day at five minutes.
ROUNDS_PER_PART = 288


# Into the table


def update_lag(ledger: Ledger, stop: threading.Event) -> int:
    """Computes all rounds that can be computed and have no rows in `lag` yet; returns the number of these rounds."""
    rules = rules_from(LagRules, ledger.settings.lag)
    ledger.create(LAG)
    last_ms = last_sampled_at_ms(ledger, LAG)
    waiting = rounds_after(ledger, last_ms)
    if not waiting:
        return 0
    seeds = _seeds(ledger, last_ms, rules)
    positions = known_positions(ledger, records_since(ledger, seeds.ingested_from_ms))
    ready = 0
    while ready < len(waiting) and is_read_to(waiting[ready][1], positions):
        ready += 1
    losses = log_losses(ledger)
    report = gathering(ledger)
    done = 0
    while done < ready and not stop.is_set():
        ledger.lease.check()
        part = waiting[done : min(done + ROUNDS_PER_PART, ready)]
        if seeds.sampled_at_ms < last_ms:
            seeds = _seeds(ledger, last_ms, rules)
        rows = lag_of(ledger, part, seeds, rules, losses, report)
        last_ms = part[-1][0]
        append(ledger, LAG, with_keys(rows, ledger.cluster), batch_of(ledger, LAG, last_ms))
        done += len(part)
        ledger.say(f"lag: {done:,} of {ready:,} rounds computed")
    if done:
        note_troubles(ledger, TroubledStep.LAG, report.taken())
        in_last = sampled_within(last_ms, last_ms)(pc.field)
        look_for_anybody(ledger, TroubledStep.LAG, lambda: groups_in(ledger, LAG, in_last))
    if ready < len(waiting):
        ledger.say(f"lag: {len(waiting) - ready:,} rounds wait until the log is read up to them")
    return done


def _seeds(ledger: Ledger, last_ms: int, rules: LagRules) -> Seeds:
    return seeds_at(ledger, last_ms, rules) if last_ms else first_seeds(ledger)


def lag_of(
    tables: Tables,
    part: list[tuple[int, dict[int, End]]],
    seeds: Seeds,
    rules: LagRules,
    losses: LogLosses,
    report: Report = stop,
) -> DataFrame:
    """Returns the rows of `lag` for the consecutive rounds in `part`, continuing from the state `seeds`. Errors on a
    group go to `report`."""
    rounds = RoundsToCompute(part, seeds.ends, losses)
    points = last_points(last_window(tables, seeds.sampled_at_ms, rules), rules)
    of_groups = as_events(seeds.rows, LagSeedKind.COMMIT).unionByName(points, allowMissingColumns=True)
    of_topics = as_events(seeds.rows, LagSeedKind.TOPIC, LagSeedKind.SAMPLE).drop("group_id")
    return fold_lag(lag_events(inputs_of(tables, part, seeds), rounds, of_groups, of_topics), rounds, rules, report)


def log_losses(ledger: Ledger) -> LogLosses:
    """Returns what the log no longer shows, for the records of the ledger: where groups may have ended without a
    record, and which stretches Kafka's cleaner had compacted before they were read."""
    hidden = hidden_ends(ledger.arrow(COVERAGE).to_pylist()) if ledger.exists(COVERAGE) else {}
    return with_thinned(ledger, LogLosses(hidden))


def with_thinned(ledger: Ledger, losses: LogLosses) -> LogLosses:
    """Returns the losses with the compacted stretches of the source's newest readings. Readings are written before
    their records, so these include the readings of all records."""
    source = read_source(ledger.storage, ledger.cluster)
    readings = {} if source is None else source.readings
    return replace(losses, thinned={partition: thinned_stretches(of) for partition, of in readings.items()})


def last_window(tables: Tables, last_ms: int, rules: LagRules) -> DataFrame:
    """Returns the rows of `lag` from the status window that ends with the round at `last_ms`."""
    return tables.rows_within(LAG, sampled_within(max(last_ms - rules.status.window_ms, 0), last_ms))


def inputs_of(tables: Tables, part: list[tuple[int, dict[int, End]]], seeds: Seeds) -> LagInputs:
    """Returns the rows that the consecutive rounds in `part`, which follow the seeds, need. If a table does not exist,
    it gives no rows: a monitor starts before there is any history."""
    in_rounds = sampled_within(part[0][0], part[-1][0])
    watermarks, states = (tables.rows_within(table, in_rounds) for table in (WATERMARKS, GROUP_STATES))
    commits = commit_log(records_since(tables, seeds.ingested_from_ms))
    return LagInputs(watermarks, states, commits, *_history(tables, seeds.history_from_ms))


def _history(tables: Tables, since_ms: int | None) -> Iterator[DataFrame]:
    """Yields the rows of each ownership table that are open or ended at `since_ms` or later; all rows if it is None."""
    for table in HISTORY:
        yield tables.rows_within(table, every_row if since_ms is None else ended_since(table, since_ms))


def rounds_after(tables: Tables, last_ms: int) -> list[tuple[int, dict[int, End]]]:
    """Returns the time of each round of `watermarks` after `last_ms`, with the ends of `__consumer_offsets` that it
    saw, by partition."""
    new = tables.rows_within(WATERMARKS, sampled_within(last_ms + 1, LAST_MS))
    is_end = F.col("topic") == OFFSETS_TOPIC
    found: dict[int, dict[int, End]] = {row[0]: {} for row in new.select(at_ms()).distinct().collect()}
    for sampled_at_ms, partition, stable, end in (
        new.where(is_end).select(at_ms(), "partition", "last_stable_offset", "high_watermark").collect()
    ):
        if stable is not None:
            found[sampled_at_ms][partition] = End(stable, is_behind=stable < end)
    return sorted(found.items())


# For a monitor


def recover_state(ledger: Ledger, rules: LagRules, report: Report = stop) -> LagState:
    """Returns the state after the last round of the table `lag`. It includes commits that no round has counted yet; if
    these are read again, they are skipped."""
    last_ms = last_sampled_at_ms(ledger, LAG)
    seeds = _seeds(ledger, last_ms, rules)
    state = LagState(rules, report)
    of_topics = as_events(seeds.rows, LagSeedKind.TOPIC, LagSeedKind.SAMPLE).toArrow()
    topics, samples = (of_topics.filter(pc.field("kind") == kind) for kind in (TOPIC, SAMPLE))
    restore_topics(state, topics.to_pylist(), dicts_in_order(samples, "at_ms"))
    log = commit_log(records_since(ledger, seeds.ingested_from_ms))
    points = last_points(last_window(ledger, last_ms, rules), rules)
    events = as_events(seeds.rows, LagSeedKind.COMMIT).unionByName(points, allowMissingColumns=True)
    events = events.unionByName(commit_events(log.where(~is_below(seeds.ends))), allowMissingColumns=True)
    ordered = dicts_in_order(events.toArrow(), "group_id", "kind")
    restored = RoundsToCompute([], seeds.ends)

    def restore(rows: Sequence[Mapping[str, Any]]) -> None:
        kinds = by_kind(rows)
        restore_group(state, rows[0]["group_id"], kinds.get(COMMIT, []), kinds.get(POINT, []), restored)

    def lose(group_id: str, error: Exception) -> None:
        state.lose(group_id)
        report(group_id, error)

    each_judged(_by_group(ordered), restore, lose)
    state.losses = log_losses(ledger)
    return state


def _by_group(ordered: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    return ((group_id, list(rows)) for group_id, rows in groupby(ordered, key=itemgetter("group_id")))


def group_histories(tables: Tables, report: Report = stop) -> dict[str, GroupHistory]:
    """Returns the present owners and subscriptions, by group. Call `facts_at` of a history with a position after the
    newest record."""
    generations, members, assignments = (tables.rows_within(table, is_open) for table in HISTORY)
    found = history_events(generations, members, assignments, OPEN_ONLY)
    ordered = dicts_in_order(found.toArrow(), "group_id", "kind")
    return each_judged(_by_group(ordered), lambda rows: group_history(by_kind(rows)), report)


def append_lag(ledger: Ledger, sampled_at_ms: int, rows: Sequence[LagRow], report: Report = stop) -> None:
    """Appends the rows of a round that was computed in memory to the table `lag`."""
    held = lag_table(rows, report)
    columns = {name: held.column(name).combine_chunks() for name in held.column_names if name != "sampled_at"}
    append_rows(ledger, LAG, columns, sampled_at_ms)


def with_keys(rows: DataFrame, cluster: str) -> DataFrame:
    return rows.withColumns({"cluster": F.lit(cluster), "sample_date": F.to_date("sampled_at")})
