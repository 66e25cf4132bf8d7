"""Goal: no number and no time that a client can write ends a pass, a question or a page, or changes another group.

One pass reads a simulated hour of healthy groups, and after it a group for each numeric field of each record type and
version, and each extreme value that the field holds (`lab.scenarios.extremes`). A second pass reads the hour alone.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from shutil import copytree
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from groupledger.jobs.ask.lag_answers import lag_at
from groupledger.jobs.ask.named_queries import named_queries
from groupledger.jobs.cli.main import main
from groupledger.jobs.demo.simulate import CAPTURE_COLUMNS, simulate
from groupledger.jobs.ingest.capture import read_manifest, write_manifest
from groupledger.jobs.monitor.lag_metrics import Summed, lag_metrics
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.serve.answers import Warehouse
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.codec.records import encode_record
from groupledger.schemas.instants import WRITTEN_FROM_MS, WRITTEN_UNTIL_MS, known_ms, ms_of, saturated_int64
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.transforms.lag.rules import rollup
from lab.scenarios.extremes import EXTREMES, Case, poisoned, record_cases, timestamp_cases
from tests.jobs.monitor.test_lag_metrics import parsed
from tests.jobs.serve.serving import served
from tests.jobs.simulated_log import MIX, SEED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.jobs.ask.named_queries import NamedQuery

CLUSTER = "extreme"
TOPIC = "orders.mix-0000"  # one that healthy groups read, too
AT = "2026-01-05T00:30:00Z"
UNTIMED, TIMED = list(record_cases()), list(timestamp_cases())
CASES = [*UNTIMED, *TIMED]
STRANGE = -2  # the place of the record with the value, from the last one of its group
STORED = {"timestamp": pa.int64()}  # Python can't hold all instants that Arrow can
FIELDS = {(case.record_type, case.version, case.is_key, case.path) for case in CASES}
COMPARED = ("generations", "members", "assignments", "rebalances", "lag", "offset_events", "incidents")
OF_THE_CLUSTER = (
    ("groups", "--all"),
    ("groups", "--all", "--json"),
    ("lag",),
    ("lag", "--json"),
    ("lag", "--by", "group"),
    ("lag", "--by", "topic", "--json"),
    ("incidents", "--severity", "info"),
    ("incidents", "--severity", "info", "--json"),
    ("rebalances", "--top", "2000"),
    ("rebalances", "--top", "2000", "--json"),
    ("idle",),
    ("idle", "--json"),
    ("readers", TOPIC),
    ("readers", TOPIC, "--json"),
    ("committers", "--top", "2000"),
    ("committers", "--top", "2000", "--json"),
    ("records",),
    ("records", "--json"),
)
OF_A_GROUP = (
    ("group", "{group}"),
    ("group", "{group}", "--json"),
    ("why", "{group}", "--since", "2026-01-01"),
    ("why", "{group}", "--since", "2026-01-01", "--json"),
    ("diff", "{group}", "--from", AT),
    ("owner", "{group}", TOPIC, "0", "--at", AT),
    ("offsets", "{group}", "--at", AT),
    ("lag", "--group", "{group}", "--since", "2026-01-05"),
    ("rebalances", "--group", "{group}"),
    ("records", "--group", "{group}"),
)
PAGES_OF_THE_CLUSTER = (
    "/",
    f"/clusters/{CLUSTER}",
    f"/clusters/{CLUSTER}/topics/{TOPIC}",
    f"/api/v1/clusters/{CLUSTER}/groups?all=true&limit=1000",
    f"/api/v1/clusters/{CLUSTER}/incidents?severity=info",
    f"/v3/kafka/{CLUSTER}/consumer",
)
OF_API = (
    *("", "/owners", "/members", "/timeline", "/rebalances", "/incidents?severity=info", "/what-if", "/lag"),
    *("/lag/total", f"/diff?from={AT}", "/why?since=2026-01-01", f"/offsets?at={AT}"),
)
PAGES_OF_A_GROUP = (
    *(f"/api/v1/clusters/{CLUSTER}/groups/{{group}}{rest}" for rest in OF_API),
    *(
        f"/clusters/{CLUSTER}/groups/{{group}}{rest}"
        for rest in ("", f"?at={AT}&window=1h", "/why?since=2026-01-01", f"/diff?from={AT}")
    ),
    *(f"/v3/kafka/{CLUSTER}/consumer/{{group}}{rest}" for rest in ("", "/status", "/lag")),
)
OF_QUERIES = {"at": AT, "group": CASES[0].group_id, "topic": TOPIC, "partition": "0"}
QUESTIONS_OF_A_FIELD, PAGES_OF_A_FIELD = 1, 2

Row = tuple[Any, ...]


class Passes(NamedTuple):
    poisoned: Path
    healthy: Path


@pytest.fixture(scope="module")
def passes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Passes:
    folder = tmp_path_factory.mktemp("extremes")
    simulate(MIX, SEED, folder / "healthy", None, None, lambda _: None)
    for name in ("capture", "watermarks", "group_states"):
        copytree(folder / "healthy" / name, folder / "poisoned" / name)
    for name in Passes._fields:
        add_cases(folder / name / "capture", is_poisoned=name == "poisoned")
        add_last_round(folder / name)
        status, answer = ask(
            *("pipeline", "--warehouse", str(folder / f"{name}-warehouse"), "--cluster", CLUSTER),
            *("--capture", str(folder / name / "capture"), "--samples", str(folder / name)),
        )
        assert status == 0, answer
    return Passes(*(folder / f"{name}-warehouse" for name in Passes._fields))


def add_cases(capture: Path, *, is_poisoned: bool) -> None:
    """Puts the records of all cases into the partitions that healthy groups are in. Those with a strange time come
    before all others, since what follows in the log may be measured by it; in the healthy capture they have an ordinary
    time. The rest come last, just before the capture's end, and are in the poisoned one only."""
    manifest, (file,) = read_manifest(LocalStorage(capture)), capture.glob("*.parquet")
    assert manifest is not None
    assert manifest.began_at_ms is not None
    healthy = pq.read_table(file)
    partitions = sorted(set(healthy["partition"].to_pylist()))
    first = rows_of_cases(TIMED, partitions, Counter(), manifest.began_at_ms, is_poisoned=is_poisoned)
    before = Counter(partition for _, _, _, partition, *_ in first)
    ends = Counter({partition: end + before[partition] for partition, end in manifest.to_offsets.items()})
    last = rows_of_cases(UNTIMED if is_poisoned else [], partitions, ends, manifest.captured_at_ms - 1_000)
    moved = pa.array([row["offset"] + before[row["partition"]] for row in healthy.to_pylist()])
    healthy = healthy.set_column(healthy.column_names.index("offset"), "offset", moved)
    pq.write_table(pa.concat_tables([as_capture(first), healthy, as_capture(last)]), file)
    reached = {partition: ends[partition] for partition in manifest.to_offsets}
    write_manifest(LocalStorage(capture), replace(manifest, to_offsets=reached))


