"""Goal: the commands that ask about the past answer from one small warehouse what its logs say, and no more."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from groupledger.jobs.ask.group_timeline import heading, lines, places
from groupledger.jobs.ask.offsets_at import reset_file_lines
from groupledger.jobs.cli.main import main
from groupledger.jobs.process.errors import InputError
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.words import Completeness
from groupledger.transforms.coverage.rules.coverage_at import why_unknown
from groupledger.transforms.history.rules.group_timeline import timeline
from lab.warehouses.ledgers import make_tables
from tests.transforms.history.history_frames import (
    CLUSTER,
    START_MS,
    compacted_group,
    cooperative_group,
    emptied_group,
    frames,
    simple_group,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from click.testing import Result
    from pyspark.sql import SparkSession

    Ask = Callable[..., Result]

START = datetime.fromtimestamp(START_MS / 1_000, timezone.utc)


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


@pytest.fixture(scope="module")
def ask(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    warehouse = str(tmp_path_factory.mktemp("questions"))
    for table, rows in frames(spark, cooperative_group(), compacted_group(), simple_group(), emptied_group()).items():
        writer = rows.write.format("delta").partitionBy(*table.partition_columns)
        writer.save(f"{warehouse}/{table.name}")

    def run(command: str, *arguments: str) -> Result:
        result = CliRunner().invoke(main, [command, "--warehouse", warehouse, "--cluster", CLUSTER, *arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    return run


def answers(result: Result, exit_code: int = 0) -> list[dict[str, Any]]:
    assert result.exit_code == exit_code
    return [json.loads(line) for line in result.stdout.splitlines()]


# Owners


def test_owner(ask: Ask) -> None:
    """Goal: the member, or all that an assignor gave the partition to, with where they ran."""
    found = answers(ask("owner", "old", "orders", "0", "--at", at(8), "--json"))
    assert [(row["status"], row["generation"], row["member_id"]) for row in found] == [
        ("owned", 10, "a"),
        ("owned", 10, "b"),
    ]
    assert {(row["client_id"], row["client_host"]) for row in found} == {
        ("client of a", "/10.0.0.1"),
        ("client of b", "/10.0.0.1"),
    }


def test_owner_unknown(ask: Ask) -> None:
    """Goal: an instant that nobody covered gives no owner, and the reason, in the table too."""
    text = " ".join(ask("owner", "g1", "orders", "0", "--at", at(30)).stdout.split())
    assert "unknown" in text
    assert "nobody read the log between" in text


@pytest.mark.parametrize(
    ("group", "topic", "partition", "never_seen", "nearest"),
    [
        ("od", "orders", 0, "group", ["old"]),
        ("old", "odrers", 0, "topic", ["orders"]),
        ("old", "orders", 8, "partition", ["orders 7"]),
        ("old", "\x1b[31m", 0, "topic", []),
    ],
)
def test_owner_of_what_was_never_seen(
    ask: Ask, group: str, topic: str, partition: int, never_seen: str, nearest: list[str]
) -> None:
    """Goal: a name that the ledger never saw is unknown and not unowned, in the table and in JSON, with those near it;
    a partition that another group reads exists, and is unowned."""
    question = ("owner", group, topic, str(partition), "--at", at(8))
    (found,) = answers(ask(*question, "--json"))
    reported = (found["status"], found["never_seen"], found["nearest_names"], found["member_id"])
    assert reported == ("unknown", never_seen, nearest, None)
    text = " ".join(ask(*question).stdout.replace("│", " ").split())
    assert f"never saw the {never_seen}" in text
    assert "\x1b" not in text
    assert all(name in text for name in nearest)
    (other,) = answers(ask("owner", "old", "orders", "7", "--at", at(8), "--json"))
    assert (other["status"], other["never_seen"], other["nearest_names"]) == ("unowned", None, None)


# Offsets


def test_offsets_as_reset_file(ask: Ask) -> None:
    """Goal: `offsets` prints the file that Kafka's reset tool reads; unknown offsets are left out, and counted."""
    result = ask("offsets", "g1", "--at", at(68), "--format", "csv")
    assert result.stdout == "orders,0,4\norders,1,9\n"
    assert "1 partitions are left out" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("old", "--at", at(-60)), "the log is known from 2025-10-09T08:53:20.000Z on"),
        (("nobody", "--at", at(1)), "knows nothing of the group nobody"),
        (("g1", "--at", "yesterday"), "is not a valid time"),
    ],
)
def test_offsets_refused(ask: Ask, arguments: Sequence[str], sentence: str) -> None:
    """Goal: an instant outside the coverage, and a group that is not there, are refused with the remedy."""
    result = ask("offsets", *arguments)
    assert result.exit_code == (4 if "is known" in sentence else 2)
    assert sentence in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("names", "group", "topic", "line"),
    [
        (["g"], "g", "a.b_c-1", "a.b_c-1,3,5"),
        (["g", "h"], 'a "b", c', "t", '"a ""b"", c",t,3,5'),
        (["g\n"], "g\n", "t", "t,3,5"),  # --group names it, not the file
    ],
)
def test_reset_file_lines(names: Sequence[str], group: str, topic: str, line: str) -> None:
    """Goal: names that are no plain word are quoted as CSV; alone, a group is not in the file."""
    row = {"group_id": group, "topic": topic, "partition": 3, "committed_offset": 5, "status": "committed"}
    assert list(reset_file_lines(names, [row])) == [line]


