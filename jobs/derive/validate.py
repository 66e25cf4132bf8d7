"""`groupledger validate` checks the ledger: it replays the log of every group through the reference coordinator.

Each run replaces `replay_findings` with what no broker and no assignor of Kafka can have written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.jobs.derive import rebuild
from groupledger.jobs.derive.history import all_events, records_of
from groupledger.jobs.process.output import print_answers
from groupledger.jobs.warehouse.upsert import replace_cluster
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.replay_findings import REPLAY_FINDINGS
from groupledger.schemas.words import FindingSeverity
from groupledger.transforms.replay.replay_findings import replay_findings

if TYPE_CHECKING:
    from pyspark.sql import Row

    from groupledger.jobs.warehouse.ledger import Ledger


def validate(ledger: Ledger) -> list[Row]:
    """Returns the findings, in log order. Raises InputError if there is nothing to replay."""
    if rebuild.is_unfinished(ledger):
        ledger.say("validate: a rebuild of the history was not finished: run `groupledger history` to finish it")
    records = records_of(ledger, ledger.rows(COORDINATOR_RECORDS)).persist()
    ledger.create(REPLAY_FINDINGS)
    found = replay_findings(*all_events(ledger, records)).withColumn("cluster", F.lit(ledger.cluster))
    replace_cluster(ledger, REPLAY_FINDINGS, found)
    records.unpersist()
    return ledger.rows(REPLAY_FINDINGS).orderBy("kafka_partition", "kafka_offset", "finding").collect()


def has_errors(findings: list[Row]) -> bool:
    """Returns whether a finding is an error: warnings may have an explanation that the ledger does not hold."""
    return any(finding.severity == FindingSeverity.ERROR for finding in findings)


def print_findings(findings: list[Row], *, as_json: bool) -> None:
    columns = ("severity", "finding", "group_id", "incarnation", "generation", "kafka_offset", "explanation")
    print_answers("What can't be true", columns, [finding.asDict() for finding in findings], as_json=as_json)
