"""Transactions that do not end, and producers that fence each other."""

from __future__ import annotations

from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kinds import roots, rows_of
from groupledger.schemas.kinds.incidents.kind import IncidentKind
from groupledger.schemas.words import Severity

STALLED_TRANSACTION = IncidentKind(
    name="stalled_transaction",
    meaning="The last stable offset of a partition of __consumer_offsets does not advance.",
    happened="A transaction with offsets in partition {partition} of __consumer_offsets has not ended for {seconds} s.",
    advice="Readers of committed offsets wait for it. Find the producer, or abort it with kafka-transactions.",
    settings=("transaction.timeout.ms",),
    root=roots.TRANSACTION_NOT_ENDED,
    confidence=0.95,
)
PRODUCER_FENCED = IncidentKind(
    name="producer_fenced",
    meaning="A producer continues to commit offsets in transactions, although a newer one has its transactional id.",
    happened="{who} committed offsets in transactions under an epoch that is over, and was refused {times} within"
    " {seconds} s with INVALID_PRODUCER_EPOCH.",
    advice="Once is normal, when a restarted producer fences the one before. If it continues, two processes fence each"
    " other, and their work is aborted and repeated{duplicates}. Give each its own transactional.id.",
    settings=("transactional.id",),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.INVALID_PRODUCER_EPOCH.value,
    apis=(ApiKey.TXN_OFFSET_COMMIT.name,),
    repeats_within_ms=120_000,
)
UNSTABLE_OFFSETS = IncidentKind(
    name="unstable_offsets",
    meaning="A consumer can't get its committed offsets, because a transaction with them does not end.",
    happened="{who} asked for committed offsets for {seconds} s and got UNSTABLE_OFFSET_COMMIT {times}: a"
    " transaction with offsets of the group had not ended.",
    advice="It reads nothing until that ends. Find the producer, abort its transaction with kafka-transactions, or"
    " lower transaction.timeout.ms.",
    settings=("transaction.timeout.ms",),
    root=roots.TRANSACTION_NOT_ENDED,
    error_code=Error.UNSTABLE_OFFSET_COMMIT.value,
    apis=(ApiKey.OFFSET_FETCH.name,),
    repeats_within_ms=10_000,
)
OPEN_TRANSACTION_IN_TOPIC = IncidentKind(
    name="open_transaction_in_topic",
    meaning="A consumer has read all committed records, and an open transaction blocks the rest.",
    happened="The group has read up to the last stable offset of {count} partitions, where a transaction has been open"
    " for {seconds} s: {detail} records wait after that offset.",
    advice="A consumer with isolation.level=read_committed is healthy and can only wait. Find the producer with"
    " kafka-transactions.sh describe-producers on such a partition; find-hanging lists transactions that have outlived"
    " their timeout. Look at that producer, or abort its transaction with kafka-transactions.sh abort.",
    settings=("transaction.timeout.ms",),
    root=roots.TRANSACTION_NOT_ENDED,
    confidence=0.95,
)

KINDS = rows_of(globals(), IncidentKind)
