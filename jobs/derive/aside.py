"""Sets groups aside whose records the history can't fold, so that all other groups go on.

If the fold fails on a group, none of its rows is written. Its row of `open_groups` stays as it was, and names the
release that failed: later records must not be folded onto a state that lacks earlier ones. Its records stay in
`coordinator_records`. Another release folds all records that the group has missed (`to_try_again`), and a rebuild
starts over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from groupledger.jobs.derive.troubles import RELEASE, gathering, note_troubles, open_troubles
from groupledger.jobs.warehouse.ledger import floors_of
from groupledger.jobs.warehouse.tables import is_among
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.open_groups import OPEN_GROUPS, SET_ASIDE_BY
from groupledger.schemas.words import TroubledStep

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.transforms.troubles import Trouble

IS_ASIDE = pc.field(SET_ASIDE_BY.name).is_valid()
NOTHING_FOLDED = -1


class Aside:
    """The groups on which the fold of a batch failed. Give `report` to the fold."""

    def __init__(self, ledger: Ledger, open_groups: DataFrame, judged: Collection[str] | None) -> None:
        """`open_groups` are the states with which the fold begins. Earlier troubles end for the groups in `judged` on
        which the fold does not fail again; None stands for all groups."""
        self.report = gathering(ledger)
        self.groups: list[str] = []
        self._ledger, self._open_groups, self._judged = ledger, open_groups, judged
        self._troubles: dict[str, Trouble] = {}

    def settle(self) -> bool:
        """Writes which groups failed into `troubles`, and returns whether any did. Call it after the fold."""
        self._troubles = self.report.taken()
        self.groups = [*self._troubles]
        note_troubles(self._ledger, TroubledStep.HISTORY, self._troubles, self._judged)
        return bool(self.groups)

    def rows(self) -> pa.Table:
        """Returns the rows of `open_groups` that set the failed groups aside."""
        are_theirs = self._open_groups.where(F.col("group_id").isin(*self.groups))
        states = {row["group_id"]: row.asDict() for row in are_theirs.collect()}
        rows = [
            {
                **(states.get(name) or _first_row(trouble)),
                "cluster": self._ledger.cluster,
                SET_ASIDE_BY.name: RELEASE,
            }
            for name, trouble in self._troubles.items()
        ]
        return pa.Table.from_pylist(rows, arrow_schema(OPEN_GROUPS.schema))


def _first_row(trouble: Trouble) -> dict[str, Any]:
    """Returns the row of a group that has none yet."""
    return {
        "group_id": trouble.group_id,
        "kafka_partition": trouble.kafka_partition,
        "last_kafka_offset": NOTHING_FOLDED,
        "coverage_offset": NOTHING_FOLDED,
    }


def groups_aside(ledger: Ledger) -> list[str]:
    """Returns the groups that are set aside."""
    groups: list[str] = ledger.arrow(OPEN_GROUPS, IS_ASIDE, ["group_id"])["group_id"].to_pylist()
    return groups


def to_try_again(ledger: Ledger) -> list[str]:
    """Returns the groups that another release has set aside and whose records retention has not removed since."""
    if all(row["release"] == RELEASE for row in open_troubles(ledger, TroubledStep.HISTORY)):
        return []
    columns = ["group_id", "kafka_partition", "last_kafka_offset"]
    floors = floors_of(ledger)
    return [
        row["group_id"]
        for row in ledger.arrow(OPEN_GROUPS, IS_ASIDE & (pc.field(SET_ASIDE_BY.name) != RELEASE), columns).to_pylist()
        if row["kafka_partition"] not in floors or floors[row["kafka_partition"]].offset <= row["last_kafka_offset"] + 1
    ]


def taken_back(open_groups: DataFrame, groups: Iterable[str]) -> DataFrame:
    """Returns the rows of `open_groups`, in which some groups are no longer set aside."""
    is_back = F.col("group_id").isin(*groups)
    return open_groups.withColumn(SET_ASIDE_BY.name, F.when(~is_back, F.col(SET_ASIDE_BY.name)))


def without(rows: DataFrame, groups: Collection[str]) -> DataFrame:
    return rows.where(~F.col("group_id").isin(*groups)) if groups else rows


def without_arrow(rows: pa.Table, groups: Collection[str]) -> pa.Table:
    return rows.filter(~is_among("group_id", groups)) if groups else rows
