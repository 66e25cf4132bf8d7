"""What the questions share: the rows that several of them ask for, and what they refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.terminal import printable

if TYPE_CHECKING:
    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer


def group_row(tables: ClusterRows, name: str) -> Answer:
    """Returns the group's row in `groups`. Raises InputError if it has none."""
    found = tables.rows("groups", ("group_id", "=", name))
    if not found:
        raise no_group(tables.cluster, name)
    return found[0]


def no_group(cluster: str, name: str) -> InputError:
    return InputError(
        f"The ledger of cluster {cluster} knows nothing of the group {printable(name)}: check the name, give --cluster,"
        " or run `groupledger ingest` and `groupledger history`."
    )


def coverage_rows(tables: ClusterRows, *kafka_partitions: int) -> list[Answer]:
    return tables.rows("coverage", ("kafka_partition", "in", kafka_partitions))