@pytest.mark.parametrize(("group", "topic"), [("g\n", "t"), ("g", "t,0,0\nx"), ("g", "t\n"), ("g", "")])
def test_reset_file_refuses_what_the_tool_would_misread(group: str, topic: str) -> None:
    """Goal: no name that a client made up puts a line of its own into the file."""
    row = {"group_id": group, "topic": topic, "partition": 3, "committed_offset": 5, "status": "committed"}
    with pytest.raises(InputError):
        list(reset_file_lines(["g", "h"], [row]))


# Groups


def test_group(ask: Ask) -> None:
    """Goal: the timeline lists incarnations, members that left, partitions that moved even from an earlier owner, and
    holes."""
    result = ask("group", "g1", "--json", "--limit", "3")
    assert "2 records before these are left out" in result.stderr
    entries = answers(result)
    assert [(entry["event"], entry["incarnation"], entry["generation"]) for entry in entries] == [
        ("rebalance", 1, 3),
        ("rebalance", 1, 4),
        ("group_deleted", 1, 4),
        ("group_started", 2, 1),
        ("not_covered", 2, 1),
    ]
    assert [member["member_id"] for member in entries[0]["left"]] == ["a"]
    assert entries[0]["moves"] == [{"topic": "orders", "partition": 0, "from_member_id": "a", "to_member_id": "b"}]
    assert "    ownership: orders 0 from a to b" in lines(entries[0] | {"at": START})


def test_group_as_text(ask: Ask) -> None:
    """Goal: a hole is reported as one, and the text ends with the present members and their partitions."""
    text = ask("group", "old").stdout
    assert "first seen" in text
    assert "what happened in between is not covered" in text
    assert "orders 0" in text.split("Members now")[1]


def test_rebalances(ask: Ask) -> None:
    """Goal: increments by group, without births, those without a record apart; or those of a group, one by one."""
    counts = answers(ask("rebalances", "--json"))
    assert [(row["group_id"], row["rebalances"], row["increments_without_record"]) for row in counts] == [
        ("g1", 3, 0),
        ("old", 2, 3),
        ("emptied", 1, 0),
    ]
    found = answers(ask("rebalances", "--group", "g1", "--since", at(2), "--until", at(4), "--json"))
    assert [row["to_generation"] for row in found] == [2, 3]