def rows_of_cases(
    cases: Sequence[Case], partitions: Sequence[int], ends: Counter[int], at_ms: int, *, is_poisoned: bool = True
) -> list[Row]:
    """Returns rows of a capture; `ends` has the next offset of each partition, before and after."""
    rows = []
    for number, case in enumerate(cases):
        partition, records = partitions[number % len(partitions)], poisoned(case, TOPIC)
        for place, record in enumerate(records, -len(records)):
            is_strange = is_poisoned and case.path == ("timestamp",) and place == STRANGE
            at_us = saturated_int64((case.value if is_strange else at_ms) * 1_000)
            rows.append((*encode_record(record), OFFSETS_TOPIC, partition, ends[partition], at_us, 0))
            ends[partition] += 1
    return rows


def as_capture(rows: Sequence[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [[]] * len(CAPTURE_COLUMNS)
    arrays = [
        pa.array(values, STORED.get(field.name, field.type))
        for values, field in zip(columns, CAPTURE_COLUMNS, strict=True)
    ]
    return pa.table(
        [each.cast(field.type) for each, field in zip(arrays, CAPTURE_COLUMNS, strict=True)], CAPTURE_COLUMNS
    )


def add_last_round(folder: Path) -> None:
    """Adds a sampling round that has seen the whole capture; else no round would count the last commits."""
    manifest, (file,) = read_manifest(LocalStorage(folder / "capture")), (folder / "watermarks").glob("*.parquet")
    assert manifest is not None
    samples = pq.read_table(file)
    last = samples.filter(pc.equal(samples["sampled_at_ms"], pc.max(samples["sampled_at_ms"]))).to_pylist()
    for row in last:
        row["sampled_at_ms"] = manifest.captured_at_ms
        if row["topic"] == OFFSETS_TOPIC:
            row["high_watermark"] = row["last_stable_offset"] = manifest.to_offsets[row["partition"]]
    pq.write_table(pa.concat_tables([samples, pa.Table.from_pylist(last, samples.schema)]), file)


def ask(*arguments: str) -> tuple[int, str]:
    """Returns how a command ended, and what it printed. An exception that escapes it fails the test."""
    result = CliRunner(env={"COLUMNS": "400"}).invoke(main, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def drawn(templates: Sequence[Any], count: int) -> Iterator[tuple[Case, Any]]:
    """Yields `count` of the questions for each field, about one of its values; questions and values take turns."""
    by_field: dict[Any, list[Case]] = {}
    for case in CASES:
        by_field.setdefault((case.record_type, case.version, case.is_key, case.path), []).append(case)
    for number, cases in enumerate(by_field.values()):
        for turn in range(count):
            at = number * count + turn
            yield cases[at % len(cases)], templates[at % len(templates)]


def test_the_cases() -> None:
    """Goal: the number of cases is as counted here: a field that is added to a format is tried without a change in this
    file."""
    assert (len(CASES), len(FIELDS), len(EXTREMES)) == (1038, 112, 22)
    assert len({case.group_id for case in CASES}) == len(CASES)


@pytest.mark.parametrize("table", COMPARED)
def test_healthy_groups(passes: Passes, table: str) -> None:
    """Goal: rows of healthy groups are those of a pass that has never met the others."""
    beside, alone = (rows_of(each, table) for each in passes)
    assert alone
    assert beside == alone


def test_what_is_kept_of_commits(passes: Passes) -> None:
    """Goal: a record with a time far ahead does not keep the commits after it in its partition from being settled."""
    beside, alone = (
        json.loads((each / "_groupledger" / CLUSTER / "commit_steps.json").read_text())["positions"] for each in passes
    )
    assert alone
    assert all(beside[partition] >= position for partition, position in alone.items())


@pytest.mark.parametrize("column", ["first_seen_at", "last_seen_at"])
def test_times_of_incidents(passes: Passes, column: str) -> None:
    """Goal: a commit whose record has no possible time is placed by the time that it names itself."""
    timed = {case.group_id for case in TIMED if known_ms(case.value) is None}
    rows = DeltaTable(str(passes.poisoned / "incidents")).to_pyarrow_table(columns=["group_id", column]).to_pylist()
    found = [ms_of(row[column]) for row in rows if row["group_id"] in timed]
    assert found
    assert all(WRITTEN_FROM_MS <= at_ms <= WRITTEN_UNTIL_MS for at_ms in found)


@pytest.mark.parametrize("column", ["from_time", "to_time"])
def test_what_is_known(passes: Passes, column: str) -> None:
    """Goal: the time that the ledger knows neither begins nor ends at a record's strange time."""
    beside, alone = (
        sorted(DeltaTable(str(each / "coverage")).to_pyarrow_table(columns=[column])[column].to_pylist())
        for each in passes
    )
    assert beside == alone


def rows_of(warehouse: Path, table: str) -> Counter[str]:
    rows = DeltaTable(str(warehouse / table)).to_pyarrow_table().to_pylist()
    return Counter(
        json.dumps(row, sort_keys=True, default=str)
        for row in rows
        if not (row["group_id"] or "poison-").startswith("poison-")
    )


def test_every_group_is_reported(passes: Passes) -> None:
    """Goal: none is lost: a record is decoded, or kept, and its group is there unless its key has none."""
    records = DeltaTable(str(passes.poisoned / "coordinator_records")).to_pyarrow_table(columns=["group_id"])
    groups = DeltaTable(str(passes.poisoned / "groups")).to_pyarrow_table(columns=["group_id"])
    assert {case.group_id for case in CASES} <= {*records["group_id"].to_pylist()}
    assert {case.group_id for case in CASES} <= {*groups["group_id"].to_pylist()}


@pytest.mark.parametrize("question", OF_THE_CLUSTER, ids=" ".join)
def test_questions_of_the_cluster(passes: Passes, question: tuple[str, ...]) -> None:
    """Goal: a question about all of them at once is answered."""
    command, *rest = question
    status, answer = ask(command, "--warehouse", str(passes.poisoned), "--cluster", CLUSTER, *rest)
    assert status == 0, answer


@pytest.mark.parametrize("query", named_queries(), ids=lambda query: query.name)
def test_named_queries(passes: Passes, query: NamedQuery) -> None:
    """Goal: each shipped query is answered."""
    needed = [f"--param={each.name}={OF_QUERIES[each.name]}" for each in query.parameters if each.value is None]
    status, answer = ask("sql", "--warehouse", str(passes.poisoned), "--named", query.name, "--format", "json", *needed)
    assert status == 0, answer


def test_questions_of_a_group(passes: Passes) -> None:
    """Goal: each question about a group ends with 0 or 1, whatever its field."""
    ends: Counter[int] = Counter()
    for case, (command, *rest) in drawn(OF_A_GROUP, QUESTIONS_OF_A_FIELD):
        arguments = [each.format(group=case.group_id) for each in rest]
        status, answer = ask(command, "--warehouse", str(passes.poisoned), "--cluster", CLUSTER, *arguments)
        assert status in (0, 1), (case, command, answer)
        ends[status] += 1
    assert ends.total() == len(FIELDS) * QUESTIONS_OF_A_FIELD


def test_pages(passes: Passes) -> None:
    """Goal: no page and no answer of the API is a fault of the server."""
    paths = [path.format(group=quote(case.group_id, "")) for case, path in drawn(PAGES_OF_A_GROUP, PAGES_OF_A_FIELD)]
    with served(passes.poisoned) as client:
        statuses = Counter(client.get(path).status for path in (*PAGES_OF_THE_CLUSTER, *paths))
    assert set(statuses) <= {200, 302, 400, 404}
    assert statuses[200] > len(paths) // 2


def test_the_report(passes: Passes, tmp_path: Path) -> None:
    """Goal: the report has the page of every group."""
    status, answer = ask(
        "report", "--warehouse", str(passes.poisoned), "--cluster", CLUSTER, "--out", str(tmp_path / "report.html")
    )
    assert status == 0, answer
    assert f"{len(CASES) + MIX.groups:,} groups" in answer


def test_metrics(passes: Passes) -> None:
    """Goal: the exposition holds the last round of all groups, and its sums."""
    tables = Warehouse(str(passes.poisoned), load_settings()).rows(CLUSTER)
    _, rows = lag_at(tables, None, None)
    samples = parsed(lag_metrics(CLUSTER, Summed(rows, rollup(rows)), {}, load_settings().metrics))
    groups = {dict(labels)["group"] for name, labels in samples if name == "kafka_consumergroup_group_lag"}
    assert groups == {row.group_id for row in rows if row.lag is not None}
    assert any(group.startswith("poison-") for group in groups)
