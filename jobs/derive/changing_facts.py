"""Finds what is not in rows of groups and changes with time: silences of partitions, stretches of samples, offsets that
are about to expire. A digest for each group says whether the rules have something else than in the pass before."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.jobs.derive.lag_stretches import shortest_ms
from groupledger.jobs.process.clock import DAY_MS
from groupledger.jobs.warehouse.tables import ended_since, every_row, is_open
from groupledger.schemas.tables.committed_offsets import COMMITTED_OFFSETS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.member_epochs import MEMBER_EPOCHS
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.transforms.incidents.candidates import held_partitions
from groupledger.transforms.incidents.commit_steps import is_telling
from groupledger.transforms.incidents.incidents import STEP_COLUMNS
from groupledger.transforms.incidents.lag_stretches import is_long
from groupledger.transforms.incidents.offset_facts import may_matter, old_offsets
from groupledger.transforms.lag.lag import sampled_within

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from groupledger.jobs.derive.commit_steps import CommitSteps
    from groupledger.jobs.derive.judged_groups import Judged
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.transforms.incidents.rules import Rules

STEPS, HELD, DUE, LAG_STRETCHES, SHORT = "steps", "held", "due", "lag_stretches", "short_stretches"
BY_TIME = (HELD, DUE, "lag_rounds")
"""Sources whose rows change with time, or mean something else then: their groups are judged in each pass."""
SAMPLED_WITHIN_MS = 3_600_000  # a partition that was not sampled for so long is looked up


@dataclass
class ChangingFacts:
    """Digests by source and group, the groups with suspicious steps, and those whose records wait after a last
    commit."""

    words: dict[str, dict[str, int]] = field(default_factory=dict)
    suspects: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)

    def new(self, before: Judged) -> set[str]:
        """Returns the groups of which something is other than before. Steps alone make no incident unless one is
        suspicious, but may change what else is known; so do stretches that are too short for one."""
        stretched = {*self.words.get(LAG_STRETCHES, ()), *before.words.get(LAG_STRETCHES, ())}
        counted = {STEPS: self.suspects | {*before.met}, SHORT: self.suspects | stretched}
        found: set[str] = set()
        for source in {*self.words, *before.words} - {*BY_TIME}:
            now, then = self.words.get(source, {}), before.words.get(source, {})
            other = {name for name in now.keys() | then.keys() if now.get(name) != then.get(name)}
            found |= other & counted.get(source, other)
        return found

    def by_time(self, before: Judged) -> set[str]:
        """Returns the groups that time may change, also those that it might have changed before."""
        of_sources = (each.get(source, {}) for source in BY_TIME for each in (self.words, before.words))
        return (self.waiting & (self.suspects | {*before.met})).union(*of_sources)


def changing_facts(
    ledger: Ledger, steps: CommitSteps, known: Mapping[str, DataFrame], rules: Rules, as_of_ms: int
) -> ChangingFacts:
    """Returns what there is now. `known` are the stretches and rounds, by source."""
    held = None
    if ledger.exists(MEMBER_EPOCHS):
        held = held_partitions(ledger.rows_within(MEMBER_EPOCHS, is_open), rules, as_of_ms)
    showing = _showing(ledger, steps.new, known, held, rules, as_of_ms)
    is_waiting = F.col("next_kafka_offset").isNull() & F.col("waiting_from_ms").isNotNull()
    of_steps = showing.select("is_suspect", is_waiting.cast("int").alias("is_waiting"), *_columns_of_steps())
    parts = [_digests(STEPS, of_steps, ("is_suspect", "is_waiting"))]
    parts += [_digests(source, rows) for source, rows in known.items() if source != LAG_STRETCHES]
    if LAG_STRETCHES in known:
        # A group that reads what transactions wrote waits for one in every other round.
        enough = is_long(shortest_ms(rules.commit_gap_ms))
        parts.append(_digests(LAG_STRETCHES, known[LAG_STRETCHES].where(enough)))
        parts.append(_digests(SHORT, known[LAG_STRETCHES].where(~enough)))
    if held is not None:
        parts.append(_digests(HELD, held.select("group_id")))
    due = _due(ledger, rules, as_of_ms)
    if due is not None:
        parts.append(_digests(DUE, due))
    found = ChangingFacts()
    for row in reduce(lambda one, other: one.union(other), parts).collect():
        found.words.setdefault(row["source"], {})[row["group_id"]] = row["digest"]
        if row["is_suspect"]:
            found.suspects.add(row["group_id"])
        if row["is_waiting"]:
            found.waiting.add(row["group_id"])
    return found


def _showing(
    ledger: Ledger,
    steps: DataFrame,
    known: Mapping[str, DataFrame],
    held: DataFrame | None,
    rules: Rules,
    as_of_ms: int,
) -> DataFrame:
    """Returns the steps that rules may look at: suspicious ones, silences that are too long for the usual interval, and
    those with records that wait in a group that has no members, or had none lately, or rebalances."""
    is_recent = ended_since(GENERATIONS, max(as_of_ms - DAY_MS, 0))
    empty = ledger.rows_within(GENERATIONS, is_recent).where("member_count = 0")
    found = [each.select("group_id") for each in (empty, known.get("rebalance_stretches"), held) if each is not None]
    stopped = reduce(lambda one, other: one.union(other), found)
    stopped = stopped.distinct().withColumn("is_stopped", F.lit(True))
    is_showing = is_telling(rules, as_of_ms)
    is_showing |= F.col("waiting_from_ms").isNotNull() & F.coalesce("is_stopped", F.lit(False))
    return steps.join(F.broadcast(stopped), "group_id", "left").where(is_showing)


def _columns_of_steps() -> list[Column]:
    """Returns the columns of steps. What samples show of an idle partition changes with each of them, and no rule reads
    it."""
    is_idle = F.col("next_kafka_offset").isNull() & F.col("waiting_from_ms").isNull()
    idle = {name: F.when(~is_idle, F.col(name)).alias(name) for name in ("high_watermark", "idle_until_ms")}
    return [idle.get(name, F.col(name)) for name in STEP_COLUMNS]


def _digests(source: str, rows: DataFrame, flags: Sequence[str] = ()) -> DataFrame:
    digested = [name for name in rows.columns if name not in flags]
    of_flags = [(F.max(name) if name in flags else F.lit(0)).alias(name) for name in ("is_suspect", "is_waiting")]
    of_rows = F.bit_xor(F.xxhash64(F.to_json(F.struct(*digested)))).alias("digest")
    found = rows.groupBy("group_id").agg(of_rows, *of_flags)
    return found.select(F.lit(source).alias("source"), "group_id", "digest", "is_suspect", "is_waiting")


def _due(ledger: Ledger, rules: Rules, as_of_ms: int) -> DataFrame | None:
    """Returns the groups that may lose something with an offset that is about to expire."""
    if not (ledger.exists(COMMITTED_OFFSETS) and ledger.exists(GROUPS) and ledger.exists(WATERMARKS)):
        return None
    committed, coverage = (ledger.rows_within(table, every_row) for table in (COMMITTED_OFFSETS, COVERAGE))
    old = old_offsets(committed, ledger.rows_within(GENERATIONS, is_open), coverage, rules, as_of_ms)
    topics = [row["topic"] for row in old.select("topic").distinct().collect()]
    if not topics:
        return None
    is_newest = sampled_within(max(as_of_ms - SAMPLED_WITHIN_MS, 0), as_of_ms)
    return may_matter(old, ledger.rows_named(WATERMARKS, "topic", topics, is_newest)).select("group_id")