def test_idle(ask: Ask) -> None:
    """Goal: groups without members, by when Kafka would expire their offsets, and why; a hole shows nothing of that."""
    found = answers(ask("idle", "--retention-days", "0.001", "--json"))
    assert {(row["cause"], row["topic"]) for row in found} == {("no_members", None)}
    assert [(row["group_id"], row["idle_since"], row["offsets_expire_at"]) for row in found] == [
        ("simple", "2025-10-09T08:53:21.500Z", "2025-10-09T08:54:47.900Z"),
        ("emptied", "2025-10-09T08:53:21.990Z", "2025-10-09T08:54:48.390Z"),
    ]


def test_readers_and_committers(ask: Ask) -> None:
    """Goal: `readers` lists the groups that own, subscribe to or have committed for a topic; `committers` lists the
    groups that commit most."""
    columns = ("group_id", "partitions_owned", "members_subscribed", "partitions_committed", "is_simple")
    found = answers(ask("readers", "orders", "--json"))
    assert [tuple(row[name] for name in columns) for row in found] == [
        ("old", 1, 2, 1, False),
        ("g1", 0, 1, 2, False),  # of a third it committed before a hole, and not after it
        ("emptied", 0, 0, 1, False),
        ("simple", 0, 0, 1, True),
    ]
    most = answers(ask("committers", "--top", "2", "--json"))
    assert [(row["group_id"], row["commits"], row["partitions"]) for row in most] == [("g1", 15, 3), ("simple", 5, 3)]


def test_history_is_asked_for(spark: SparkSession, tmp_path: Any) -> None:
    """Goal: a warehouse without any table raises doubts about the path; a missing table is named with the command that
    makes it."""
    command = ["--warehouse", str(tmp_path)]
    result = CliRunner().invoke(main, ["group", "g", *command])
    assert result.exit_code == 2
    assert "has no tables: check the path, or run `groupledger ingest` first" in result.stderr
    make_tables(tmp_path, COORDINATOR_RECORDS)
    for question, missing in {"group g": ("groups", "history"), "incidents": ("incidents", "pipeline")}.items():
        result = CliRunner().invoke(main, [*question.split(), *command])
        assert result.exit_code == 2
        assert "has no table {} yet: run `groupledger {}` first".format(*missing) in result.stderr


# Without Spark


def test_why_unknown() -> None:
    """Goal: every instant without an answer has its reason."""

    def known(begin: int, end: int) -> dict[str, Any]:
        times = {"from_time": START + timedelta(seconds=begin), "to_time": START + timedelta(seconds=end)}
        return {"completeness": Completeness.COMPLETE, **times}

    coverage = [known(0, 10), known(20, 30), {"completeness": "compacted", "from_time": None, "to_time": START}]
    reasons = [why_unknown(coverage, START + timedelta(seconds=seconds)) or "" for seconds in (-1, 0, 10, 20, 30)]
    assert [reason.split(":")[0][:24] for reason in reasons] == [
        "the log is known from 20",
        "",
        "nobody read the log betw",
        "",
        "the log is read up to 20",
    ]
    assert "only been read" in (why_unknown(coverage[2:], START) or "")


def test_names_from_data_stay_harmless() -> None:
    """Goal: no name in the timeline can speak to the terminal."""
    evil = "\x1b[2Jgone\u202e"
    who = {"member_id": evil, "client_id": evil, "client_host": evil, "group_instance_id": evil}
    tenure = {**who, "from_offset": 1, "to_offset": 5, "leave_cause": "left", "leave_cause_confidence": 0.5}
    tenure["left_at"] = START
    generation: dict[str, Any] = dict.fromkeys(("changes", "finding", "generation_gap"))
    generation |= {"incarnation": 1, "generation": 1, "revision": 0, "kafka_offset": 1, "to_offset": 5}
    generation |= {"member_count": 1, "is_start_known": True}
    generation |= {"started_at": START, "ended_at": START, "ended_by": "tombstone"}
    generation |= {"protocol_type": evil, "protocol": evil, "leader": evil}
    interval = {"incarnation": 1, "topic": evil, "partition": 0, "member_id": evil, "from_offset": 1, "to_offset": 5}
    interval["valid_to"] = START
    entries = timeline([generation], [], [tenure], [interval])
    group = {"group_id": evil, "group_type": "classic", "is_alive": False, "incarnation": 1, "kafka_partition": 0}
    text = "\n".join(
        [heading({**group, "first_seen_at": START, "last_seen_at": START}), *map("\n".join, map(lines, entries))]
    )
    assert text.replace("\n", "").isprintable()
    assert text.count("gone") > 5


