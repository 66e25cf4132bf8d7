"""Goal: the command reads a group's rows without Spark, and reports the saving of a setting and the figures that it
can't compute."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.what_if import WhatIfQuestion, what_if
from groupledger.jobs.ask.what_if_process import ask
from groupledger.jobs.ask.what_if_stored import stored_of_group, stored_totals, totals
from groupledger.jobs.cli.main import main
from groupledger.jobs.process.errors import InputError, UnknownNameError
from groupledger.schemas.definitions import schema_of
from tests.jobs.serve.serving import served

if TYPE_CHECKING:
    from pathlib import Path

AT = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
RESTARTS = 3
QUESTION = WhatIfQuestion(since=AT, until=AT + 120 * MINUTE, settings=(("static",), ("session.timeout.ms=10000",)))


def write(warehouse: Path, table: str, *rows: dict[str, Any], **more: Any) -> None:
    found = pa.Table.from_pylist([{"cluster": "c", "incarnation": 1, **row, **more} for row in rows], schema_of(table))
    write_deltalake(str(warehouse / table), found, mode="append")


def restart(number: int) -> tuple[datetime, datetime]:
    left_at = AT + 10 * (number + 1) * MINUTE
    return left_at, left_at + MINUTE / 2


def rebalance(at: datetime, number: int, kind: str) -> dict[str, Any]:
    return {
        "happened_at": at,
        "from_generation": number,
        "to_generation": number + 1,
        "kafka_offset": number,
        "is_hole": False,
        "changes": [{"kind": kind}],
        "partitions_moved": 3,
        "partitions_kept": 3,
    }


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a group of two members, one of them started again three times, and a group with an assignor of its own."""
    path = tmp_path_factory.mktemp("warehouse")
    times = [AT - MINUTE, *(at for number in range(RESTARTS) for at in restart(number)), None]
    member = {"client_host": "/10.0.0.1", "session_timeout_ms": 45_000, "rebalance_timeout_ms": 300_000}
    tenures = [
        {"member_id": f"a-{number}", "client_id": "a", "joined_at": joined, "left_at": left, **member}
        for number, (joined, left) in enumerate(zip(times[::2], times[1::2], strict=True))
    ]
    steady = {"member_id": "b", "client_id": "b", "joined_at": AT - MINUTE, **member}
    moments = [at for number in range(RESTARTS) for at in restart(number)]
    for group, protocol in (("orders", "range"), ("odd", "ours")):
        write(path, "members", *tenures, steady, group_id=group, leave_cause="left")
        generation = {"protocol_type": "consumer", "protocol": protocol, "member_count": 2, "started_at": AT - MINUTE}
        write(path, "generations", generation, group_id=group)
        changes = ("member_left", "member_joined") * RESTARTS
        found = [rebalance(at, number, kind) for number, (at, kind) in enumerate(zip(moments, changes, strict=True), 1)]
        write(path, "rebalances", *found, group_id=group)
        owned = [{"topic": "t", "partition": number, "valid_from": AT - MINUTE} for number in range(6)]
        write(path, "assignments", *owned, group_id=group)
        write(path, "groups", {"kafka_partition": 0}, group_id=group)
    write(path, "coverage", {"kafka_partition": 0, "to_time": AT + 120 * MINUTE})
    for at, end in ((AT - MINUTE, 0), (AT + 119 * MINUTE, 72_000)):
        ends = [{"topic": "t", "partition": number, "high_watermark": end} for number in range(6)]
        write(path, "watermarks", *ends, sampled_at=at, sample_date=at.date())
    return path


