"""Goal: `groupledger demo` goes through every step, and finds what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.testing import CliRunner

import groupledger.jobs.demo.demo
from groupledger.jobs.cli.main import main
from groupledger.jobs.demo.truth import beside_truth
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.warehouse.ledger import open_ledger
from groupledger.jobs.warehouse.tables import ClusterTables
from groupledger.schemas.tables.lag import LAG

# The group is a classic one; `tests.transforms.history.rules.test_modern_truth` has the others.
OF_KIP_848 = ("epochs of KIP-848 groups", "intervals in which their members had a partition")

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession


def test_every_step(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: on a smaller cluster than the demo's, with one group whose commits are refused, it ends well with the
    findings and the page, nothing of the history is missing or too much, and every refused request is an incident."""
    monkeypatch.setattr(groupledger.jobs.demo.demo, "SCENARIO", "zombie-commits")
    directory = tmp_path / "demo"
    result = CliRunner().invoke(main, ["demo", "--directory", str(directory)])
    assert result.exit_code == 0, result.output
    titles = ("Records of __consumer_offsets", "Most lag", "Incidents", "Beside what really happened", "try: ")
    assert all(title in result.output for title in titles)
    assert "zombie-commits" in (directory / groupledger.jobs.demo.demo.REPORT).read_text()
    warehouse = str(directory / "warehouse")
    assert not ClusterTables(spark, warehouse, groupledger.jobs.demo.demo.CLUSTER).rows(LAG).isEmpty()
    with open_ledger(load_settings(cluster=groupledger.jobs.demo.demo.CLUSTER), warehouse, "test", print) as ledger:
        counts = beside_truth(ledger, directory / "simulation" / "truth")
    counts.pop("the same, inferred")  # is not sure to be right
    assert [counts.pop(each) for each in [*counts] if each in OF_KIP_848] == [(0, 0, 0)] * 2
    assert all(right > 0 for right, _, _ in counts.values()), counts
    assert {(missing, too_many) for _, missing, too_many in counts.values()} == {(0, 0)}, counts
