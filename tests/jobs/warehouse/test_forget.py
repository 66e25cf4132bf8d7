"""Goal: a forgotten name is in no file of the warehouse any more, and nothing else is gone."""

from __future__ import annotations

import json
import re
import shutil
import threading
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.owner import owner
from groupledger.jobs.derive.history import TABLES as HISTORY
from groupledger.jobs.derive.history import update_history
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.warehouse.commits import Commits, NumberedBatch
from groupledger.jobs.warehouse.forget import UNDER_WAY, ForgetOutcome, Forgetting
from groupledger.jobs.warehouse.forget import forget as forget_with
from groupledger.jobs.warehouse.lease import Lease
from groupledger.jobs.warehouse.notes import read_note
from groupledger.jobs.warehouse.rebuilds import is_requested
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.log_quarantine import LOG_QUARANTINE
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.requests import REQUESTS
from groupledger.schemas.tables.topic_names import TOPIC_NAMES
from groupledger.transforms.forgetting import CLIENT, FORGOTTEN, GROUP, HOST, Forgotten
from lab.warehouses.ledgers import make_tables, open_test_ledger
from tests.jobs.warehouses import BY_HAND, SIMULATED

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.schemas.tables.table import Table

CANARY = "canary"
MEMBER = f"{CANARY}-0a1b2c3d-0000-4000-8000-0123456789ab"
DAY = date(2026, 1, 5)
AT = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
SUBSCRIPTION_WITH_CANARY = "AAEAAAAAAAAABmNhbmFyeQ=="


def classic_json(client: str, host: str, member: str) -> str:
    one = {"member_id": member, "client_id": client, "client_host": host, "subscription": SUBSCRIPTION_WITH_CANARY}
    return json.dumps({"protocol_type": "mine", "leader": member, "members": [one]})


def rows_with_canaries() -> dict[Table, list[dict[str, Any]]]:
    """Makes rows with a name in each kind of place where a name may be; the last row of a table has none."""
    record = {"kafka_partition": 1, "ingest_date": DAY, "record_type": "group_metadata"}
    request = {"source_file": "f", "happened_date": DAY, "client_id": "c", "client_host": "10.0.0.1"}
    event = {"source_file": "f", "logged_date": DAY}
    member = {"incarnation": 1, "topic": "orders", "is_open": 0}
    return {
        COORDINATOR_RECORDS: [
            {**record, "kafka_offset": 1, "group_id": CANARY, "record_json": classic_json("c", "/h", "m")},
            {**record, "kafka_offset": 2, "group_id": "g", "record_json": classic_json(CANARY, f"/{CANARY}", MEMBER)},
            {**record, "kafka_offset": 3, "raw_key": b"\x00\x02", "raw_value": b"\x00\x63" + CANARY.encode()},
            {**record, "kafka_offset": 4, "group_id": f"{CANARY}-2", "record_json": "{}"},
        ],
        REQUESTS: [
            {**request, "line_number": 1, "group_id": CANARY},
            {**request, "line_number": 2, "groups": [{"group_id": CANARY}, {"group_id": "g"}]},
            {**request, "line_number": 3, "request_json": json.dumps({"groupsNames": [CANARY, "g"], "topic": CANARY})},
            {**request, "line_number": 4, "client_id": CANARY, "client_host": CANARY, "member_id": MEMBER},
            {**request, "line_number": 5, "connection_id": f"10.0.1.0:9092-{CANARY}:32770-0-2"},
            {**request, "line_number": 6, "group_id": "g", "reason": "not canaryish"},
        ],
        COORDINATOR_EVENTS: [
            {**event, "line_number": 1, "group_ids": [CANARY, "g"], "message": f"Deleted {CANARY}, g."},
            {**event, "line_number": 2, "group_id": "g", "details": [("members", f"clientHost=/{CANARY}")]},
            {**event, "line_number": 3, "group_id": "g", "member_id": "m"},
        ],
        LOG_QUARANTINE: [{"source_file": "f", "line_number": 1, "line": f"[?] group {CANARY} and host {CANARY}"}],
        INCIDENTS: [
            {"incident_id": "i", "group_id": "g", "explanation": f"A member at {CANARY}, of {CANARY}.", "is_open": True}
        ],
        GROUPS: [{"group_id": CANARY}, {"group_id": "canaries"}, {"group_id": "g", "leader": MEMBER}],
        MEMBERS: [{**member, "group_id": "g", "member_id": MEMBER, "client_id": CANARY, "client_host": f"/{CANARY}"}],
        ASSIGNMENTS: [{**member, "group_id": "g", "member_id": MEMBER, "other_member_ids": [MEMBER, "m"]}],
        TOPIC_NAMES: [{"topic_id": "t", "topic": "orders"}],
    }


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Rows of two clusters. Names are also in an earlier version of a table, and in the log's statistics."""
    commits = Commits(str(tmp_path), ())
    for table, rows in rows_with_canaries().items():
        make_tables(tmp_path, table)
        for cluster in ("test", "other"):
            # The command leaves the rows of the other cluster alone.
            of_cluster = rows if cluster == "test" else [neutral(row) for row in rows]
            found = pa.Table.from_pylist(
                [{"cluster": cluster, **row} for row in of_cluster], arrow_schema(table.schema)
            )
            commits.append(table, found, NumberedBatch(f"query {cluster}", 7))
    gone = {"cluster": "test", "topic_id": CANARY, "topic": "gone"}
    commits.append(TOPIC_NAMES, pa.Table.from_pylist([gone], arrow_schema(TOPIC_NAMES.schema)))
    commits.delete(TOPIC_NAMES, "topic = 'gone'")
    return tmp_path