def test_request_log(warehouse: Path, tmp_path: Path) -> None:
    """Goal: with all requests of a group, a shorter session is judged: nobody was silent for long. A setting that does
    not go with the group's own heartbeats is refused for this group only."""
    path = tmp_path / "warehouse"
    shutil.copytree(warehouse, path)
    rows = ClusterRows(str(path), "c")
    tenures = rows.rows("members", ("group_id", "=", "orders"))
    times = [(each, AT + second * SECOND) for each in tenures for second in range(0, 120 * 60, 4)]
    heartbeats = [
        {"member_id": each["member_id"], "happened_at": at, "logged_at": at, "api": "HEARTBEAT"}
        for each, at in times
        if each["joined_at"] <= at and (each["left_at"] is None or at < each["left_at"])
    ]
    write(path, "requests", *heartbeats, group_id="orders", happened_date=AT.date())
    asked = (("session.timeout.ms=10000",), ("session.timeout.ms=4000",))
    ((shorter, contradiction),) = what_if(ClusterRows(str(path), "c"), ["orders"], replace(QUESTION, settings=asked))
    assert shorter["refusal"] is None
    assert "heartbeat.interval.ms=4000" in shorter["actual_setting"]
    assert shorter["rebalances"]["spared_low"] == shorter["rebalances"]["spared_high"] == 0
    assert contradiction["refusal"] == (
        "heartbeat.interval.ms has to be less than session.timeout.ms: change one of them."
    )


def test_answers(warehouse: Path) -> None:
    """Goal: three restarts are six rebalances that static membership would have avoided; a shorter session gets no
    figure, nor does a group that can't be replayed; the figures are summed up by setting."""
    (odd, orders) = what_if(ClusterRows(str(warehouse), "c"), None, QUESTION)
    static, session = orders
    assert static["rebalances"] == {
        "observed_low": 6,
        "observed_high": 6,
        "replayed_low": 6,
        "replayed_high": 6,
        "asked_low": 0,
        "asked_high": 0,
        "spared_low": 6,
        "spared_high": 6,
    }
    assert (static["group_id"], static["setting"], static["replay_error"], static["refusal"]) == (
        *("orders", "static", 0, None),
    )
    assert static["asked_setting"].startswith("range, static, session.timeout.ms=45000")
    # Ten records a second, and a commit every five seconds, which leaves the records since then to be read again.
    assert static["records_processed_twice"]["replayed_high"] is not None
    assert session["rebalances"] is None
    assert session["refusal"].startswith("A shorter session.timeout.ms")
    assert {row["refusal"] for row in odd} == {"The assignor is the application's own, which can't be replayed."}
    first, second = totals([*odd, *orders])
    assert first == {
        "setting": "static",
        "groups": 2,
        "groups_told": 1,
        "rebalances_observed": 6,
        "rebalances_spared": 6,
        "rebalances_spared_low": 6,
        "rebalances_spared_high": 6,
        "gain_most": ["orders"],
    }
    assert (second["groups_told"], second["gain_most"]) == (0, [])


def test_refusals(warehouse: Path) -> None:
    """Goal: a setting that does not exist and a group that was never seen are refused before anything is played."""
    tables = ClusterRows(str(warehouse), "c")
    with pytest.raises(InputError, match="There is no setting 'fast'"):
        list(what_if(tables, None, WhatIfQuestion(since=AT, until=AT + MINUTE, settings=(("fast",),))))
    with pytest.raises(UnknownNameError, match="did you mean orders"):
        list(what_if(tables, ["order"], QUESTION))


def run(warehouse: Path, *arguments: str) -> str:
    times = ["--since", AT.isoformat(), "--until", (AT + 120 * MINUTE).isoformat()]
    found = CliRunner().invoke(main, ["what-if", "--warehouse", str(warehouse), "--cluster", "c", *times, *arguments])
    assert found.exit_code == 0, found.output
    return found.stdout


def test_command(warehouse: Path) -> None:
    """Goal: a person gets a table, the figures that can't be computed, and a sentence for the cluster; a program gets
    JSON."""
    text = run(warehouse, "--all", "--setting", "static", "--setting", "static,consumer")
    assert "odd, static: can't be computed. The assignor is the application's own" in text
    assert "static: 6 of 6 rebalances avoided in 1 of 2 groups for which it can be computed; most in orders." in text
    (row,) = map(json.loads, run(warehouse, "orders", "--setting", "static", "--json").splitlines())
    words = ["what-if", "--warehouse", str(warehouse), "orders", "--setting", "static", "--json"]
    (of_last_week,) = map(json.loads, CliRunner().invoke(main, words).stdout.splitlines())  # that is known
    assert of_last_week["rebalances"]["observed_low"] == row["rebalances"]["observed_low"]
    assert (row["rebalances"]["spared"], row["rebalances"]["spared_low"]) == (6, 6)


