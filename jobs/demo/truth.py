"""Compares the demo's ledger with what really happened, in numbers.

Nobody can know a record that Kafka removed from `__consumer_offsets` before it was read. So generations, owners and
causes of the truth count only if their record is in `coordinator_records`. Results that the ledger calls unknown count
as missing, not as wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.jobs.process.terminal import print_table
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kinds.incidents import KIND_OF_ERROR
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.words import Evidence
from groupledger.transforms.history.group_activity import true_rebalances
from groupledger.transforms.logs.rebalance_triggers import with_triggers

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger

# The kinds of incidents that are refused requests, with the error that each is.
# A commit with an epoch that is just over is tried again with the next, which harms nobody and is no incident.
ERRORS = {
    KIND_OF_ERROR[error].name: error.name
    for error in Error
    if error in KIND_OF_ERROR and error is not Error.STALE_MEMBER_EPOCH
}

Counts = tuple[int, int, int]


def show_truth(ledger: Ledger, directory: Path) -> None:
    rows = [(what, *counts) for what, counts in beside_truth(ledger, directory).items()]
    print_table("Beside what really happened", ("what", "right", "missing", "too many"), rows)


def beside_truth(ledger: Ledger, directory: Path) -> dict[str, Counts]:
    """Returns, for each kind of fact, how many facts are in both the truth and the ledger, only in the truth, and only
    in the ledger. `directory` has the truth that `simulate` wrote."""
    generations, owners, causes, rejections, epochs, holdings = (
        ledger.spark.read.parquet(str(directory / f"{name}.parquet"))
        for name in ("generations", "owners", "causes", "rejections", "epochs", "holdings")
    )
    classic_positions = positions(ledger, F.col("record_type") == "group_metadata")
    modern_positions = positions(ledger, F.col("record_type").startswith("consumer_group_"))
    generations = at(classic_positions, generations)
    owners = at(classic_positions, owners.withColumn("kafka_offset", F.col("from_kafka_offset")))
    recorded = generations.where("revision = 0").withColumnRenamed("generation", "to_generation")
    causes = causes.where("from_generation > 0").join(recorded, [*REBALANCES.key[1:]], "left_semi")
    rebalances = true_rebalances(with_triggers(ledger.rows(REBALANCES), ledger.rows(COORDINATOR_EVENTS)))
    rebalances = at(classic_positions, rebalances)
    found, owned_rows = ledger.rows(GENERATIONS), owned(ledger)
    refused = rejections.where(F.col("error").isin(*ERRORS.values()))
    return {
        "generations": compare(
            generation_keys(generations, F.size("member_ids")),
            generation_keys(at(classic_positions, found), F.col("member_count")),
        ),
        "intervals of ownership": compare(true_owners(owners), true_owners(at(classic_positions, owned_rows))),
        "epochs of KIP-848 groups": compare(epochs.select(*EPOCH), found_epochs(at(modern_positions, found))),
        "intervals in which their members had a partition": compare(
            holdings.select(*HOLDING),
            at(modern_positions, owned_rows).select(*HOLDING),
        ),
        "what started a rebalance, by the log": compare(triggers(causes, "trigger"), triggers(rebalances, "trigger")),
        "the same, inferred": compare(triggers(causes, "trigger"), triggers(rebalances, "inferred_trigger")),
        "refused requests": compare(refused.groupBy("group_id", "error").agg(weight(F.count("*"))), refusals(ledger)),
    }


def weight(number: Column) -> Column:
    return number.alias("weight")


def compare(truth: DataFrame, found: DataFrame) -> Counts:
    """Returns how many rows are in both multisets, only in `truth` and only in `found`. Both have the same columns. If
    there is a column `weight`, a row counts as often as its value."""
    nothing = F.lit(0)
    columns = [name for name in truth.columns if name != "weight"]

    def part(rows: DataFrame, *, is_true: bool) -> DataFrame:
        number = F.col("weight") if "weight" in rows.columns else F.lit(1)
        return rows.select(
            *columns,
            (number if is_true else nothing).alias("happened"),
            (nothing if is_true else number).alias("found"),
        )

    both = part(truth, is_true=True).unionByName(part(found, is_true=False))
    counts = both.groupBy(*columns).agg(F.sum("happened").alias("happened"), F.sum("found").alias("found"))
    right = F.sum(F.least("happened", "found"))
    row = counts.select(right, F.sum("happened") - right, F.sum("found") - right).collect()[0]
    both_count, missing, too_many = (count or 0 for count in row)  # a sum of nothing is null
    return both_count, missing, too_many


def generation_keys(rows: DataFrame, member_count: Column) -> DataFrame:
    columns = ("group_id", "incarnation", "generation", "revision", "leader", "kafka_offset")
    return rows.select(*columns, member_count.alias("member_count"))


def positions(ledger: Ledger, condition: Column) -> DataFrame:
    """Returns group id and offset of the records in `coordinator_records` that match a condition."""
    return ledger.rows(COORDINATOR_RECORDS).where(condition).select("group_id", "kafka_offset")


def at(positions: DataFrame, rows: DataFrame) -> DataFrame:
    """Returns the rows whose record is at one of the positions."""
    return rows.join(positions, ["group_id", "kafka_offset"], "left_semi")


EPOCH = ("group_id", "incarnation", "epoch", "started_at_ms", "ended_at_ms")
OWNER = ("group_id", "incarnation", "topic", "partition", "member_id", "client_id")
HOLDING = (*OWNER, "valid_from_ms", "valid_to_ms")


def found_epochs(rows: DataFrame) -> DataFrame:
    """Returns a row for each epoch, from the start of its first to the end of its last revision: a static member that
    comes back makes a revision. Epochs that ended at the instant they began are left out, as that of an upgrade to
    KIP-848, which ends when the first KIP-848 member joins."""
    epochs = rows.groupBy("group_id", "incarnation", F.col("generation").alias("epoch")).agg(
        F.unix_millis(F.min("started_at")).alias("started_at_ms"),
        F.unix_millis(F.max_by("ended_at", "kafka_offset")).alias("ended_at_ms"),
    )
    return epochs.where("ended_at_ms is null or ended_at_ms > started_at_ms")


def true_owners(rows: DataFrame) -> DataFrame:
    return rows.select(*OWNER, "kafka_offset", "to_kafka_offset")


def owned(ledger: Ledger) -> DataFrame:
    """Returns the intervals of ownership, with the names and units of the truth."""
    return ledger.rows(ASSIGNMENTS).select(
        *OWNER,
        F.col("from_offset").alias("kafka_offset"),
        F.col("to_offset").alias("to_kafka_offset"),
        F.unix_millis("valid_from").alias("valid_from_ms"),
        F.unix_millis("valid_to").alias("valid_to_ms"),
    )


def triggers(rows: DataFrame, column: str) -> DataFrame:
    """Returns the rebalances in which the column has a value."""
    return rows.where(F.col(column).isNotNull()).select(*REBALANCES.key[1:], F.col(column).alias("trigger"))


def refusals(ledger: Ledger) -> DataFrame:
    incidents = ledger.rows(INCIDENTS).where((F.col("evidence") == Evidence.OBSERVED) & F.col("kind").isin(*ERRORS))
    error = F.element_at(F.create_map(*[F.lit(word) for pair in ERRORS.items() for word in pair]), F.col("kind"))
    return incidents.groupBy("group_id", error.alias("error")).agg(weight(F.sum("occurrences")))
