"""Stores the state of the lag after a sampling round, from which the next round continues, so that earlier rounds are
not read again. The rows of this state are called seeds (`transforms.lag.lag_seeds`, table `lag_seeds`).

When the stored seeds lack an hour of rounds or more, one Delta commit replaces them, and its batch number is the time
of their last round; each run reads later rounds again. If seeds are missing, or newer than the rows of `lag` (because
that table was restored), all rounds are read again, which gives the same rows and takes longer. The same happens after
a rebuild of the history, because records that were already read may have changed (`drop_seeds`). Retention does not
remove seeds, so a seed may have a commit whose record is gone. Such seeds are always used (`first_seeds`).

Rounds come in order, so later ones are found by their dates. A commit may have been ingested long before a round counts
it: so the seeds have the earliest ingest date of such commits. Reading begins a day earlier, since clocks may have been
set back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from groupledger.jobs.ingest.samples import batch_of, last_sampled_at_ms
from groupledger.jobs.process.clock import DAY_MS
from groupledger.jobs.warehouse.ledger import first_day_ms, of_removed_records, records_since
from groupledger.jobs.warehouse.progress import KEPT_EVERY_MS
from groupledger.jobs.warehouse.tables import collect, every_row
from groupledger.jobs.warehouse.upsert import replace_cluster
from groupledger.schemas.tables.lag_seeds import LAG_SEEDS
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.schemas.words import LagSeedKind
from groupledger.transforms.lag.lag import is_below, sampled_within
from groupledger.transforms.lag.lag_seeds import SEED_ROWS, last_ends, next_seeds, of_kind
from groupledger.transforms.lag.rules import End
from groupledger.transforms.offsets.offset_commits import commit_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.transforms.lag.rules import LagRules


@dataclass(frozen=True)
class Seeds:
    """The state after the rounds up to `sampled_at_ms`. `ends` has, by partition of `__consumer_offsets`, the end from
    which the next round starts, with the time of the round that saw it. Commits that no round has counted were ingested
    on the day of `ingested_from_ms` or later."""

    rows: DataFrame
    sampled_at_ms: int = 0
    ends: Mapping[int, tuple[int, End]] = field(default_factory=dict)
    ingested_from_ms: int | None = None

    @property
    def history_from_ms(self) -> int | None:
        """Returns an instant; the next round needs no row of the history that ended before it. Returns None if it may
        need all rows."""
        seen = [sampled_at_ms for sampled_at_ms, _ in self.ends.values()]
        return min(seen) - DAY_MS if seen else None


def first_seeds(ledger: Ledger) -> Seeds:
    """Returns the seeds with which a computation of all rounds begins: the commits whose records retention has
    removed."""
    commits = of_kind(ledger.rows_within(LAG_SEEDS, every_row), LagSeedKind.COMMIT)
    return Seeds(of_removed_records(ledger, commits.select(*SEED_ROWS.names)))


def seeds_at(ledger: Ledger, last_ms: int, rules: LagRules) -> Seeds:
    """Returns the seeds after the round at `last_ms`: the state from which the lag of the next round is computed.
    Stores them if none are stored, or if the stored ones are an hour or more older."""
    ledger.create(LAG_SEEDS)
    stored = _stored_seeds(ledger, last_ms, rules)
    if stored.sampled_at_ms == last_ms:
        return stored
    if not stored.sampled_at_ms:
        ledger.say("lag: nothing is kept of the earlier rounds, and all of them are read again")
    found = _advanced(ledger, stored, last_ms, rules)
    if last_ms - stored.sampled_at_ms < KEPT_EVERY_MS:
        return found
    return _stored_seeds(ledger, last_ms, rules) if _keep(ledger, found, rules) else found


def drop_seeds(ledger: Ledger) -> None:
    """Deletes the stored seeds, because the records that they come from have changed. Seeds that are commits are not
    deleted, since the records of some are gone."""
    if ledger.exists(LAG_SEEDS):
        ledger.create(LAG_SEEDS)
        ledger.commits.delete(LAG_SEEDS, f"cluster = '{ledger.cluster}' AND kind <> '{LagSeedKind.COMMIT}'")


def _stored_seeds(ledger: Ledger, last_ms: int, rules: LagRules) -> Seeds:
    stored_ms = last_sampled_at_ms(ledger, LAG_SEEDS)
    if not 0 < stored_ms <= last_ms:
        return first_seeds(ledger)
    rows = ledger.rows_within(LAG_SEEDS, every_row).select(*SEED_ROWS.names)
    of_job = collect(of_kind(rows, LagSeedKind.INGESTED, LagSeedKind.END))
    ingested = next((row for row in of_job if row["kind"] == LagSeedKind.INGESTED), None)
    if ingested is None or ingested["commits_kept"] < rules.burrow.intervals:
        return first_seeds(ledger)  # they were dropped, or are too few for the settings of today
    ends = _ends_of(row for row in of_job if row["kind"] == LagSeedKind.END)
    return Seeds(rows, stored_ms, ends, ingested["at_ms"])


def _advanced(ledger: Ledger, stored: Seeds, last_ms: int, rules: LagRules) -> Seeds:
    new = ledger.rows_within(WATERMARKS, sampled_within(stored.sampled_at_ms + 1, last_ms))
    ends = _ends_of(collect(last_ends(stored.rows, new)))
    records = records_since(ledger, stored.ingested_from_ms)
    commits = commit_log(records).where(is_below(ends) & ~is_below(stored.ends))
    return Seeds(next_seeds(stored.rows, new, commits, ends, rules), last_ms, ends, stored.ingested_from_ms)


def _ends_of(rows: Iterable[Mapping[str, Any]]) -> dict[int, tuple[int, End]]:
    return {
        row["kafka_partition"]: (
            row["at_ms"],
            End(row["last_stable_offset"], is_behind=row["last_stable_offset"] < row["high_watermark"]),
        )
        for row in rows
    }


def _keep(ledger: Ledger, seeds: Seeds, rules: LagRules) -> bool:
    """Replaces the seeds in the table; returns False if it has later ones."""
    records = records_since(ledger, seeds.ingested_from_ms)
    day = F.unix_date("ingest_date")
    uncounted, last = records.agg(F.min(F.when(~is_below(seeds.ends), day)), F.max(day)).collect()[0]
    since_ms = first_day_ms(uncounted, last) or 0
    ingested = ledger.spark.createDataFrame(
        [(LagSeedKind.INGESTED, since_ms, rules.burrow.intervals)], "kind string, at_ms long, commits_kept int"
    )
    rows = seeds.rows.unionByName(ingested, allowMissingColumns=True)
    about = ("kind", "group_id", "topic", "partition", "topic_id", "kafka_partition", "kafka_offset", "at_ms")
    rows = rows.withColumns({"cluster": F.lit(ledger.cluster), "seed_id": F.sha2(F.to_json(F.struct(*about)), 256)})
    return replace_cluster(ledger, LAG_SEEDS, rows, batch_of(ledger, LAG_SEEDS, seeds.sampled_at_ms))
