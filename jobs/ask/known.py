"""Determines until when each source was read (`transforms.coverage.rules.known`), by cheap reads: the few rows of
`coverage` and `log_files`, the bounds that Delta's log has of the sampling rounds, and the notes of the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.ask.rounds import last_round
from groupledger.jobs.warehouse.first_fold import unfinished_first_fold
from groupledger.jobs.warehouse.judged_logs import judged_rows
from groupledger.jobs.warehouse.known_until import noted_until
from groupledger.schemas.words import Source
from groupledger.transforms.coverage.rules.known import LOGS, topic_known_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.transforms.coverage.rules.known import Known


def sources_known(tables: ClusterRows, names: Sequence[str] = ()) -> Known:
    """Returns until when each source was read; None for a source that was not read. If the groups `names` are known,
    only their partitions of `__consumer_offsets` count for the topic."""
    topic = _topic(tables, names)
    logs = tables.rows_if_any("log_files", columns=("log", "last_logged_at"))
    return {
        Source.TOPIC: topic,
        Source.HISTORY: _folded(tables, topic),
        Source.SAMPLES: last_round(tables, "lag") if tables.exists("lag") else None,
        **{log: _last(row["last_logged_at"] for row in logs if row["log"] == log) for log in LOGS},
        Source.INCIDENTS: _searched(tables, topic),
    }


def _topic(tables: ClusterRows, names: Sequence[str]) -> datetime | None:
    if not tables.exists("coverage"):
        return None
    groups = tables.rows_if_any("groups", ("group_id", "in", names), columns=("kafka_partition",)) if names else ()
    coverage = tables.rows("coverage", columns=("kafka_partition", "to_time"))
    return topic_known_until(coverage, {row["kafka_partition"] for row in groups})


def _folded(tables: ClusterRows, topic: datetime | None) -> datetime | None:
    """Returns until when the history is folded; None before its first fold has ended. Earlier releases have not noted
    it: theirs is, or it is not there."""
    if topic is None or not tables.exists("groups"):
        return None
    files, cluster = tables.small_files, tables.cluster
    until = noted_until(files, cluster, Source.HISTORY)
    if until is None:
        return topic if unfinished_first_fold(files, cluster) is None else None
    return min(topic, until)


def _searched(tables: ClusterRows, topic: datetime | None) -> datetime | None:
    """Returns until when incidents were looked for. Earlier releases have not noted it; they looked with each pass. A
    table without a row and without a note means that the first search is not over."""
    if not tables.exists("incidents"):
        return None
    files, cluster = tables.small_files, tables.cluster
    until = noted_until(files, cluster, Source.INCIDENTS)
    if until is not None:
        return until
    is_searched = judged_rows(files, cluster) is not None or any(tables.rows("incidents", columns=("is_open",)))
    return topic if is_searched else None


def _last(instants: Iterable[datetime | None]) -> datetime | None:
    return max((at for at in instants if at is not None), default=None)