def test_places() -> None:
    """Goal: partitions by topic."""
    assert places([("b", 1), ("a", 10), ("a", 2)]) == "a 2 10, b 1"


@pytest.mark.parametrize(
    ("name", "seconds", "offsets"),
    [
        ("simple", 0.5, {0: 7, 2: 5}),  # offset -1 is no commit
        ("simple", 1.2, {0: 7}),  # 2 is removed
        ("simple", 1.7, {0: None}),  # the clocks disagree on whether 8 and 9 came before
        ("simple", 3, {0: 9}),  # by the log, not by the clocks
        ("g1", 68, {0: 4, 1: 9, 7: None}),  # nobody knows what the hole did to 7
    ],
)
def test_offsets_at(ask: Ask, name: str, seconds: float, offsets: dict[int, int | None]) -> None:
    """Goal: the newest commit of each partition; no row for a removal or offset -1; null where nobody knows."""
    found = answers(ask("offsets", name, "--at", at(seconds), "--json"))
    assert {row["partition"]: row["committed_offset"] for row in found} == offsets
    assert [row["status"] == "unknown" for row in found] == [row["committed_offset"] is None for row in found]


def test_why(ask: Ask) -> None:
    """Goal: the entries of `why` are in the order of time, and the verdict is the last one."""
    *entries, verdict, beyond = answers(ask("why", "g1", "--since", at(0), "--json"), 4)
    assert "nobody has looked for incidents yet" in beyond["not_known"]
    assert entries == sorted(entries, key=lambda entry: entry["at"])
    assert {entry["what"] for entry in entries} == {"rebalance", "owner"}
    named = {"diagnosis", "episodes", "quiet_topics", "last_round", "root", "advice", "setting_to_change", "as_of"}
    assert set(verdict) == {*named, "known_until"}


def test_diff(ask: Ask) -> None:
    """Goal: two instants of a group differ by its generation, its members and who owns what."""
    found = answers(ask("diff", "emptied", "--from", at(1), "--to", at(3), "--json"))
    assert [tuple(row.values())[:5] for row in found] == [
        ("generation", None, None, 1, 2),
        ("protocol", None, None, "range", None),
        ("leader", None, None, "a", None),
        ("member_count", None, None, 1, 0),
        ("member", "a", None, "a (client of a, /10.0.0.1)", None),
        ("owner", "orders", 0, "a", "unowned"),
    ]
    found = answers(ask("diff", "old", "--from", at(1), "--json"))  # up to the last instant that is known
    assert [(row["what"], row["now"]) for row in found][-1] == ("owner", "a, b")
    assert "nothing is different" in ask("diff", "old", "--from", at(4), "--to", at(8)).stderr


def test_nobody(ask: Ask) -> None:
    """Goal: if nobody owns a partition, the answer names the last owner; if a group has no members, the answer says
    so."""
    (found,) = answers(ask("owner", "emptied", "orders", "0", "--at", at(3), "--json"))
    assert found["status"] == "unowned"
    assert found["reason"].startswith("a is the last known owner, until ")
    nobody = ask("members", "emptied", "--at", at(3))
    assert (nobody.stdout, "emptied had no member at " in nobody.stderr) == ("", True)


def test_diff_with_the_unknown(ask: Ask) -> None:
    """Goal: an instant in a hole is refused, since everything would look different."""
    refused = ask("diff", "g1", "--from", at(1), "--to", at(90_000))
    assert refused.exit_code == 4
    assert "is unknown" in refused.stderr
