"""Goal: members, topics and owners are answered over all groups, at any time, as the tables of the shipped day have
them."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from groupledger.jobs.ask.answers import last_answered
from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.members import members
from groupledger.jobs.ask.owner import owner, owner_in_all_groups
from groupledger.jobs.ask.topics import topics
from groupledger.jobs.cli.main import main
from groupledger.jobs.demo.shipped import ends_now, unpack
from groupledger.schemas.words import Ownership

if TYPE_CHECKING:
    from pathlib import Path

GROUP, TOPIC = "loyalty-points", "orders.loyalty-points"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    warehouse: Path = tmp_path_factory.mktemp("day")
    unpack(warehouse, ends_now())
    return warehouse


@pytest.fixture
def tables(place: Path) -> ClusterRows:
    return ClusterRows(str(place), "demo")


@pytest.mark.parametrize("hours", [0, 3, 11])
def test_members_at_any_time(tables: ClusterRows, hours: int) -> None:
    """Goal: those that had joined and not yet left, each with as many partitions as it owned then."""
    at = last_answered(tables) - timedelta(hours=hours)
    there = Counter(
        (row["group_id"], row["member_id"])
        for row in tables.rows("members")
        if row["joined_at"] <= at and (row["left_at"] is None or row["left_at"] > at)
    )
    owned = Counter(
        (row["group_id"], row["member_id"])
        for table in ("assignments", "share_assignments")
        for row in tables.rows_if_any(table)
        if row["valid_from"] <= at and (row["valid_to"] is None or row["valid_to"] > at)
    )
    found = members(tables, at)
    assert Counter((row["group_id"], row["member_id"]) for row in found) == there
    assert {(row["group_id"], row["member_id"]): row["partitions"] for row in found if row["partitions"]} == owned
    one = found[0]
    host = one["client_host"].lstrip("/")
    of_client = [row for row in found if row["client_id"] == one["client_id"]]
    assert members(tables, at, client=one["client_id"]) == of_client
    assert members(tables, at, group=one["group_id"], host=host) == [
        row for row in found if row["group_id"] == one["group_id"] and row["client_host"] == one["client_host"]
    ]


def test_topics(tables: ClusterRows) -> None:
    """Goal: each topic of the last round once, with the sum over its groups and the worst of their statuses."""
    found = topics(tables)
    newest = max(row["sampled_at"] for row in tables.rows("lag", columns=("sampled_at",)))
    rows = tables.rows("lag", ("sampled_at", "=", newest))
    lag: Counter[str] = Counter()
    for row in rows:
        lag[row["topic"]] += row["lag"] or 0
    assert {row["topic"]: row["lag_sum"] or 0 for row in found if row["groups"]} == lag
    groups = {(row["topic"], row["group_id"]) for row in rows}
    assert {row["topic"]: row["groups"] for row in found if row["groups"]} == Counter(topic for topic, _ in groups)
    assert len(found) == len({row["topic"] for row in found})


def test_owners_of_all_groups(tables: ClusterRows) -> None:
    """Goal: without a group the answer has the owner in each group that had the partition; for a partition that nobody
    has seen, it says so."""
    at = last_answered(tables)
    (found,) = owner_in_all_groups(tables, TOPIC, 0, at)
    assert [found] == owner(tables, GROUP, TOPIC, 0, at)
    assert found["status"] == Ownership.OWNED
    (before,) = owner_in_all_groups(tables, TOPIC, 0, at - timedelta(days=30))
    assert (before["group_id"], before["status"]) == (GROUP, Ownership.UNKNOWN)  # the log was not known yet
    (never,) = owner_in_all_groups(tables, TOPIC, 99, at)
    assert (never["group_id"], never["status"], never["never_seen"]) == (None, Ownership.UNKNOWN, "partition")


def run(place: Path, command: str, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, [command, "--warehouse", str(place), *words])
    return done.exit_code, done.output


def test_the_command_line(place: Path) -> None:
    """Goal: the group may be left out, an instant is the last that is known unless given, and words too many or too few
    are refused with the form."""
    code, text = run(place, "owner", TOPIC, "0", "--json")
    of_group = run(place, "owner", GROUP, TOPIC, "0", "--json")
    assert (code, text) == of_group
    answer: dict[str, Any] = json.loads(text.splitlines()[-1])
    assert answer["group_id"] == GROUP
    for words in ((TOPIC,), (GROUP, TOPIC, "0", "1")):
        code, text = run(place, "owner", *words)
        assert (code, "NAME TOPIC PARTITION" in text) == (2, True)
    assert run(place, "owner", TOPIC, "-1")[0] == 2
    code, text = run(place, "members", GROUP)
    assert (code, text.count(f"{GROUP}  ")) == (0, 3)
    assert run(place, "members", "nobody")[0] == 2
    assert TOPIC in run(place, "topics")[1]