def neutral(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if CANARY not in repr(value)} | (
        {"group_id": "g"} if "group_id" in row else {}
    )


def forget(warehouse: Path, kind: str, name: str = CANARY, *, is_dry_run: bool = False) -> ForgetOutcome:
    what = Forgotten(kind, (name,))
    no_spark: Any = None
    settings = load_settings(cluster="test")
    return forget_with(no_spark, str(warehouse), settings, what, is_dry_run=is_dry_run, say=lambda _text: None)


def counts(outcome: ForgetOutcome) -> dict[str, tuple[int, int]]:
    return {change.table.name: (change.removed, change.changed) for change in outcome.changes}


def rows_of(warehouse: Path, table: Table, cluster: str = "test") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(str(warehouse / table.name)).to_pyarrow_table().to_pylist()
    return [row for row in found if row["cluster"] == cluster]


def places(warehouse: Path, name: str) -> list[str]:
    """Returns the files that hold a name as a whole word: as bytes, in a value, or in the statistics of a value."""
    word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)")

    def holds(path: Path) -> bool:
        in_values = path.suffix == ".parquet" and word.search(repr(pq.read_table(path).to_pylist()))
        return bool(in_values or word.search(path.read_bytes().decode("latin-1")))

    return [str(path.relative_to(warehouse)) for path in sorted(warehouse.rglob("*")) if path.is_file() and holds(path)]


def test_a_group(warehouse: Path) -> None:
    """Goal: rows about the group are gone, rows about several groups stay without it, and a longer name stays."""
    found = counts(forget(warehouse, GROUP))
    assert found["coordinator_records"] == (1, 2)  # bytes of two others held the name
    assert found["requests"] == (1, 2)
    assert found["coordinator_events"] == (0, 2)
    assert found["groups"] == (1, 0)
    assert [row["group_id"] for row in rows_of(warehouse, GROUPS)] == ["canaries", "g"]
    by_line = {row["line_number"]: row for row in rows_of(warehouse, REQUESTS)}
    assert [each["group_id"] for each in by_line[2]["groups"]] == [FORGOTTEN, "g"]
    assert json.loads(by_line[3]["request_json"]) == {"groupsNames": [FORGOTTEN, "g"], "topic": CANARY}
    assert by_line[4]["client_id"] == CANARY  # a client of the same name is another thing
    assert rows_of(warehouse, LOG_QUARANTINE)[0]["line"] == f"[?] group {FORGOTTEN} and host {FORGOTTEN}"
    left = {row["kafka_offset"]: row for row in rows_of(warehouse, COORDINATOR_RECORDS)}
    assert sorted(left) == [2, 3, 4]
    assert left[4]["group_id"] == f"{CANARY}-2"


