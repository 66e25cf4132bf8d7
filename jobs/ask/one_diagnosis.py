"""Finds the diagnosis of one episode for processes that run for long: those that send messages and publish metrics. It
loads DuckDB only when a diagnosis is asked for, since most of these processes never need one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake.exceptions import DeltaError

from groupledger.jobs.process.errors import JobError

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.ask.verdict import EpisodeSummary

DIAGNOSIS_S = 10
DIAGNOSED_MAX = 20
"""How many episodes a process diagnoses in one round: each takes some 0.2 s of CPU."""
UNREADABLE = (JobError, DeltaError, OSError, pa.ArrowException)
"""The errors of a table that can't be read now. A process that runs for long tries again later."""


def one_diagnosis(
    warehouse: str, cluster: str, group_id: str | None, episode_id: str, since: datetime
) -> EpisodeSummary | None:
    """Returns the diagnosis of an episode that began at `since`. Returns None if there is none, if DuckDB can't read
    the tables, or if it takes longer than `DIAGNOSIS_S` seconds. Raises one of `UNREADABLE` if a table can't be read
    now."""
    import duckdb

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.episode_diagnosis import diagnosis_of

    try:
        return diagnosis_of(ClusterRows(warehouse, cluster, DIAGNOSIS_S), group_id, episode_id, since)
    except duckdb.Error:
        return None
