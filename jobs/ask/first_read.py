"""Finds the process that reads a cluster's topic for the first time, for a question that came too early.

The remedy of such a question is to wait. To run `ingest` or `pipeline`, as for a warehouse that nobody writes, would
start a second writer, which is refused.
"""

from __future__ import annotations

from contextlib import suppress

from deltalake.exceptions import DeltaError

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.known import sources_known
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import NotKnownError
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.warehouse.lease_files import LeaseFile, highest_number, lease_folder
from groupledger.jobs.warehouse.storage import STATE_FOLDER
from groupledger.schemas.words import Source


def first_read(warehouse: str, cluster: str | None) -> NotKnownError | None:
    """Returns the error for a question about a cluster, or about any if it is None, whose topic a process reads for the
    first time; None if no process does."""
    with suppress(DeltaError, OSError):  # then the question's own error says what is wrong
        given = ClusterRows(warehouse, cluster or "")
        for name in [cluster] if cluster else given.small_files.names(STATE_FOLDER):
            holder = _holder(given, name)
            if holder is not None and sources_known(ClusterRows(warehouse, name))[Source.TOPIC] is None:
                return NotKnownError(
                    f"Nothing is known yet: {holder} is reading the topic of cluster {printable(name)} for the first"
                    " time; ask again when it is done."
                )
    return None


def _holder(tables: ClusterRows, cluster: str) -> str | None:
    """Returns the holder of a cluster's lease; None if the lease is free."""
    folder = lease_folder(cluster)
    number = highest_number(tables.small_files.names(folder))
    found = LeaseFile.parse(tables.small_files.read(f"{folder}/{number}.json")) if number else None
    return str(found.holder) if found is not None and found.is_in_force(now_ms()) else None