def test_a_client_and_a_host(warehouse: Path) -> None:
    """Goal: a client's id, the member ids that begin with it, its host and its bytes are gone, and no row is; after the
    group, too, no file holds the name."""
    before = {table: len(rows_of(warehouse, table)) for table in rows_with_canaries()}
    forget(warehouse, CLIENT)
    forget(warehouse, HOST)
    assert {table: len(rows_of(warehouse, table)) for table in before} == before
    renamed = MEMBER.replace(CANARY, FORGOTTEN)
    (member,) = rows_of(warehouse, MEMBERS)
    assert (member["member_id"], member["client_id"], member["client_host"]) == (renamed, FORGOTTEN, FORGOTTEN)
    (interval,) = rows_of(warehouse, ASSIGNMENTS)
    assert (interval["member_id"], interval["other_member_ids"]) == (renamed, [renamed, "m"])
    records = {row["kafka_offset"]: row for row in rows_of(warehouse, COORDINATOR_RECORDS)}
    (inner,) = json.loads(records[2]["record_json"])["members"]
    assert inner == {"member_id": renamed, "client_id": FORGOTTEN, "client_host": FORGOTTEN, "subscription": ""}
    assert (records[3]["raw_key"], records[3]["raw_value"]) == (None, None)
    assert "the bytes held a name that was forgotten" in records[3]["decode_error_detail"]
    forget(warehouse, GROUP)
    assert [place for place in places(warehouse, CANARY) if not place.startswith("requests")] == []
    assert places(warehouse, CANARY) != []  # the topic of that name


def test_nothing_is_left_of_the_past(warehouse: Path) -> None:
    """Goal: files of old versions, the statistics in Delta's log, and its checkpoints do not hold the name; the notes
    of writers in the log are still there."""
    make_checkpoint = DeltaTable(str(warehouse / GROUPS.name))
    make_checkpoint.create_checkpoint()
    for kind in (GROUP, CLIENT, HOST):
        forget(warehouse, kind)
    assert not any(place.startswith(("groups/", "topic_names/")) for place in places(warehouse, CANARY))
    for table in rows_with_canaries():
        delta = DeltaTable(str(warehouse / table.name))
        assert delta.transaction_version("query test") == 7
        assert delta.transaction_version("query other") == 7
        assert delta.transaction_version("writer/test") == 3
        assert rows_of(warehouse, table, "other")
        names = [path.name for path in (warehouse / table.name / "_delta_log").iterdir()]
        assert {name[:20] for name in names if name[:1].isdigit()} == {f"{delta.version():020}"}


