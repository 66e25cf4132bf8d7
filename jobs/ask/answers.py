"""What the questions share: the rows that several of them ask of a cluster's tables, and what they refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer


def coverage_rows(tables: ClusterRows, *kafka_partitions: int) -> list[Answer]:
    return tables.rows("coverage", ("kafka_partition", "in", kafka_partitions))
