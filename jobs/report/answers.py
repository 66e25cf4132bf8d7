"""What the report asks of a cluster's tables, by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.warehouse.tables import collect
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.transforms.logs.rebalance_triggers import with_triggers, without_triggers

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.tables import ClusterTables
    from groupledger.schemas.tables.table import Table


def rebalances_told(tables: ClusterTables, name: str | None = None) -> DataFrame:
    """Returns the rebalances, or those of a group, with what the server log says started them: the columns of
    `TRIGGER`, null where no imported log tells it."""

    def rows(table: Table) -> DataFrame:
        return tables.rows(table) if name is None else tables.rows_of_group(table, name)

    if not tables.exists(COORDINATOR_EVENTS):
        return without_triggers(rows(REBALANCES))
    return with_triggers(rows(REBALANCES), rows(COORDINATOR_EVENTS))


def known_until(tables: ClusterTables) -> datetime:
    """Returns the latest instant that the ledger knows of: what "now" is, in an answer about now."""
    (latest,) = collect(tables.rows(COVERAGE).agg(F.max("to_time").alias("at")))
    at: datetime | None = latest["at"]
    if at is None:
        raise InputError("The ledger has not read any log to its end yet: run `groupledger ingest` again.")
    return at


def no_group(cluster: str, name: str) -> InputError:
    return InputError(
        f"The ledger of cluster {cluster} knows nothing of the group {printable(name)}: check the name, give --cluster,"
        " or run `groupledger ingest` and `groupledger history`."
    )


def within(rows: DataFrame, column: str, since: datetime | None, until: datetime | None) -> DataFrame:
    """Returns the rows whose instant lies in [since, until); None is no bound."""
    if since is not None:
        rows = rows.where(F.col(column) >= F.lit(since))
    return rows if until is None else rows.where(F.col(column) < F.lit(until))
