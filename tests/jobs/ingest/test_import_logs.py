"""Goal: the logs of a simulated cluster become tables, each line once, whatever happens to files and runs; and say what
started every rebalance."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest
from click.testing import CliRunner
from pyspark.sql import functions as F

import groupledger.jobs.ingest.import_logs
from groupledger.coordinator.offsets_partition import partition_for
from groupledger.jobs.cli.main import main
from groupledger.jobs.ingest.import_logs import LogSources, import_logs
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.settings import load_settings, overlaid
from groupledger.jobs.warehouse.source import KAFKA, LedgerSource, TopicIdentity, write_source
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.log_files import LOG_FILES
from groupledger.schemas.tables.log_quarantine import LOG_QUARANTINE
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.tables.requests import REQUESTS
from groupledger.transforms.logs.rebalance_triggers import with_triggers
from lab.faults.contents import contents, differences
from lab.warehouses.ledgers import columns_of, open_test_ledger
from lab.warehouses.sessions import forget_tables
from tests.jobs.killed import KilledError, kill
from tests.jobs.simulated_log import PARTITIONS, REQUESTS_OF

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.jobs.ingest.import_logs import ImportTotals
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table
    from tests.jobs.simulated_log import Simulated

DAMAGED = "[2026-01-05 00:00:00,000] DEBUG Completed request:{ (kafka.request.logger)\n"
TOO_LONG = f"[2026-01-05 00:00:00,000] DEBUG Completed request:{{{'x' * load_settings().logs.line_bytes_max}\n"
FOLLOWED_S_MAX = 120
TOPIC_ID = "XzX1Zm0kQ2m6o0m2zq8m1A"


@dataclass(frozen=True)
class Imported:
    """`totals` are those of the import, of the same files once more, and of later lines."""

    warehouse: Path
    lines: dict[str, int]
    totals: list[ImportTotals]


def run(spark: SparkSession, warehouse: Path, directory: Path) -> ImportTotals:
    with open_test_ledger(spark, warehouse) as ledger:
        sources = LogSources([directory / "request-log"], [directory / "server-log"])
        return import_logs(ledger, load_settings().logs, sources, threading.Event())


def by_topic_id(line: str) -> str:
    """The line of a commit, as a client of Kafka 4 commits, whose log has no topic's name."""
    body = json.loads(line[line.index("{") : line.rindex(" (")])
    for topics in (body["request"]["topics"], body["response"]["topics"]):
        for topic in topics:
            del topic["name"]
            topic["topicId"] = TOPIC_ID
    return line[: line.index("{")] + json.dumps(body) + line[line.rindex(" (") :]


@pytest.fixture(scope="module")
def imported(
    spark: SparkSession, simulated: Simulated, whole: Path, tmp_path_factory: pytest.TempPathFactory
) -> Imported:
    """Killed before its end and run again; the same files; then renamed, packed, grown and damaged ones."""
    directory = tmp_path_factory.mktemp("imported")
    warehouse, logs = directory / "warehouse", directory / "logs"
    shutil.copytree(whole, warehouse)
    shutil.copytree(simulated.broker_logs, logs)
    lines = {path.name: len(path.read_text().splitlines()) for path in logs.glob("*-log/*")}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(groupledger.jobs.ingest.import_logs.LogImport, "_note", kill)
        with pytest.raises(KilledError):
            run(spark, warehouse, logs)
    totals = [run(spark, warehouse, logs), run(spark, warehouse, logs)]
    busiest = max((logs / "request-log").iterdir(), key=lambda path: path.stat().st_size)
    text = busiest.read_text()
    commit = next(line for line in text.splitlines(keepends=True) if '"OFFSET_COMMIT"' in line)
    busiest.rename(busiest.with_suffix(".log.1"))
    header = '{"requestApiKey":3,"requestApiVersion":12,"correlationId":1}'
    reported = f'{{"requestHeader":{header},"response":{{"topics":[{{"name":"named","topicId":"{TOPIC_ID}"}}]}}}}'
    metadata = f"[2026-01-05 00:00:00,000] DEBUG Completed request:{reported} (kafka.request.logger)\n"
    packed = gzip.compress((text + DAMAGED + TOO_LONG + metadata + by_topic_id(commit)).encode())
    (busiest.parent / f"{busiest.name}.2.gz").write_bytes(packed)
    totals.append(run(spark, warehouse, logs))
    return Imported(warehouse, lines, totals)


def rows(spark: SparkSession, imported: Imported, table: Table) -> Any:
    return spark.read.format("delta").load(str(imported.warehouse / table.name))


