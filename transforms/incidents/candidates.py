"""Finds the groups that may have an incident by what the history says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from groupledger.schemas.kinds.changes import SUBSCRIPTION_CHANGED
from groupledger.schemas.words import HoleCause
from groupledger.transforms.incidents.rules.inferred import KIND_OF_LEAVE
from groupledger.transforms.incidents.rules.patterns import FLAPPING_WINDOW_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from groupledger.transforms.incidents.rules import Rules


def history_candidates(
    generations: DataFrame, rebalances: DataFrame, members: DataFrame, rules: Rules
) -> list[DataFrame]:
    """Returns rows with `group_id`: of whoever was removed, came and went, changed its subscription, rebalanced often,
    or lost a generation."""
    changed = generations.where(
        (F.col("revision") > 0) & F.exists("changes", lambda each: each["kind"] == SUBSCRIPTION_CHANGED.name)
    )
    happened_ms = F.unix_millis("happened_at")
    in_group = Window.partitionBy("group_id").orderBy(happened_ms)
    since_ms = happened_ms - F.lag(happened_ms, rules.storm_rebalances - 1).over(in_group)
    busy = rebalances.select("group_id", since_ms.alias("since_ms"))
    busy = busy.where(F.col("since_ms") < rules.storm_window_ms)
    holes = rebalances.where(F.col("hole_cause") == HoleCause.NOT_SYNCED)
    return [_suspicious(members), _short_tenures(members, rules), changed, busy, holes]


def _suspicious(members: DataFrame) -> DataFrame:
    return members.where(F.col("leave_cause").isin(*KIND_OF_LEAVE))


def _short_tenures(members: DataFrame, rules: Rules) -> DataFrame:
    """Returns the tenures that are short, as those of the same process just before them were."""
    joined_ms, left_ms = F.unix_millis("joined_at"), F.unix_millis("left_at")
    short = members.where(left_ms - joined_ms < rules.flapping_tenure_ms)
    is_static = F.col("group_instance_id").isNotNull()
    process = [F.when(~is_static, F.col(name)) for name in ("client_id", "client_host")]
    of_process = Window.partitionBy("group_id", "group_instance_id", *process).orderBy(left_ms)
    since_ms = left_ms - F.lag(left_ms, rules.flapping_tenures - 1).over(of_process)
    return short.select("group_id", since_ms.alias("since_ms")).where(F.col("since_ms") < FLAPPING_WINDOW_MS)


def held_partitions(member_epochs: DataFrame, rules: Rules, as_of_ms: int) -> DataFrame:
    """Returns the partitions that members of KIP-848 groups waited for so long that another member may be holding them
    back."""
    waits = member_epochs.select(
        *("group_id", "incarnation", "member_id", "from_offset", F.explode("waits_for").alias("wait")),
        F.unix_millis("targeted_at").alias("from_ms"),
        F.coalesce(F.unix_millis("valid_to"), F.lit(as_of_ms)).alias("until_ms"),
    )
    is_named = F.col("wait.held_by").isNotNull() & F.col("wait.topic").isNotNull()
    is_long = F.col("until_ms") - F.col("from_ms") >= rules.stuck_reconciliation_ms
    return waits.where(is_named & is_long).select("*", "wait.*").drop("wait")
