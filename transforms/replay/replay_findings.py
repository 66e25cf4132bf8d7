"""Computes the rows of `replay_findings`: Spark gives the log of each group to `transforms.replay.rules`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from groupledger.schemas.tables.replay_findings import REPLAY_FINDINGS
from groupledger.transforms.history.group_history import by_log
from groupledger.transforms.replay.rules import replay
from groupledger.transforms.troubles import stop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from groupledger.transforms.history.group_history import GroupLog, Marks
    from groupledger.transforms.history.rules.modern_records import TopicNames
    from groupledger.transforms.troubles import Report


def replay_findings(events: DataFrame, marks: Marks, names: TopicNames, report: Report = stop) -> DataFrame:
    """Returns the rows of the table without the column `cluster`. `events` are the result of `group_events` over the
    whole log of each group."""

    def findings(log: GroupLog) -> Iterator[dict[str, Any]]:
        return map(asdict, replay(log.group_id, log.kafka_partition, log.events))

    return by_log(events, marks, names, findings, REPLAY_FINDINGS.without("cluster"), report)