def test_each_line_once(imported: Imported) -> None:
    """Goal: a killed run, a second one, a rotated file and its packed copy add no line again, and lose none."""
    of_requests = sum(count for name, count in imported.lines.items() if name.startswith("kafka-request"))
    of_events = sum(count for name, count in imported.lines.items() if name.startswith("server"))
    for table, count in ((REQUESTS, of_requests + 1), (COORDINATOR_EVENTS, of_events)):
        lines = columns_of(imported.warehouse, table, "source_file", "line_number")
        assert len(lines) == len(set(lines)) == count
    first, second, third = imported.totals
    assert (first.rows, first.quarantined) == ({"request_log": of_requests, "server_log": of_events}, 0)
    assert (second.files, second.lines) == (0, 0)
    assert (third.lines, third.rows["request_log"], third.quarantined, third.skipped) == (4, 1, 2, 1)
    kept = columns_of(imported.warehouse, LOG_QUARANTINE, "line_number", "line", "line_bytes")
    assert [row[1:] for row in kept] == [(DAMAGED.rstrip(), len(DAMAGED)), (TOO_LONG[:65_536], len(TOO_LONG))]
    counts = ("line_count", "row_count", "quarantined_count", "skipped_count")
    files = columns_of(imported.warehouse, LOG_FILES, *counts)
    assert sum(line_count for line_count, *_ in files) == of_requests + of_events + 4
    assert all(line_count == sum(others) for line_count, *others in files)


def test_a_table_of_rows_is_deleted(spark: SparkSession, imported: Imported, tmp_path: Path) -> None:
    """Goal: the lines of its log are imported again, each once, and those of the other log are not."""
    warehouse = tmp_path / "warehouse"
    shutil.copytree(imported.warehouse, warehouse)
    shutil.rmtree(warehouse / COORDINATOR_EVENTS.name)
    forget_tables(spark)
    again = run(spark, warehouse, imported.warehouse.with_name("logs"))
    assert again.rows == {"request_log": 0, "server_log": imported.totals[0].rows["server_log"]}
    assert again.quarantined == 0
    assert differences(contents(warehouse), contents(imported.warehouse)) == []


def test_commits_by_topic_id(spark: SparkSession, imported: Imported) -> None:
    """Goal: a commit that names its topic by id alone has the name that a Metadata answer gave."""
    partitions = rows(spark, imported, REQUESTS).select(F.explode("partitions").alias("of")).select("of.*")
    assert {row[0] for row in partitions.where(F.col("topic_id") == TOPIC_ID).select("topic").collect()} == {"named"}


def test_requests_are_what_was_refused(spark: SparkSession, imported: Imported, simulated: Simulated) -> None:
    """Goal: the requests that the simulator's truth says were refused, with their arrival, member and error."""
    refused = rows(spark, imported, REQUESTS).where("error not in ('NONE', 'MEMBER_ID_REQUIRED')")
    refused = refused.where("not (api in ('HEARTBEAT', 'SYNC_GROUP') and error = 'REBALANCE_IN_PROGRESS')")
    at_ms = F.round(F.unix_micros("happened_at") / 1_000).cast("long")
    found = refused.select(at_ms, "group_id", "member_id", "error")
    expected = [
        (row.requested_at_ms, row.group_id, row.member_id, row.error)
        for row in simulated.truth.rejections
        if row.group_id == REQUESTS_OF
    ]
    assert expected
    assert sorted(map(tuple, found.collect())) == sorted(expected)


def test_every_rebalance_has_its_trigger(spark: SparkSession, imported: Imported, simulated: Simulated) -> None:
    """Goal: the tables have the true trigger of every rebalance, and the line that proves it; `group` and `rebalances`
    show it."""
    events = rows(spark, imported, COORDINATOR_EVENTS)
    found = with_triggers(rows(spark, imported, REBALANCES), events).persist()
    columns = ("group_id", "incarnation", "to_generation", "trigger")
    causes = {(row.group_id, row.incarnation, row.to_generation): row.trigger for row in simulated.truth.causes}
    triggers = {tuple(row)[:3]: row.trigger for row in found.select(*columns).collect()}
    assert triggers == {place: causes[place] for place in triggers}
    assert len(triggers) > 30
    proof = found.selectExpr("trigger_source_file as source_file", "trigger_line_number as line_number")
    proven = events.join(proof, ["source_file", "line_number"])
    assert proven.groupBy("kind").count().collect() == [("preparing_rebalance", len(triggers))]
    warehouse = ("--warehouse", str(imported.warehouse), "--cluster", "test")
    shown = CliRunner().invoke(main, ["group", REQUESTS_OF, *warehouse])
    of_group = [trigger for (group_id, *_), trigger in triggers.items() if group_id == REQUESTS_OF]
    assert sorted(re.findall(r"trigger: (\w+), at 2026-01-05T", shown.stdout)) == sorted(of_group)
    listed = CliRunner().invoke(main, ["rebalances", "--group", REQUESTS_OF, "--json", *warehouse])
    *lines, last = map(json.loads, listed.stdout.splitlines())
    assert {line["trigger"] for line in lines} <= set(of_group)
    assert "not_known" in last  # this ledger has no coverage


