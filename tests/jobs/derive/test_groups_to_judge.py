"""Goal: a pass knows which groups have other rows, which have a row from long ago, and who has come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from groupledger.jobs.derive.groups_to_judge import READ, Looked, Present, places
from groupledger.jobs.derive.judged_groups import Judged, groups_after
from groupledger.jobs.derive.reach import ToJudge
from groupledger.jobs.process.clock import DAY_MS
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.instants import LATEST_MS, instant_of_ms
from groupledger.schemas.tables.commit_steps import COMMIT_STEPS
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.offset_events import OFFSET_EVENTS
from groupledger.transforms.incidents.rules import Rules
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table

NOW_DAY, AFTER_DAYS = 100, 14
RULES = Rules(final_after_ms=AFTER_DAYS * DAY_MS)


def day(number: int) -> Any:
    return instant_of_ms(number * DAY_MS)


def rows(table: Table, *given: dict[str, Any]) -> pa.Table:
    empty = {**dict.fromkeys(table.schema.names), "cluster": "test"}
    return pa.Table.from_pylist([{**empty, **row} for row in given], arrow_schema(table.schema))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with open_test_ledger(None, tmp_path) as opened:  # type: ignore[arg-type]
        opened.create(*READ)
        old, new = {"is_open": 0, "next_at": day(60)}, {"is_open": 0, "next_at": day(99)}
        opened.commits.append(COMMIT_STEPS, rows(COMMIT_STEPS, *({**each, "group_id": "s"} for each in (old, new))))
        ended = ({"incident_id": str(each), "group_id": "i", "last_seen_at": day(each)} for each in (60, 99))
        opened.commits.append(INCIDENTS, rows(INCIDENTS, *ended))
        yield opened


def before(ledger: Ledger, **values: Any) -> Judged:
    return Judged(fingerprint="f", until_ms=NOW_DAY * DAY_MS, places=places(ledger), coverage="c", **values)


def looked(ledger: Ledger, noted: Judged) -> Looked:
    return Looked(ledger, noted, places(ledger), RULES)


def test_rows_of_now_and_of_long_ago(ledger: Ledger) -> None:
    noted = before(ledger)
    ledger.commits.append(
        OFFSET_EVENTS,
        rows(OFFSET_EVENTS, {"group_id": "new", "happened_at": day(99)}, {"group_id": "late", "happened_at": day(90)}),
    )
    found = looked(ledger, noted)
    assert (found.is_known, found.new, found.late) == (True, {"new", "late"}, {"late"})
    line = {"source_file": "s", "line_number": 1, "logged_at": day(90), "logged_date": day(90).date()}
    ledger.commits.append(COORDINATOR_EVENTS, rows(COORDINATOR_EVENTS, {**line, "group_id": "late"}))
    assert looked(ledger, noted).is_known
    ledger.commits.append(COORDINATOR_EVENTS, rows(COORDINATOR_EVENTS, {**line, "line_number": 2}))
    assert not looked(ledger, noted).is_known


@pytest.mark.parametrize(("table", "column"), [(COMMIT_STEPS, "next_at"), (INCIDENTS, "last_seen_at")])
def test_a_maintenance_removes_old_rows(ledger: Ledger, table: Table, column: str) -> None:
    """Goal: rows that are removed for their age make no pass judge everything; others do."""
    noted = before(ledger)
    instant = "arrow_cast({:d}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
    ledger.commits.delete(table, f"{column} < {instant.format(70 * DAY_MS * 1_000)}")
    assert looked(ledger, noted).is_known
    ledger.commits.delete(table, f"{column} > {instant.format(70 * DAY_MS * 1_000)}")
    assert not looked(ledger, noted).is_known


def test_who_comes_back(ledger: Ledger) -> None:
    """Goal: a group that lost an offset is not judged for each of its commits, but for one of that partition."""
    noted = before(ledger, away={"a": [["t", 1, 40 * DAY_MS]], "b": [["t", 1, 40 * DAY_MS]]})
    commits = [("a", "t", 0), ("b", "t", 1), ("c", "t", 1)]
    records = [
        {
            "group_id": group,
            "record_type": "offset_commit",
            "offset_commit": {"topic": topic, "partition": partition},
            "kafka_partition": 0,
            "kafka_offset": number,
            "ingest_date": day(NOW_DAY).date(),
        }
        for number, (group, topic, partition) in enumerate(commits)
    ]
    ledger.commits.append(COORDINATOR_RECORDS, rows(COORDINATOR_RECORDS, *records))
    found = looked(ledger, noted)
    assert (found.is_known, found.new, found.back) == (True, set(), {"b"})


def test_what_is_noted_of_lost_offsets() -> None:
    """Goal: a loss from before all that was read of a group stays, and one that was read is as the rules say."""
    lost = {name: [["t", 0, 10], ["t", 1, 50]] for name in ("near", "far", "others")}
    word = {"group_id": "near", "may_change_until_ms": 70, "waits_for_commits": False}
    words = [{**word, "away": [{"topic": "t", "partition": 2, "at_ms": 60}]}]
    noted = groups_after(Judged(away=lost), words, ["near", "far"], 65, {"near": 40, "far": 5}, ["near", "far"])
    assert noted["away"] == {"near": [["t", 0, 10], ["t", 2, 60]], "others": lost["others"]}
    assert noted["back"] == ["near"]


def test_other_faults() -> None:
    """Goal: a new fault makes a pass judge all groups by what is not final, one of long ago all of their past."""

    class Nothing:
        def new(self, _before: Judged) -> set[str]:
            return set()

        by_time = new

    def to_judge(*faults: list[Any]) -> ToJudge:
        present = Present("f", [*faults], {}, "c", Nothing())  # type: ignore[arg-type]
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (("is_known", True), ("new", {"n"}), ("late", set()), ("back", set())):
                patch.setattr(Looked, name, value, raising=False)
            patch.setattr(Looked, "__init__", lambda *_: None)
            patch.setattr("groupledger.jobs.derive.groups_to_judge.open_troubles", lambda *_: [])
            return present.groups_to_judge(None, noted, RULES)  # type: ignore[arg-type]

    known, lines = [60 * DAY_MS, "of then"], [LATEST_MS, "of lines"]
    noted = Judged(fingerprint="f", until_ms=NOW_DAY * DAY_MS, coverage="c", faults=[known, lines])
    assert to_judge(known, lines) == ToJudge({"n"}, set(), set())
    assert to_judge(known, [99 * DAY_MS, "of now"], lines) == ToJudge(None, set(), set())
    assert to_judge(known, [LATEST_MS, "of other lines"]) == ToJudge(None, set(), set())
    assert to_judge([60 * DAY_MS, "another"], lines) == ToJudge()
