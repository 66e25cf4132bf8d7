"""Prints the most important findings of a demo's ledger, a few lines each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.jobs.process.terminal import print_table
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.transforms.history.group_activity import rebalance_counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger

ROWS = 10


def show_findings(ledger: Ledger) -> None:
    show("Records of __consumer_offsets", record_types(ledger.rows(COORDINATOR_RECORDS)))
    show("Groups", group_types(ledger.rows(GROUPS)))
    show("Who rebalances most", busiest(ledger.rows(REBALANCES)))
    show("Most lag, at the last sample", furthest_behind(ledger.rows(LAG)))
    show("Incidents", incident_kinds(ledger.rows(INCIDENTS)))


def show(title: str, rows: DataFrame) -> None:
    print_table(title, [name.replace("_", " ") for name in rows.columns], rows.collect())


def record_types(records: DataFrame) -> DataFrame:
    counts = records.groupBy("record_type").agg(
        F.count("*").alias("records"),
        F.count_if("is_tombstone").alias("tombstones"),
        F.count("decode_error").alias("undecodable"),
    )
    return counts.orderBy("record_type")


def group_types(groups: DataFrame) -> DataFrame:
    counts = groups.groupBy("group_type").agg(
        F.count("*").alias("groups"), F.count_if("is_alive").alias("alive"), F.sum("member_count").alias("members")
    )
    return counts.orderBy("group_type")


def busiest(rebalances: DataFrame) -> DataFrame:
    columns = ("rebalances", "increments_without_record", "partitions_moved", "longest_pause_upper_ms")
    counts = rebalance_counts(rebalances).orderBy(F.desc("rebalances"), "group_id").limit(ROWS)
    return counts.select("group_id", *columns, "most_frequent_trigger")


def furthest_behind(lag: DataFrame) -> DataFrame:
    last = lag.agg(F.max("sampled_at").alias("sampled_at"))
    behind = lag.join(last, "sampled_at").where(F.col("lag") > 0)
    columns = ("group_id", "topic", "partition", "lag", "lag_seconds", "status")
    return behind.select(*columns).orderBy(F.desc("lag"), "group_id", "topic", "partition").limit(ROWS)


def incident_kinds(incidents: DataFrame) -> DataFrame:
    counts = incidents.groupBy("severity", "kind", "evidence").agg(
        F.count("*").alias("incidents"),
        F.sum("occurrences").alias("occurrences"),
        F.countDistinct("group_id").alias("groups"),
    )
    return counts.orderBy("severity", F.desc("incidents"), "kind", "evidence")