def test_a_gzip_that_unpacks_to_too_much(spark: SparkSession, simulated: Simulated, tmp_path: Path) -> None:
    """Attack: a small file unpacks to a disk full. What is within the limit is imported, and the run fails and says
    how far it came, each time; with a higher limit the rest is imported."""
    smallest = min((simulated.broker_logs / "request-log").iterdir(), key=lambda path: path.stat().st_size)
    lines = smallest.read_text().splitlines(keepends=True)[:10]
    packed = tmp_path / "kafka-request.log.1.gz"
    packed.write_bytes(gzip.compress("".join([*lines[:5], "\n" * 2**20, *lines[5:]]).encode()))
    settings = load_settings().logs
    sources = LogSources([packed], [])
    with open_test_ledger(spark, tmp_path / "warehouse") as ledger:
        limited = settings.model_copy(update={"unpacked_bytes_max": sum(map(len, lines[:5]))})
        for _ in range(2):
            with pytest.raises(InputError, match="after its first 5 lines was not imported"):
                import_logs(ledger, limited, sources, threading.Event())
            assert ledger.arrow(REQUESTS).num_rows == 5
        totals = import_logs(ledger, settings, sources, threading.Event())
        assert (totals.lines, ledger.arrow(REQUESTS).num_rows) == (2**20 + 5, 10)


def test_shards_share_the_lines(spark: SparkSession, simulated: Simulated, tmp_path: Path) -> None:
    """Goal: each shard of a cluster keeps the lines about its own groups, and those about none; before it has read the
    topic it can't know them, and keeps nothing."""
    smallest = min((simulated.broker_logs / "request-log").iterdir(), key=lambda path: path.stat().st_size)
    lines = smallest.read_text().splitlines(keepends=True)[:60]
    of_other = 1 - partition_for(REQUESTS_OF, PARTITIONS) % 2
    other = next(name for name in map("other-{}".format, range(9)) if partition_for(name, PARTITIONS) % 2 == of_other)
    lines[::2] = [line.replace(REQUESTS_OF, other) for line in lines[::2]]
    (tmp_path / "kafka-request.log").write_text("".join(lines))
    sources, kept = LogSources([tmp_path / "kafka-request.log"], []), []
    for number in (1, 2):
        with open_test_ledger(spark, tmp_path / str(number)) as whole:
            settings = overlaid(whole.settings, {"kafka": {"shard": f"{number}/2"}})
            ledger = replace(whole, settings=settings)
            with pytest.raises(InputError, match="run `groupledger ingest` first"):
                import_logs(ledger, settings.logs, sources, threading.Event())
            identity = TopicIdentity("c", "t", PARTITIONS, f"{number}/2")
            write_source(ledger.storage, "test", LedgerSource(KAFKA, identity, {}))
            totals = import_logs(ledger, settings.logs, sources, threading.Event())
            assert totals.lines == len(lines)
        rows = zip(*ledger.arrow(REQUESTS, columns=["line_number", "group_id"]).to_pydict().values(), strict=True)
        kept.append(dict(rows))
        own = {group for group in kept[-1].values() if group is not None}
        assert own
        assert all(partition_for(group, PARTITIONS) % 2 == number - 1 for group in own)
    first, second = kept
    assert {*first, *second} == {*range(1, len(lines) + 1)}
    assert {first[number] for number in first.keys() & second.keys()} <= {None}


def await_lines(ledger: Ledger, count: int) -> None:
    deadline = time.monotonic() + FOLLOWED_S_MAX
    while not ledger.exists(LOG_FILES) or pc.sum(ledger.arrow(LOG_FILES)["line_count"]).as_py() != count:
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_a_directory_is_followed(spark: SparkSession, simulated: Simulated, tmp_path: Path) -> None:
    """Goal: a continuous import takes what is appended, a line only when it is whole, and a rotated file's successor;
    it says what is wrong with a file, and goes on."""
    smallest = min((simulated.broker_logs / "request-log").iterdir(), key=lambda path: path.stat().st_size)
    lines = smallest.read_text().splitlines(keepends=True)[:60]
    watched, stop = tmp_path / "kafka-request.log", threading.Event()
    said: list[str] = []
    totals: list[ImportTotals] = []
    watched.write_text("".join(lines[:20]) + lines[20][:100])
    settings = load_settings().logs.model_copy(update={"poll_interval_s": 1})
    with open_test_ledger(spark, tmp_path / "warehouse") as quiet:
        ledger = replace(quiet, say=said.append)
        sources = LogSources([tmp_path], [])
        following = threading.Thread(
            target=lambda: totals.append(import_logs(ledger, settings, sources, stop, is_continuous=True))
        )
        following.start()
        try:
            await_lines(ledger, 20)
            with watched.open("a") as appended:
                appended.write(lines[20][100:] + "".join(lines[21:40]))
            (tmp_path / "kafka-request.log.strange").write_text("no log at all\n")
            await_lines(ledger, 40)
            watched.rename(tmp_path / "kafka-request.log.1")
            watched.write_text("".join(lines[40:]))
            await_lines(ledger, 60)
        finally:
            stop.set()
            following.join()
    found = columns_of(tmp_path / "warehouse", REQUESTS, "source_file", "line_number")
    assert len(found) == len(set(found)) == totals[0].rows["request_log"] == 60
    assert any("kafka-request.log.strange" in text for text in said)
