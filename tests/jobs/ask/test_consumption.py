"""Goal: a team's report counts the minutes in which its groups stood still, from their beginning on, and nothing twice;
minutes without a sample are unknown."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.consumption import causes, report_by_team
from groupledger.jobs.cli.main import main
from groupledger.schemas.words import LagFlag, LagStatus
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, fill, write

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

SINCE = AT + 10 * MINUTE
UNTIL = SINCE + 100 * MINUTE


def lag(group: str, at: datetime, status: str, since: datetime | None = None, **fields: Any) -> dict[str, Any]:
    row = {"group_id": group, "topic": "orders", "partition": 0, "sampled_at": at, "sample_date": at.date()}
    return row | {"status": status, "no_progress_since": since, "flags": [], "lag": 5, **fields}


def rounds(group: str) -> list[dict[str, Any]]:
    """Returns a round in each minute except for ten: 20 are ok, then the group stands still for 30, and the first five
    of these are not yet called so; in five the lag is unknown, and a partition that nobody subscribes to stands still
    all the time."""
    stood = SINCE + 20 * MINUTE
    rows = []
    for minute in range(90):
        at = SINCE + minute * MINUTE
        status = LagStatus.OK
        if 25 <= minute < 50:
            status = LagStatus.STOPPED
        elif 60 <= minute < 65:
            status = LagStatus.UNKNOWN
        rows.append(lag(group, at, status, stood if 20 <= minute < 50 else None))
        rows.append(lag(group, at, LagStatus.STOPPED, SINCE, partition=1, flags=[LagFlag.UNSUBSCRIBED]))
    return rows


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("report")
    for name in ("pay", "other"):
        fill(folder, name, "orders", f"member-{name}")
    write(folder, "lag", *rounds("pay"))
    moved = {"group_id": "pay", "incarnation": 1, "from_generation": 2, "changes": [], "partitions_lost": 0}
    moved |= {"pause_scope": "group", "pause_lower_ms": 2_000, "pause_upper_ms": 9_000, "partitions_moved": 3}
    times = (SINCE - MINUTE, SINCE, UNTIL - MINUTE, UNTIL)
    write(
        folder,
        "rebalances",
        *({**moved, "to_generation": n, "kafka_offset": n, "happened_at": at} for n, at in enumerate(times, 6)),
    )
    twice = {"group_id": "pay", "kind": "rewound", "topic": "orders", "partition": 0, "kafka_offset": 9}
    twice |= {"offset_before": 500, "offset_after": 380, "records_repeated": 120}
    write(folder, "offset_events", twice | {"happened_at": SINCE + 70 * MINUTE})
    return folder


def test_a_report(warehouse: Path) -> None:
    rows = report_by_team(ClusterRows(str(warehouse), CLUSTER), {"money": "pay", "nobody": "x"}, SINCE, UNTIL)
    money, rest = rows
    assert (money["team"], rest["team"]) == ("money", None)
    assert (money["minutes_stopped"], money["minutes_available"], money["minutes_unknown"]) == (30, 55, 15)
    assert money["available_percent"] == round(100 * 55 / 85, 3)
    assert sum(money["stopped_by_cause"].values()) == 30
    assert (money["rebalances"], money["partitions_moved"]) == (2, 6)
    assert (money["pause_seconds_min"], money["pause_seconds_max"], money["pauses_unknown"]) == (4, 18, 0)
    assert (money["records_read_twice_min"], money["records_read_twice_max"]) == (120, 120)
    assert {row["team"] for row in causes(rows)} == {"money"}


def test_nothing_known_of_a_team(warehouse: Path) -> None:
    """Goal: groups without rounds in the time are neither available nor stopped."""
    _, rest = report_by_team(ClusterRows(str(warehouse), CLUSTER), {"money": "pay"}, SINCE, UNTIL)
    assert (rest["groups"], rest["available_percent"], rest["minutes_unknown"]) == (1, None, 100)


def test_rare_rounds(warehouse: Path) -> None:
    """Goal: a standstill between two rounds that are far apart counts whole, and makes availability no worse."""
    tables = ClusterRows(str(warehouse), CLUSTER)
    begin = UNTIL + timedelta(hours=1)
    fives = [begin + 5 * number * MINUTE for number in range(12)]
    stood = [lag("other", at, LagStatus.STOPPED, fives[0]) for at in fives[:6]]
    write(warehouse, "lag", *stood, *(lag("other", at, LagStatus.OK) for at in fives[6:]))
    tables = ClusterRows(str(warehouse), CLUSTER)
    (found,) = [row for row in report_by_team(tables, {"o": "other"}, begin, begin + 60 * MINUTE) if row["team"]]
    assert (found["minutes_stopped"], found["minutes_available"]) == (26, 6)
    assert found["available_percent"] == 50.0


@pytest.mark.parametrize("wrong", [["pay", "--report"], ["--since", "2h"]])
def test_what_does_not_go_together(warehouse: Path, wrong: list[str]) -> None:
    refused = CliRunner().invoke(main, ["objectives", "--warehouse", str(warehouse), "--cluster", CLUSTER, *wrong])
    assert refused.exit_code == 2
    assert "--report" in refused.stderr
