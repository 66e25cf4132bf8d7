"""Goal: the command, the JSON and the page foretell what a group comes to, and say why where nobody can know."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import SCENARIOS
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.forecasts import expiry, forecasts, sentences
from groupledger.jobs.cli.main import main
from groupledger.schemas.instants import instant_of_ms
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, fill, served, write

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = 60
STARTED = 6_000  # records, of the log's start in the first round


def sampled(
    warehouse: Path, partition: int, *, consumed: int, rounds: int = ROUNDS, segment: int = 300, **last: Any
) -> None:
    """Writes rounds each minute until AT: 60 records a minute are produced, `consumed` are read, and the log's start
    follows by segments."""
    row = {"group_id": "pay", "topic": "orders", "partition": partition, "flags": [], "status": "ok"}
    rows = []
    for number in range(rounds):
        end, commit = 20_000 + 60 * number, 10_000 + consumed * number
        started = (STARTED + 60 * number) // segment * segment
        at = AT - (rounds - 1 - number) * MINUTE
        seen = {"committed_offset": commit, "high_watermark": end, "log_start_offset": started, "lag": end - commit}
        rows.append({**row, **seen, "sampled_at": at, "sample_date": at.date(), "commit_interval_ms": 5_000})
    rows[-1] |= last
    write(warehouse, "lag", *rows)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Makes a group that catches up on one partition, stands still on another, and has just begun on a third."""
    write(tmp_path, "groups", {"group_id": "pay", "kafka_partition": 7, "group_type": "classic", "is_alive": True})
    write(tmp_path, "coverage", {"kafka_partition": 7, "to_time": AT})
    sampled(tmp_path, 0, consumed=120)
    sampled(tmp_path, 1, consumed=0, status="stopped")
    sampled(tmp_path, 2, consumed=120, rounds=4)
    sampled(tmp_path, 3, consumed=120, segment=100_000)
    return tmp_path


def of(found: list[dict[str, Any]], partition: int) -> dict[str, Any]:
    (row,) = [row for row in found if row["partition"] == partition]
    return row


def test_rates_without_scatter(warehouse: Path) -> None:
    """Goal: an even course is forecast to the second, with the rates and the trend."""
    as_of, found = forecasts(ClusterRows(str(warehouse), CLUSTER), "pay")
    assert as_of == AT
    row = of(found, 0)
    left = 10_000 - 60 * (ROUNDS - 1) - 2 * 5  # what two intervals of commits leave is no lag
    assert row["trend"] == "shrinking"
    assert (row["produced_per_second"], row["consumed_per_second"]) == pytest.approx((1.0, 2.0))
    names = ("catch_up_seconds", "catch_up_earliest_seconds", "catch_up_latest_seconds")
    assert [row[name] for name in names] == pytest.approx([left, left, left])
    assert (row["loss_seconds"], row["loss_unknown"]) == (
        None,
        "retention does not come nearer to the commit at the present pace",
    )


def test_a_group_that_stands_still_is_overtaken(warehouse: Path) -> None:
    """Goal: retention overtakes the commit of a standstill at the pace of the log's start, give or take a segment."""
    _, found = forecasts(ClusterRows(str(warehouse), CLUSTER), "pay")
    row = found[0]
    assert (row["partition"], row["trend"]) == (1, "growing")
    assert (row["catch_up_seconds"], row["catch_up_unknown"]) == (None, "the group makes no progress")
    headroom = 10_000 - (STARTED + 60 * (ROUNDS - 1)) // 300 * 300
    names = ("loss_seconds", "loss_earliest_seconds", "loss_latest_seconds")
    assert [row[name] for name in names] == pytest.approx([headroom, headroom - 300, headroom + 300])


def test_unknown(warehouse: Path) -> None:
    """Goal: too few rounds, a start that rests, and a commit that is already passed are no forecasts."""
    sampled(warehouse, 4, consumed=0, lag=None, log_start_offset=None)
    sampled(warehouse, 5, consumed=0, log_start_offset=10_001)
    _, found = forecasts(ClusterRows(str(warehouse), CLUSTER), "pay")
    assert {row["partition"]: row["loss_unknown"] for row in found if row["partition"] > 1} == {
        2: "there are too few sampling rounds in the last hour",
        3: "the start of its log has not moved often enough in the last half day",
        4: "the start of its log is not known",
        5: "retention has already passed the commit",
    }
    assert of(found, 2)["catch_up_unknown"] == "there are too few sampling rounds in the last hour"
    assert of(found, 4)["catch_up_unknown"] == "the lag is not known"


def test_sentences(warehouse: Path) -> None:
    """Goal: one sentence names the slowest partition, or the partition without a forecast, and one the first loss."""
    _, found = forecasts(ClusterRows(str(warehouse), CLUSTER), "pay")
    first, second = sentences(found)
    assert first == (
        "When it will have caught up is not known: in orders 1, the group makes no progress, and the lag grows."
    )
    assert second.startswith("Retention overtakes the commit of orders 1 in about 11 min 40 s (at the")
    (message,) = sentences([of(found, 0)])
    at = "1 h 47 min"
    span = f"{at} (at the earliest in {at}, at the latest in {at})"
    assert message == f"It will have caught up in about {span}; orders 0 takes longest."
    assert sentences([{**of(found, 0), "catch_up_seconds": 0.0}]) == ["It has caught up."]


