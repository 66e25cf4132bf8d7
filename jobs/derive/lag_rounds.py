"""Reads the sampling rounds of commits that retention may soon overtake.

The newest round names the groups with such a commit; most often there are none. For these groups only, the last half
day is read, since a forecast looks back that far (`transforms.lag.rules.forecast`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.ingest.samples import last_sampled_at_ms
from groupledger.jobs.warehouse.tables import NAMED_MAX
from groupledger.schemas.tables.lag import LAG
from groupledger.transforms.incidents.lag_rounds import lag_rounds, near_the_start
from groupledger.transforms.lag.lag import sampled_within
from groupledger.transforms.lag.rules.forecast import PACE_OF_STARTS_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger


def rounds_before_retention(ledger: Ledger, keep: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Returns the rows of `lag` from the last half day, one a minute, of the partitions whose commit now lies in the
    older half of its log. `keep` persists a frame that is read twice."""
    last_ms = last_sampled_at_ms(ledger, LAG)
    near = keep(near_the_start(ledger.rows_within(LAG, sampled_within(last_ms, last_ms))))
    names = [row["group_id"] for row in near.select("group_id").distinct().limit(NAMED_MAX + 1).collect()]
    since_ms = last_ms - PACE_OF_STARTS_S * 1_000
    return lag_rounds(ledger.rows_named(LAG, "group_id", names, sampled_within(since_ms, last_ms)), near)
