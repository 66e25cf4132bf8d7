"""Refuses a table that another engine has restored to a version from before the last commit of ours.

RESTORE removes rows but leaves the transaction ids of their batches in the log. So a stream would continue after rows
that are gone, and nothing would show it. The log names the commits of ours (`commits.COMMIT`). A second RESTORE to the
last of them, or to a later version, brings back all of our commits, and the table is accepted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.process.errors import InputError

if TYPE_CHECKING:
    from deltalake import DeltaTable

RESTORE = "RESTORE"  # the operation, as delta-rs and Spark name it in the log
# So many entries of the log are looked through. If the last commit is ours, nothing else is looked at.
FOREIGN_MAX = 100


def refuse_restored(table: DeltaTable, name: str, commit_key: str) -> None:
    """Raises InputError if a RESTORE has removed a commit of ours from the table. Our commits have `commit_key` in
    their log entry."""
    if any(commit_key in entry for entry in table.history(1)):
        return
    log = table.history(FOREIGN_MAX)
    own = next((entry["version"] for entry in log if commit_key in entry), None)
    restored = next((entry for entry in log if entry.get("operation") == RESTORE), None)
    if own is None or restored is None or restored["version"] < own:
        return
    to = (restored.get("operationParameters") or {}).get("version")
    if to is not None and int(to) >= own:
        return
    raise InputError(
        f"Another engine has restored the table {name} to an earlier version, and what came later is missing in it:"
        f" restore it to version {own}, or the whole warehouse with its checkpoints from a backup, and run the command"
        " again. A single table of an earlier time does not fit the others."
    )