def test_command_json_and_page(warehouse: Path) -> None:
    """Goal: command, JSON and page say the same, and the command also when offsets expire."""
    words = ["forecast", "pay", "--warehouse", str(warehouse)]
    for table in ("generations", "members", "coordinator_records"):
        write(warehouse, table)
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "Retention overtakes the commit of orders 1" in done.stdout
    lines = CliRunner().invoke(main, [*words, "--json"]).stdout.splitlines()
    assert [json.loads(line)["partition"] for line in lines] == [1, 2, 0, 3]
    assert "11 min 40 s (" in done.stdout, "an interval is one cell"
    asked = CliRunner().invoke(main, ["lag", "pay", "--warehouse", str(warehouse)])
    assert "Retention overtakes the commit of orders 1" in asked.stderr
    with served(warehouse) as client:
        answer = client.get(f"/api/v1/clusters/{CLUSTER}/groups/pay/forecast?limit=2").json
        assert (answer["count"], [row["partition"] for row in answer["forecasts"]]) == (4, [0, 1])
        assert answer["offsets_expire"] is None
        fill(warehouse, "audit", "audited", "m")
        page = client.get(f"/clusters/{CLUSTER}/groups/audit?at=2026-01-01T12:02:00Z")
        assert (page.status, "When it will have caught up is not known" in page.text) == (200, True)


def test_what_retention_of_a_simulation_overtakes(tmp_path: Path) -> None:
    """Goal: a simulated group that was stopped is overtaken when the forecast said, and it was not foretold before the
    log's start had moved."""
    scenario = SCENARIOS["retention-passes"]
    simulation = prepare(scenario, 1, 1)
    simulation.run(BEGAN_AT_MS + round(scenario.hours * 3_600_000))
    outputs = simulation.take(is_last=True)
    commits = [
        (batch.timestamp_ms, record.key["partition"], record.value["offset"])
        for batch in outputs.batches
        for record in batch.records
        if record.record_type == "offset_commit" and record.value is not None
    ]
    stopped_ms = max(at_ms for at_ms, *_ in commits if at_ms < BEGAN_AT_MS + 20 * 60_000)
    rows: list[dict[str, Any]] = []
    passed_ms = 0
    for sample in outputs.watermarks:
        until = [row for row in commits if row[0] <= sample.sampled_at_ms]
        made = [offset for _, partition, offset in until if partition == sample.partition]
        if sample.topic.startswith("__") or sample.partition != 0 or not made:
            continue
        at, is_stopped = instant_of_ms(sample.sampled_at_ms), sample.sampled_at_ms > stopped_ms
        if sample.log_start_offset > made[-1]:
            passed_ms = passed_ms or sample.sampled_at_ms
        elif not passed_ms:
            row = {"group_id": "g", "topic": sample.topic, "partition": 0, "flags": [], "commit_interval_ms": 5_000}
            row |= {"committed_offset": made[-1], "high_watermark": sample.high_watermark, "sampled_at": at}
            row |= {"log_start_offset": sample.log_start_offset, "lag": sample.high_watermark - made[-1]}
            rows.append(row | {"sample_date": at.date(), "status": "stopped" if is_stopped else "ok"})
    assert passed_ms
    write(tmp_path, "lag", *rows)
    tables, foretold = ClusterRows(str(tmp_path), CLUSTER), 0
    for each in rows:
        _, (found,) = forecasts(tables, "g", each["sampled_at"])
        if found["loss_seconds"] is not None and each["status"] == "stopped":
            foretold += 1
            away_s = (instant_of_ms(passed_ms) - each["sampled_at"]) / timedelta(seconds=1)
            assert found["loss_earliest_seconds"] <= away_s <= found["loss_latest_seconds"] + 60  # a round
            assert found["loss_seconds"] == pytest.approx(away_s, abs=120)
    assert foretold >= 1


def test_expiry(warehouse: Path) -> None:
    """Goal: the offset of a group that expires first is named; a group whose members keep its offsets has none."""
    value = {"topic": "orders", "partition": 0, "offset": 5, "topic_id": "x", "leader_epoch": -1}
    value |= {"commit_timestamp_ms": round(AT.timestamp() * 1_000), "expire_timestamp_ms": -1}
    record = {"kafka_partition": 7, "kafka_offset": 1, "kafka_timestamp": AT, "record_type": "offset_commit"}
    record |= {"is_tombstone": False, "offset_commit": value}
    for name in ("pay", "other"):
        write(warehouse, "coordinator_records", {**record, "group_id": name})
    simple = {"kafka_partition": 7, "group_type": "classic", "is_alive": True, "is_simple": True}
    write(warehouse, "groups", {**simple, "group_id": "other"})
    for table in ("generations", "members"):
        write(warehouse, table)
    week = timedelta(days=7)
    found = expiry(ClusterRows(str(warehouse), CLUSTER), "other", week)
    assert found is not None
    assert (found["group_id"], found["offsets_expire_at"]) == ("other", AT + week)
    assert sentences([], found) == ["Offsets expire by 2026-01-08T12:00:00.000Z, unless they are committed again."]
    assert expiry(ClusterRows(str(warehouse), CLUSTER), "pay", week) is None