def test_names_or_all(warehouse: Path) -> None:
    """Goal: either groups are named, or all are meant."""
    for arguments in ([], ["orders", "--all"]):
        found = CliRunner().invoke(main, ["what-if", "--warehouse", str(warehouse), "--setting", "static", *arguments])
        assert found.exit_code == 2
        assert "Give the names of groups, or --all." in found.output


def test_kept(warehouse: Path, tmp_path: Path) -> None:
    """Goal: if several runs kept answers, the newest run counts; without a run there are no answers."""
    none = ClusterRows(str(warehouse), "c")
    assert (stored_totals(none), stored_of_group(none, "orders")) == ([], [])
    (found,) = what_if(none, ["orders"], QUESTION)
    for run, at in (("old", AT), ("new", AT + MINUTE)):
        kept = [answer for answer in found if run == "new" or answer["setting"] == "static"]
        write(tmp_path, "what_if_effects", *kept, run_id=run, ran_at=at)
        write(tmp_path, "what_if_runs", {}, run_id=run, ran_at=at)
    tables = ClusterRows(str(tmp_path), "c")
    assert stored_totals(tables) == totals(found)
    static, session = stored_of_group(tables, "orders")
    assert (static["run_id"], static["setting"], static["rebalances"]) == ("new", "static", found[0]["rebalances"])
    assert session["refusal"] == found[1]["refusal"]


def test_page(warehouse: Path) -> None:
    """Goal: the page asks by a form whose answer has an address, begins with one number or says why there is no number,
    and refuses an unknown setting."""
    with served(warehouse) as client:

        def page(group: str, asked: str) -> str:
            found = client.get(f"/clusters/c/groups/{group}/what-if?{asked}", Accept="text/html")
            assert found.status == 200, found.text
            return found.text

        form = page("orders", "")
        assert ('<form method="get">' in form, 'class="lead"' in form) == (True, False)
        assert 'href="/clusters/c/groups/orders"' in form
        times = f"since={quote(AT.isoformat())}&until={quote((AT + 120 * MINUTE).isoformat())}"
        answer = page("orders", f"members=static&assignor=&session.timeout.ms=&{times}")
        assert '<b class="lead">6 of 6</b> rebalances that were observed would not have happened' in answer
        assert "<option selected>static</option>" in answer
        assert '<td>rebalances</td><td class="n">6</td><td class="n">6</td><td class="n">0</td>' in answer
        assert "range, dynamic, session.timeout.ms=45000" in answer
        unknown = page("odd", f"members=static&{times}")
        assert '<b class="lead">unknown</b> The assignor is the application&#39;s own' in unknown
        for wrong, words in (
            ("setting=static", "no parameter setting: it has assignor, members"),
            ("assignor=ours", "assignor is one of range"),
            ("session.timeout.ms=soon", "session.timeout.ms is a number of ms"),
            ("members=static&actual=fast", "There is no setting"),
        ):
            refused = client.get(f"/clusters/c/groups/orders/what-if?{wrong}", Accept="text/html")
            assert (refused.status, words in refused.text) == (400, True), refused.text
        assert client.get("/clusters/c/groups/nobody/what-if?members=static", Accept="text/html").status == 404


def test_too_long(warehouse: Path) -> None:
    """Goal: a question that takes too long is refused in a sentence, and its process ends."""
    with pytest.raises(InputError, match=r"takes longer than 0\.1 s: ask for a shorter one"):
        ask(str(warehouse), "c", "orders", QUESTION, 0.1)
