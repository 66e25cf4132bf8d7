"""Goal: each answer about the log tells until when the ledger knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from groupledger.jobs.ask.answers import last_known
from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.cli.main import main
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, fill, write

if TYPE_CHECKING:
    from pathlib import Path

# The other partition of the log is known until an hour later.
OF_GROUP, OF_ALL = "2026-01-01T12:10:00", "2026-01-01T13:10:00"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("known")
    fill(folder, "pay", "orders", "pod-b")
    stretch = {"completeness": "complete", "from_offset": 0, "to_offset": 100, "from_time": AT}
    write(folder, "coverage", {"kafka_partition": 8, **stretch, "to_time": AT + 70 * MINUTE})
    record = {"kafka_partition": 7, "kafka_offset": 3, "kafka_timestamp": AT, "group_id": "pay"}
    record |= {"record_type": "offset_commit", "is_tombstone": False, "ingest_date": AT.date()}
    write(folder, "coordinator_records", record | {"offset_commit": {"topic": "orders", "partition": 0, "offset": 5}})
    return folder


@pytest.mark.parametrize(
    ("words", "until"),
    [
        ("owner pay orders 0 --at 2026-01-01T12:01:00Z", OF_GROUP),
        ("group pay --json", OF_GROUP),
        ("why pay --since 2026-01-01", OF_GROUP),
        ("rebalances --group pay", OF_GROUP),
        ("rebalances --group pay --json", OF_GROUP),
        ("incidents --group pay --json", OF_GROUP),
        ("rebalances", OF_ALL),
        ("incidents --json", OF_ALL),
        ("groups", OF_ALL),
        ("readers orders", OF_ALL),
        ("committers", OF_ALL),
    ],
)
def test_commands(warehouse: Path, words: str, until: str) -> None:
    """Goal: a command tells it beside its answer, which stays as it was."""
    found = CliRunner().invoke(main, [*words.split(), "--warehouse", str(warehouse)])
    assert found.exit_code == 0, found.output
    assert [line[:31] for line in found.stderr.splitlines() if line.startswith("known")] == [f"known until {until}"]
    assert "known until" not in found.stdout


def test_a_topic_that_is_not_known(warehouse: Path) -> None:
    """Goal: the readers of a topic with a name like one that is known are told that name; those of a known one not."""
    found = CliRunner().invoke(main, ["readers", "order", "--warehouse", str(warehouse)])
    assert (found.exit_code, "did you mean orders?" in found.stderr) == (0, True)
    assert "mean" not in CliRunner().invoke(main, ["readers", "orders", "--warehouse", str(warehouse)]).stderr


def test_what_is_not_known(tmp_path: Path) -> None:
    """Goal: where the log was not read to any end, or the group is not there, no instant is made up."""
    assert last_known(ClusterRows(str(tmp_path), CLUSTER)) is None
    write(tmp_path, "coverage", {"kafka_partition": 7})
    assert last_known(ClusterRows(str(tmp_path), CLUSTER)) is None
    fill(tmp_path, "pay", "orders", "pod-b")
    tables = ClusterRows(str(tmp_path), CLUSTER)
    assert last_known(tables, "nobody") is None
    assert last_known(tables, "pay") == last_known(tables) == AT + 10 * MINUTE
