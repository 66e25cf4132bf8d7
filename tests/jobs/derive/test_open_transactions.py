"""Goal: a pass keeps those samples of open transactions on which incidents rest."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

from groupledger.jobs.derive import open_transactions
from groupledger.jobs.derive.open_transactions import NAME, sampled_transactions
from groupledger.jobs.ingest.samples import append_rows
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.transforms.incidents import open_transactions as of_samples
from groupledger.transforms.incidents.rules import EndSample, GroupFacts, Rules
from groupledger.transforms.incidents.rules.patterns import patterns
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

    from groupledger.jobs.warehouse.ledger import Ledger

BEGAN_AT_MS, MINUTE_MS = 1_767_225_600_000, 60_000
MINUTES, PROOFS = 90, 10
PASSES = (20, 21, 45, 75, 90)
RULES = Rules()
# By partition: from which minute on, and to which one, its last stable offset stands still.
STANDS = {0: [(10, 40)], 1: [(15, 18), (30, 50), (70, 80)], 2: [(60, MINUTES)], 3: []}


def stable(partition: int, minute: int) -> int:
    return 10 * next((begin for begin, end in STANDS[partition] if begin <= minute < end), minute)


def sample(ledger: Ledger, begin: int, end: int) -> None:
    for minute in range(begin, end):
        columns: dict[str, list[Any]] = {
            "topic": [*[OFFSETS_TOPIC] * len(STANDS), "orders"],
            "partition": [*STANDS, 0],
            "high_watermark": [10 * minute + 5 * (partition % 2) for partition in STANDS] + [1_000],
            "last_stable_offset": [stable(partition, minute) for partition in STANDS] + [0],
        }
        append_rows(ledger, WATERMARKS, columns, BEGAN_AT_MS + minute * MINUTE_MS)


def stalls(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Returns what the rules say of samples, with as many proofs as an incident has."""
    found = []
    samples = sorted((EndSample(**row.asDict()) for row in rows), key=lambda each: (each.partition, each.sampled_at_ms))
    for _, part in groupby(samples, key=lambda each: each.partition):
        sightings = patterns(GroupFacts(None, BEGAN_AT_MS, samples=[*part]), RULES)
        found += [(each.happening, each.first_ms, each.last_ms, each.proofs[:PROOFS]) for each in sightings]
    return found


def reported(ledger: Ledger, stalled_ms: int) -> list[str]:
    return [happening for happening, *_ in stalls(sampled_transactions(ledger, stalled_ms).collect())]


def test_however_often(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: passes that each go on from the file of the one before find the stalls that all samples show, with the same
    proofs; and the file keeps nothing that no incident will ever need."""
    monkeypatch.setattr(of_samples, "PROOFS_MAX", PROOFS)
    monkeypatch.setattr(open_transactions, "KEPT_EVERY_MS", 10 * MINUTE_MS)
    kept: list[int] = []
    with open_test_ledger(spark, tmp_path) as ledger:
        ledger.create(WATERMARKS)
        for before, until in zip((0, *PASSES), PASSES, strict=False):
            sample(ledger, before, until)
            every = of_samples.open_transactions(ledger.rows(WATERMARKS)).collect()
            found = sampled_transactions(ledger, RULES.stalled_transaction_ms).collect()
            assert stalls(found) == stalls(every)
            file = json.loads(ledger.storage.read(f"_groupledger/{ledger.cluster}/{NAME}.json") or "")
            kept.append((file["until_ms"] - BEGAN_AT_MS) // MINUTE_MS)
    assert kept == [19, 19, 44, 74, 89]
    assert [happening for happening, *_ in stalls(found)] == ["0/100", "1/300", "1/700", "2/600"]
    assert len(every) > 60 > len(found)


def test_of_no_use(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: a pass does not go on from a file that was kept under another setting, or that is newer than the table."""
    with open_test_ledger(spark, tmp_path) as ledger:
        ledger.create(WATERMARKS)
        sample(ledger, 0, 70)
        assert reported(ledger, 40 * MINUTE_MS) == ["0/100", "2/600"]  # each is the last that its partition shows
        assert reported(ledger, RULES.stalled_transaction_ms) == ["0/100", "1/300", "2/600"]
        path = f"_groupledger/{ledger.cluster}/{NAME}.json"
        file = json.loads(ledger.storage.read(path) or "")
        ledger.storage.write(path, json.dumps({**file, "until_ms": file["until_ms"] + 1, "samples": []}))
        assert reported(ledger, RULES.stalled_transaction_ms) == ["0/100", "1/300", "2/600"]