def test_a_command_that_was_killed(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a command that was killed after its commits left the past; the next one, with any name, removes it."""
    finish = Forgetting.forget_past

    def killed(_self: Forgetting, _table: Table) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Forgetting, "forget_past", killed)
    with pytest.raises(KeyboardInterrupt):
        forget(warehouse, GROUP)
    assert [place for place in places(warehouse, CANARY) if place.startswith("groups/")] != []
    monkeypatch.setattr(Forgetting, "forget_past", finish)
    assert counts(forget(warehouse, GROUP, "nobody")) == {}
    assert [place for place in places(warehouse, CANARY) if place.startswith("groups/")] == []
    assert read_note(LocalStorage(warehouse), "test", UNDER_WAY, str, "") is None


def test_a_dry_run_and_a_wrong_name(warehouse: Path) -> None:
    """Goal: a dry run prints the same counts and changes nothing; for a name that is not there, the nearest are listed
    and the past stays."""
    files = sorted(warehouse.rglob("*"))
    planned = counts(forget(warehouse, GROUP, is_dry_run=True))
    assert sorted(warehouse.rglob("*")) == files
    outcome = forget(warehouse, GROUP, "canari")
    assert (outcome.changes, outcome.nearest) == ([], ["canaries", "canary", "canary-2"])
    assert DeltaTable(str(warehouse / GROUPS.name), version=0).version() == 0
    assert counts(forget(warehouse, GROUP)) == planned


@pytest.mark.parametrize("name", ["it's", 'a"b', "back\\slash", "ünï", "*", "a\nb", "' OR 1=1 --"])
def test_hostile_names(warehouse: Path, name: str) -> None:
    """Goal: a name with quotes, line breaks or signs of a pattern is a name: its rows go, and no others."""
    rows = [{"cluster": "test", "group_id": name, "leader": "m"}]
    Commits(str(warehouse), ()).append(GROUPS, pa.Table.from_pylist(rows, arrow_schema(GROUPS.schema)))
    assert counts(forget(warehouse, GROUP, name))["groups"] == (1, 0)
    assert len(rows_of(warehouse, GROUPS)) == 3


def test_refused(warehouse: Path) -> None:
    """Goal: nothing is forgotten beside a writer of any cluster, nor while a rebuild needs an earlier version."""
    with (
        Lease(LocalStorage(warehouse), "other", "groupledger ingest", 60),
        pytest.raises(OutsideError, match="Another writer holds"),
    ):
        forget(warehouse, GROUP)
    LocalStorage(warehouse).write("_groupledger/other/rebuild.json", "{}")
    with pytest.raises(InputError, match="run `groupledger history --cluster NAME` first, for other"):
        forget(warehouse, GROUP)
    assert len(rows_of(warehouse, GROUPS)) == 3


# With Spark


def test_the_history_goes_on(spark: SparkSession, filled_warehouse: Path, tmp_path: Path) -> None:
    """Goal: after a client was forgotten the history is rebuilt from the changed records, and is as it was but for the
    name: a partition that it owned is owned, not unowned."""
    warehouse = tmp_path / "w"
    shutil.copytree(filled_warehouse, warehouse)
    with open_test_ledger(spark, warehouse, SIMULATED) as ledger:
        update_history(ledger, threading.Event())
    member = next(
        row
        for row in rows_of(warehouse, MEMBERS)
        if row["left_at"] is None and row["client_id"] and row["is_open"] == 1
    )
    name, host = member["client_id"], member["client_host"].removeprefix("/")
    before = {table: [renamed(row, name, host) for row in rows_of(warehouse, table)] for table in HISTORY}
    settings = load_settings(cluster=SIMULATED)
    for kind, each in ((CLIENT, name), (HOST, host)):
        what = Forgotten(kind, (each,))
        outcome = forget_with(spark, str(warehouse), settings, what, is_dry_run=False, say=lambda _text: None)
        assert "members" in counts(outcome)
    with open_test_ledger(spark, warehouse, SIMULATED) as ledger:
        assert is_requested(ledger.storage, ledger.cluster)
        update_history(ledger, threading.Event())
        assert not is_requested(ledger.storage, ledger.cluster)
    assert places(warehouse, host) == []
    assert places(warehouse, name) == []
    for table in HISTORY:
        after = [comparable(row) for row in rows_of(warehouse, table)]
        assert sorted(after) == sorted(map(comparable, before[table])), table.name
    owned = next(row for row in rows_of(warehouse, ASSIGNMENTS) if row["client_id"] == FORGOTTEN)
    answers = ClusterRows(str(warehouse), SIMULATED)
    (answer,) = owner(answers, owned["group_id"], owned["topic"], owned["partition"], owned["valid_from"])
    assert (answer["status"], answer["client_id"]) == ("owned", FORGOTTEN)
    assert rows_of(warehouse, ASSIGNMENTS, BY_HAND)


def renamed(row: dict[str, Any], client: str, host: str) -> dict[str, Any]:
    return Forgotten(HOST, (host,)).out_of(Forgotten(CLIENT, (client,)).out_of(row))


def comparable(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))
