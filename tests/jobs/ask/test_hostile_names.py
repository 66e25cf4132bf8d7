"""Goal: names that clients choose come out of every command unchanged, and harm neither terminal nor file.

The group's has Kafka's greatest length. The report in a browser, `/metrics`, the logs' lines and the terminal table of
a monitor have tests of their own.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from groupledger.coordinator.simulator.described_groups import SimulatedGroupState
from groupledger.coordinator.simulator.simulation import SimulatedWatermark
from groupledger.jobs.cli.main import main
from groupledger.jobs.demo.simulate import table_of
from groupledger.jobs.ingest.capture import Manifest, write_manifest
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.codec.consumer_protocol import encode_assignment, encode_subscription
from groupledger.schemas.codec.protocol_message import ProtocolMessage
from groupledger.schemas.codec.records import Record, encode_record
from groupledger.schemas.words import Completeness
from lab.warehouses.ledgers import IDENTITY, write_capture
from lab.warehouses.rows import offset_commit
from tests.jobs.report.report_pages import HOSTILE, HOSTILE_NAME, START_MS, groups_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result
    from pyspark.sql import SparkSession

    from lab.warehouses.rows import Row

    Ask = Callable[..., Result]

GROUP, TOPIC, MEMBER = HOSTILE_NAME, HOSTILE, HOSTILE + "member"
TOPIC_ID = "4L6g3nShT-eMCtK--X86sw"
START = datetime.fromtimestamp(START_MS / 1_000, timezone.utc).isoformat()
AT = datetime.fromtimestamp(START_MS / 1_000 + 30, timezone.utc).isoformat()
BEFORE = datetime.fromtimestamp(START_MS / 1_000 - 30, timezone.utc).isoformat()
COMMANDS = (
    ("group", GROUP),
    ("group", GROUP, "--json"),
    ("groups", "script"),
    ("groups", "--all", "--json"),
    ("diff", GROUP, "--from", AT),
    ("why", GROUP, "--since", BEFORE),
    ("why", GROUP, "--since", BEFORE, "--json"),
    ("offsets", GROUP, "--at", AT),
    ("offsets", GROUP, "--at", AT, "--format", "json"),
    ("owner", GROUP, TOPIC, "0", "--at", AT),
    ("owner", GROUP, TOPIC, "0", "--at", AT, "--json"),
    ("readers", TOPIC),
    ("readers", TOPIC, "--json"),
    ("idle",),
    ("committers",),
    ("committers", "--json"),
    ("rebalances",),
    ("rebalances", "--group", GROUP),
    ("rebalances", "--json"),
    ("lag",),
    ("lag", "--group", GROUP, "--json"),
    ("lag", "--group", GROUP, "--since", START, "--json"),
    ("lag", "--by", "group"),
    ("incidents", "--severity", "info"),
    ("incidents", "--severity", "info", "--group", GROUP, "--json"),
    ("records", "--group", GROUP),
    ("records", "--json"),
    ("validate",),
)
SQL = "SELECT group_id FROM groups WHERE group_id = :name"


def generation(number: int) -> Row:
    topics = {"topics": [TOPIC], "user_data": None, "owned_partitions": [], "generation_id": -1, "rack_id": None}
    assigned = {"assigned_partitions": [{"topic": TOPIC, "partitions": [0]}], "user_data": None}
    member = {
        "member_id": MEMBER,
        "group_instance_id": HOSTILE,
        "client_id": HOSTILE,
        "client_host": HOSTILE,
        "rebalance_timeout_ms": 300_000,
        "session_timeout_ms": 45_000,
        "subscription": encode_subscription(ProtocolMessage(3, topics)),
        "assignment": encode_assignment(ProtocolMessage(3, assigned)),
    }
    value = {
        "protocol_type": "consumer",
        "generation": number,
        "protocol": "range",
        "leader": MEMBER,
        "current_state_timestamp_ms": START_MS,
        "members": [member],
    }
    return encode_record(Record("group_metadata", {"group_id": GROUP}, 3, value))


def commit(offset: int) -> Row:
    names: dict[str, Any] = {"group_id": GROUP, "topic": TOPIC, "partition": 0, "metadata": HOSTILE}
    return offset_commit(offset=offset, commit_timestamp_ms=START_MS, **names)


@pytest.fixture(scope="module")
def ask(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    folder = tmp_path_factory.mktemp("hostile")
    log = (generation(1), commit(5), generation(2), commit(3), commit(7))
    write_capture(folder / "capture", {(0, offset): row for offset, row in enumerate(log)})
    manifest = Manifest(IDENTITY, {0: 0, 1: 0}, {0: len(log), 1: 0}, START_MS + 60_000, Completeness.COMPLETE, START_MS)
    write_manifest(LocalStorage(folder / "capture"), manifest)
    at_ms = START_MS + 20_000
    ends = [
        SimulatedWatermark(
            sampled_at_ms=at_ms,
            topic=topic,
            partition=partition,
            log_start_offset=0,
            high_watermark=end,
            last_stable_offset=end,
            topic_id=TOPIC_ID,
        )
        for topic, partition, end in (("__consumer_offsets", 0, len(log)), ("__consumer_offsets", 1, 0), (TOPIC, 0, 9))
    ]
    states = [
        SimulatedGroupState(
            sampled_at_ms=at_ms,
            group_id=GROUP,
            state="Stable",
            protocol_type="consumer",
            protocol="range",
            member_count=1,
            error=None,
        )
    ]
    for name, kind, rows in (("watermarks", SimulatedWatermark, ends), ("group_states", SimulatedGroupState, states)):
        (folder / "samples" / name).mkdir(parents=True)
        pq.write_table(table_of(kind, rows), folder / "samples" / name / "part-0.parquet")
    warehouse = str(folder / "warehouse")

    def run(command: str, *arguments: str) -> Result:
        cluster = () if command == "sql" else ("--cluster", "test")
        wide = CliRunner(env={"COLUMNS": "2000"})  # so that no cell is folded
        result = wide.invoke(main, [command, "--warehouse", warehouse, *cluster, *arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert all(char.isprintable() or char == "\n" for char in result.output)
        assert result.exit_code == 0, result.output
        return result

    run("pipeline", "--capture", str(folder / "capture"), "--samples", str(folder / "samples"))
    return run


def test_every_command(ask: Ask) -> None:
    """Goal: each answers about the group, a terminal gets nothing that it could obey, and a program the exact name."""
    reported = []
    for arguments in COMMANDS:
        result = ask(*arguments)
        output = result.stdout
        if "json" in " ".join(arguments[1:]).replace(GROUP, ""):
            reported += [value for line in output.splitlines() for value in strings(json.loads(line))]
            assert output, arguments[0]
        elif arguments[0] not in ("idle", "validate", "incidents"):
            assert "alert(1)" in result.output, arguments[0]  # the title of a table is not part of its text
    assert {GROUP, TOPIC, MEMBER} <= set(reported)


def strings(value: Any) -> list[str]:
    """All that are somewhere in a JSON value."""
    if isinstance(value, dict):
        return [found for each in value.values() for found in strings(each)]
    if isinstance(value, list):
        return [found for each in value for found in strings(each)]
    return [value] if isinstance(value, str) else []


def test_sql(ask: Ask) -> None:
    """Goal: a name given as a parameter is a value, in every format; and the same comes back."""
    (line,) = ask("sql", SQL, "--param", f"name={GROUP}", "--format", "json").stdout.splitlines()
    assert json.loads(line) == {"group_id": GROUP}
    assert "alert(1)" in ask("sql", SQL, "--param", f"name={GROUP}").stdout


def test_files(ask: Ask, tmp_path: Path) -> None:
    """Goal: no name became one of a file; the report holds none as markup."""
    page = tmp_path / "report.html"
    ask("report", "--out", str(page))
    (of_group,) = groups_in(page.read_text()).values()
    for text in (page.read_text(), of_group):
        assert "<script>alert(1)" not in text
        assert "alert(1)" in text
        assert all(char.isprintable() or char == "\n" for char in text)
    warehouse = next(iter(tmp_path.parent.glob("hostile*")))
    names = [path.name for path in warehouse.rglob("*")]
    assert names
    assert not any("alert" in name or "passwd" in name or "xxx" in name for name in names)
