"""Computes the rows of `lag` for the sampling rounds that have none yet.

A round can be computed when `__consumer_offsets` is read up to the ends that the round saw there; the run ends at the
first round that can't, so that rounds stay in order. Rounds are appended in parts, each in one Delta commit whose
batch is numbered by its last round: a part that is written again is left out, and a killed run goes on behind the last
part.

The history must be up to date before, since the owners of a round come from its tables.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.jobs.ingest.samples import append_rows, batch_of, last_sampled_at_ms
from groupledger.jobs.process.settings import rules_from
from groupledger.jobs.warehouse.ledger import known_positions
from groupledger.jobs.warehouse.tables import collect
from groupledger.jobs.warehouse.upsert import append
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.group_states import GROUP_STATES
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.transforms.coverage.rules.coverage_at import hidden_ends
from groupledger.transforms.lag.lag import (
    LagInputs,
    at_ms,
    commit_events,
    fold_lag,
    history_events,
    is_below,
    lag_batch,
    lag_events,
)
from groupledger.transforms.lag.lag_seeds import group_seeds, topic_seeds
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

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.tables import ClusterTables, Tables
    from groupledger.transforms.lag.rules import GroupHistory, LagRow

OPEN_ONLY = 2**63 - 1  # an offset that no record has

# How many rounds are folded at once: a task holds all events of a group in them. 288 are a day at five minutes.
ROUNDS_PER_PART = 288


# Into the table


def update_lag(ledger: Ledger, stop: threading.Event) -> int:
    """Computes all rounds that can be computed and have no rows yet; returns how many."""
    rules = rules_from(LagRules, ledger.settings.lag)
    ledger.create(LAG)
    last_ms = last_sampled_at_ms(ledger, LAG)
    waiting = rounds_after(ledger, last_ms)
    positions = known_positions(ledger)
    ready = 0
    while ready < len(waiting) and is_read_to(waiting[ready][1], positions):
        ready += 1
    hidden = hidden_ends_of(ledger)
    done = 0
    while done < ready and not stop.is_set():
        ledger.lease.check()
        part = waiting[done : min(done + ROUNDS_PER_PART, ready)]
        rows = lag_of(ledger, part, last_ms, rules, hidden)
        last_ms = part[-1][0]
        append(ledger, LAG, with_keys(rows, ledger.cluster), batch_of(ledger, LAG, last_ms))
        done += len(part)
        ledger.say(f"lag: {done:,} of {ready:,} rounds computed")
    if ready < len(waiting):
        ledger.say(f"lag: {len(waiting) - ready:,} rounds wait until the log is read up to them")
    return done


def lag_of(
    tables: Tables,
    part: list[tuple[int, dict[int, End]]],
    last_ms: int,
    rules: LagRules,
    hidden: Mapping[int, Sequence[int]],
) -> DataFrame:
    """Returns the rows of consecutive rounds, starting from the rows of the rounds up to `last_ms`. `hidden` is where
    the log hides ends."""
    inputs = inputs_of(tables)
    rounds = RoundsToCompute(part, ends_until(inputs.watermarks, last_ms), hidden)
    # In a first run this is a constant, from which Spark's optimizer sees what it can leave out.
    before = inputs.watermarks.where(F.lit(last_ms > 0) & (at_ms() <= last_ms))
    lag = last_window(tables, last_ms, rules)
    seeds = group_seeds(before, inputs.commits, lag, rounds.ends_before, rules)
    events = lag_events(inputs, rounds, seeds, topic_seeds(before))
    return fold_lag(events, rounds, rules)


def hidden_ends_of(tables: ClusterTables) -> dict[int, list[int]]:
    """Returns where the log hides what became of groups and offsets (`LagState.hide_ends`)."""
    return hidden_ends(tables.arrow(COVERAGE).to_pylist()) if tables.exists(COVERAGE) else {}


def last_window(tables: Tables, last_ms: int, rules: LagRules) -> DataFrame:
    """Returns the last rows of `lag`. Times are compared as timestamps, so that Delta skips files by their
    statistics."""
    begin, end = (F.timestamp_millis(F.lit(at)) for at in (last_ms - rules.status.window_ms, last_ms))
    return tables.rows_if_any(LAG).where(F.lit(last_ms > 0) & F.col("sampled_at").between(begin, end))


def inputs_of(tables: Tables) -> LagInputs:
    """Returns the rows of the input tables, none for a missing table: a monitor starts before there is any history."""
    states, generations, members, assignments, watermarks = map(
        tables.rows_if_any, (GROUP_STATES, GENERATIONS, MEMBERS, ASSIGNMENTS, WATERMARKS)
    )
    commits = commit_log(tables.rows_if_any(COORDINATOR_RECORDS))
    return LagInputs(watermarks, states, commits, generations, members, assignments)


def rounds_after(tables: Tables, last_ms: int) -> list[tuple[int, dict[int, End]]]:
    """Returns the later rounds of `watermarks`, with the ends of `__consumer_offsets` that each saw."""
    new = tables.rows_if_any(WATERMARKS).where(F.col("sampled_at") > F.timestamp_millis(F.lit(last_ms)))
    is_end = F.col("topic") == OFFSETS_TOPIC
    found: dict[int, dict[int, End]] = {row[0]: {} for row in new.select(at_ms()).distinct().collect()}
    for sampled_at_ms, partition, stable, end in (
        new.where(is_end).select(at_ms(), "partition", "last_stable_offset", "high_watermark").collect()
    ):
        if stable is not None:
            found[sampled_at_ms][partition] = End(stable, is_behind=stable < end)
    return sorted(found.items())


def ends_until(watermarks: DataFrame, last_ms: int) -> dict[int, tuple[int, End]]:
    """Returns for each partition of `__consumer_offsets` the last round up to an instant that saw its end, and that
    end."""
    is_end = (F.col("topic") == OFFSETS_TOPIC) & F.col("last_stable_offset").isNotNull() & (at_ms() <= last_ms)
    newest = F.max(F.struct(at_ms().alias("at_ms"), "last_stable_offset", "high_watermark")).alias("newest")
    found = watermarks.where(is_end).groupBy("partition").agg(newest).select("partition", "newest.*").collect()
    return {partition: (read_ms, End(stable, is_behind=stable < end)) for partition, read_ms, stable, end in found}


# For a monitor


def recover_state(ledger: Ledger, log: DataFrame, rules: LagRules) -> LagState:
    """Returns the state behind the last round of the table `lag`. `log` is a `commit_log`: its commits that no round
    has counted yet wait in the state, and are passed over when they are told again."""
    last_ms = last_sampled_at_ms(ledger, LAG)
    watermarks = ledger.rows_if_any(WATERMARKS).where(at_ms() <= last_ms)
    ends_before = ends_until(watermarks, last_ms)
    lag = last_window(ledger, last_ms, rules)
    state = LagState(rules)
    of_topics = by_kind(collect(topic_seeds(watermarks)))
    restore_topics(state, of_topics.get(TOPIC, []), of_topics.get(SAMPLE, []))
    is_counted = is_below(ends_before)
    seeds = group_seeds(watermarks, log, lag, ends_before, rules)
    events = seeds.unionByName(commit_events(log.where(~is_counted)), allowMissingColumns=True)
    ordered = sorted(collect(events), key=itemgetter("group_id", "kind"))
    for group_id, rows in groupby(ordered, key=itemgetter("group_id")):
        kinds = by_kind(rows)
        restore_group(state, group_id, kinds.get(COMMIT, []), kinds.get(POINT, []), RoundsToCompute([], ends_before))
    state.hide_ends(hidden_ends_of(ledger))
    return state


def group_histories(tables: Tables) -> dict[str, GroupHistory]:
    """Returns who owns and subscribes to what now, by group: `facts_at` with a position behind the newest record."""
    inputs = inputs_of(tables)
    ordered = sorted(collect(history_events(inputs, OPEN_ONLY)), key=itemgetter("group_id", "kind"))
    return {group_id: group_history(by_kind(of)) for group_id, of in groupby(ordered, key=itemgetter("group_id"))}


def append_lag(ledger: Ledger, sampled_at_ms: int, rows: Sequence[LagRow]) -> None:
    """Appends the rows of a round that was computed in memory."""
    batch = lag_batch(rows)
    columns = {name: batch.column(name) for name in batch.schema.names if name != "sampled_at"}
    append_rows(ledger, LAG, columns, sampled_at_ms)


def with_keys(rows: DataFrame, cluster: str) -> DataFrame:
    return rows.withColumns({"cluster": F.lit(cluster), "sample_date": F.to_date("sampled_at")})
