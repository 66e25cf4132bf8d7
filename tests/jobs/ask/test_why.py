"""Goal: the trouble of a group is listed in one order, and its root is that of the gravest evidence."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.group_activity import most_rebalancing
from groupledger.jobs.ask.verdict import others
from groupledger.jobs.ask.why import verdict, why
from groupledger.jobs.cli.why import entry_lines, verdict_lines
from groupledger.schemas.definitions import schema_of
from groupledger.schemas.kinds.changes import DYNAMIC_RESTART

if TYPE_CHECKING:
    from pathlib import Path

AT = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)


def incident(severity: str, root: str, times: int = 1, setting: str | None = None, /, **fields: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(
        ("member_id", "client_id", "client_host", "group_instance_id", "group_id", "explanation"), "x"
    )
    row |= dict.fromkeys(("duplicates_min", "duplicates_max", "never_read_max"))
    row |= {"episode_id": root, "kind": f"kind_{root}", "evidence": "observed", "confidence": 1.0, "is_open": False}
    row |= {"first_seen_at": AT, "last_seen_at": AT + MINUTE}
    row |= {"severity": severity, "probable_root": root, "occurrences": times, "setting_to_change": setting}
    return row | fields


def rebalance(trigger: str | None = None, inferred: str | None = None, *kinds: str) -> dict[str, Any]:
    return {"trigger": trigger, "inferred_trigger": inferred, "changes": [{"kind": kind} for kind in kinds]}


@pytest.mark.parametrize(
    ("incidents", "rebalances", "root", "setting"),
    [
        ([], [], None, None),
        ([incident("error", "unknown", 9)], [rebalance(None, "joined")], "unknown", None),
        ([incident("warning", "restart", 9), incident("error", "network", 1, "s")], [], "network", "s"),
        ([incident("error", "restart", 2, "g"), incident("error", "network", never_read_max=1)], [], "network", None),
        ([incident("error", "coordinator_failover")], [rebalance("session_expired")] * 9, "coordinator_failover", None),
        ([], [rebalance("left_poll_timeout")], "poll_timeout_exceeded", "max.poll.interval.ms, max.poll.records"),
        ([], [rebalance(None, "session_expired")], "session_expired", "session.timeout.ms"),
        ([], [rebalance("joined", "session_expired")], None, None),  # the server log knows better
        ([], [rebalance(None, "joined", DYNAMIC_RESTART.name)], "restart", "group.instance.id"),
    ],
)
def test_verdict(
    incidents: list[dict[str, Any]], rebalances: list[dict[str, Any]], root: str | None, setting: str | None
) -> None:
    """Goal: the most harmful episode decides; without incidents the rebalances do."""
    found = verdict(incidents, rebalances)
    assert (found["root"], found["setting_to_change"]) == (root, setting)
    assert (found["advice"] is None) == (root is None)


def test_episodes() -> None:
    """Goal: each episode has one verdict, that of its gravest incident, with the additions of the others; the most
    harmful episode is the first; an episode that goes on has no end."""
    mild = incident("info", "restart", 3, first_seen_at=AT - MINUTE, duplicates_max=7, is_open=True)
    grave = incident("warning", "restart", 1, "g", explanation="what happened", kind="other")
    first, second = verdict([incident("warning", "network"), mild, grave], [])["episodes"]
    assert (first["kind"], first["explanation"], first["other_kinds"]) == ("other", "what happened", ["kind_restart"])
    assert (first["since"], first["until"], first["duplicates_max"]) == (AT - MINUTE, None, 7)
    assert (second["kind"], second["until"]) == ("kind_network", AT + MINUTE)
    lines = [click.unstyle(line) for line in verdict_lines(verdict([mild, grave], []), AT)]
    assert lines[0].startswith("WARNING  other: ")
    assert "began 1 min before this time" in lines[0]
    assert "    harm: 0 to 7 records read twice" in lines
    assert "    change: g" in lines


def test_a_diagnosis_names_each_member() -> None:
    """Goal: a diagnosis that covers episodes of several members names all of these members, and no other."""
    rows = [
        incident("error", root, 1, None, kind="refused", client_id=client, explanation=f"{client} was refused.")
        for root, client in (("r1", "pod-1"), ("r2", "pod-2"), ("r3", "pod-3"))
    ]
    episodes = verdict(rows, [])["episodes"]
    found = next(each for each in episodes if each["client_id"] == "pod-2")
    ids = [each["episode_id"] for each in episodes if each["client_id"] != "pod-3"]
    assert others({**found, "episode_ids": ids}, episodes) == ["x (pod-1) at x"]
    assert others({**found, "episode_ids": ids, "explanation": "All were refused."}, episodes) == []


def write(warehouse: Path, table: str, *rows: dict[str, Any]) -> None:
    found = pa.Table.from_pylist([{"cluster": "c", "group_id": "g", **row} for row in rows], schema_of(table))
    write_deltalake(str(warehouse / table), found, mode="append")


def lag(minutes: int, partition: int, records: int | None, status: str) -> dict[str, Any]:
    at = AT + minutes * MINUTE
    row = {"sampled_at": at, "sample_date": at.date(), "topic": "orders", "partition": partition, "lag": records}
    return row | {"status": status, "owner": f"pod-{partition}"}


def test_what_rebalances_cost(tmp_path: Path) -> None:
    """Goal: the slowest partition of a cooperative rebalance is reported, and a lower bound if no upper one is known;
    the list of groups has the longest of both."""
    write(tmp_path, "groups", {"kafka_partition": 7})
    write(tmp_path, "coverage", {"kafka_partition": 7, "completeness": "complete", "from_offset": 0, "to_offset": 9})
    row = {"from_generation": 3, "happened_at": AT, "is_hole": False, "partitions_moved": 2, "partitions_lost": 0}
    units = [{"topic": "orders", "partition": number, "pause_upper_ms": 900 - number} for number in (0, 1)]
    of_partitions = {"pause_scope": "partitions", "partition_pauses": units}
    of_group = {"pause_scope": "group", "pause_lower_ms": 40}
    write(
        tmp_path,
        "rebalances",
        *(
            {**row, **of, "to_generation": place, "kafka_offset": place}
            for place, of in ((4, of_partitions), (5, of_group))
        ),
    )
    tables = ClusterRows(str(tmp_path), "c")
    entries, _ = why(tables, "g", AT, None)
    assert [entry["text"] for entry in entries] == [
        "generation 3 to 4; 2 partitions moved; the partitions that moved stood still for at most 900 ms",
        "generation 3 to 5; 2 partitions moved; stood still for at least 40 ms",
    ]
    (counted,) = most_rebalancing(tables, None, None, 9)
    assert (counted["longest_pause_lower_ms"], counted["longest_pause_upper_ms"]) == (40, 900)


def test_what_happened(tmp_path: Path) -> None:
    """Goal: only changes of the worst status are listed; offsets moved together are one entry; Connect's delay is
    reported where tasks were lost; a window cuts."""
    write(tmp_path, "groups", {"kafka_partition": 7})
    lost = {"from_generation": 3, "to_generation": 4, "member_count": 2, "scheduled_delay_ms": 300_000}
    write(tmp_path, "rebalances", {"kafka_offset": 5, "happened_at": AT + MINUTE, "is_hole": False, **lost})
    event = {"kind": "skipped", "topic": "orders", "happened_at": AT + 2 * MINUTE, "cause": "no_member"}
    event |= {"kafka_partition": 7, "kafka_offset": 9}
    write(
        tmp_path,
        "offset_events",
        *(event | {"partition": partition, "records_skipped": 1_000} for partition in (1, 0)),
        event | {"partition": 0, "kind": "rewound", "records_repeated": 5, "happened_at": AT + 9 * MINUTE},
    )
    rounds = [(0, 3, "ok", 1, "ok"), (1, 4, "ok", 2, "ok"), (3, 5, "ok", 900, "stopped"), (4, 0, "ok", None, "ok")]
    for minutes, one, of_one, other, of_other in rounds:
        write(tmp_path, "lag", lag(minutes, 0, one, of_one), lag(minutes, 1, other, of_other))
    entries, found = why(ClusterRows(str(tmp_path), "c"), "g", AT, AT + 5 * MINUTE)
    assert [((entry["at"] - AT) // MINUTE, entry["what"], entry["how"], entry["text"]) for entry in entries] == [
        (0, "lag", "ok", "4 records; most in orders 0 of pod-0"),
        (1, "rebalance", None, "generation 3 to 4; 2 members then; Connect keeps what it lost for at most 300,000 ms"),
        (2, "offset", "skipped", "orders 0 1; at most 2,000 records never read; cause: no_member"),
        (3, "lag", "stopped", "905 records; most in orders 1 of pod-1; ok before"),
        (4, "lag", "ok", "0 records; partitions without a known lag: 1; stopped before"),
    ]
    assert found["root"] is None


SECOND = timedelta(seconds=1)
# The end of a topic in rounds that are half a minute apart, for five minutes.
STOPPED = (0, 5, 9, 12, *[20] * 7)


def ends(*found: int | None, flags: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    rows = []
    for number, end in enumerate(found):
        at = AT + 30 * number * SECOND
        row = {"sampled_at": at, "sample_date": at.date(), "topic": "orders", "partition": 0, "lag": 0}
        rows.append(row | {"status": "ok", "high_watermark": end, "flags": [*flags]})
    return rows


@pytest.mark.parametrize(
    ("rows", "since"),
    [
        (ends(*STOPPED), AT + 120 * SECOND),
        (ends(*STOPPED[:7]), None),  # a minute of nothing is no stop
        (ends(*[20] * 11), None),  # nothing came in this time
        (ends(0, 0, 0, 4, *[20] * 6), None),  # it waited as long before
        (ends(30, *STOPPED[1:]), None),  # the log was made anew
        (ends(0, 5, None, 12, *[20] * 7), None),
        (ends(*STOPPED, flags=("stale_sample",)), None),
        (ends(*STOPPED, flags=("unsubscribed",)), None),
        ([row for number, row in enumerate(ends(*STOPPED)) if number not in {6, 7}], None),  # a hole between samples
    ],
)
def test_a_topic_that_gets_no_records(tmp_path: Path, rows: list[dict[str, Any]], since: datetime | None) -> None:
    """Goal: without any trouble of the group, a topic is named that got records and gets none any more, if the samples
    show it."""
    write(tmp_path, "groups", {"kafka_partition": 7})
    for table in ("rebalances", "coverage"):
        write(tmp_path, table)
    write(tmp_path, "lag", *rows)
    entries, found = why(ClusterRows(str(tmp_path), "c"), "g", AT, None)
    assert entries
    assert found["quiet_topics"] == ([] if since is None else [{"topic": "orders", "no_records_since": since}])
    said = "orders has had no new records since 2026-01-01T12:02:00.000Z."
    assert (said in [*verdict_lines(found, AT)]) == (since is not None)
    write(tmp_path, "incidents", incident("warning", "network", group_id="g"))
    assert why(ClusterRows(str(tmp_path), "c"), "g", AT, None)[1]["quiet_topics"] == []


@pytest.mark.parametrize(
    ("others", "cause"),
    [
        ({}, "subscribed_topic_missing"),
        ({3: ["orderz"]}, None),  # it is there now
        ({2: ["orderz"]}, None),  # it was there a round ago, and may be so again
        ({3: [], 2: []}, None),  # the brokers were not asked, so that nothing follows
    ],
)
def test_a_subscribed_topic_that_is_not_there(tmp_path: Path, others: dict[int, list[str]], cause: str | None) -> None:
    """Goal: a group's members own nothing, and the brokers return no topic by the subscribed name: that is the cause,
    and the name is given. If a round has the topic, or a round has no topics, the cause is left open."""
    end = AT + 3 * MINUTE
    write(tmp_path, "groups", {"kafka_partition": 7, "group_type": "classic"})
    write(
        tmp_path,
        "coverage",
        {"kafka_partition": 7, "completeness": "complete", "from_offset": 0, "to_offset": 9, "to_time": end},
    )
    born = {"incarnation": 1, "kafka_offset": 3, "started_at": AT, "is_ownership_known": True}
    write(tmp_path, "generations", {**born, "member_count": 1, "owned_count": 0, "protocol_type": "consumer"})
    member = {"incarnation": 1, "member_id": "m", "from_offset": 3, "joined_at": AT, "is_start_known": True}
    write(tmp_path, "members", {**member, "subscribed_topics": ["orderz"]})
    write(tmp_path, "rebalances")
    for number in (1, 2, 3):
        at = AT + number * MINUTE
        round_ = {"sampled_at": at, "sample_date": at.date()}
        write(tmp_path, "group_states", {**round_, "state": "Stable", "subscribed_topics": ["orderz"]})
        topics = others.get(number, ["orders"])
        names = [*topics, "__consumer_offsets"] if topics else ["orders"]
        rows = [{"cluster": "c", **round_, "topic": topic, "partition": 0} for topic in names]
        write_deltalake(
            str(tmp_path / "watermarks"), pa.Table.from_pylist(rows, schema_of("watermarks")), mode="append"
        )
    _, found = why(ClusterRows(str(tmp_path), "c"), "g", AT, end + MINUTE)
    (only,) = found["diagnosis"]
    assert only["cause"] == cause
    if cause is not None:
        assert "the cluster has no topic orderz, to which they subscribe" in only["explanation"]
        assert "subscribed_topic_missing" not in {each["cause"] for each in only["rivals"]}


def test_repeated_entries_are_one_line() -> None:
    """Goal: on a terminal, entries of one kind, cause and place are one line with their number and the last time, at
    the place of the first; a few are not, and another place has its own line."""

    def entry(second: int, what: str, how: str | None, text: str) -> dict[str, Any]:
        return {"at": AT + second * SECOND, "what": what, "how": how, "text": text}

    def member(number: int) -> str:
        return f"pod-{number:08x}-1111-4222-8333-123456789abc"

    entries = [
        entry(0, "incident", "warning", "two_committers: It went back 44 times."),
        *(entry(n, "offset", "rewound", f"orders 0; {n} records to be read again; cause: member") for n in range(1, 9)),
        *(entry(n, "offset", "rewound", f"orders 1; {n} records to be read again; cause: member") for n in range(2, 6)),
        *(entry(n + 10, "owner", None, f"{member(n)} took orders 0 from {member(n + 1)}") for n in range(5)),
        *(entry(n + 20, "rebalance", "left", f"generation {n} to {n + 1}; 2 members then") for n in range(5)),
        *(entry(n + 30, "lag", "ok", f"{n} records; most in orders 0; growing before") for n in range(5)),
    ]
    lines = entry_lines(sorted(entries, key=lambda each: each["at"]))
    assert [line.partition("Z  ")[2] for line in lines] == [
        "incident  warning: two_committers: It went back 44 times.",
        "offset    rewound 8 times, the last at 2026-01-01T12:00:08.000Z: orders 0; cause: member",
        *(f"offset    rewound: orders 1; {n} records to be read again; cause: member" for n in range(2, 6)),
        "owner     5 times, the last at 2026-01-01T12:00:14.000Z: pod-* took orders 0 from pod-*",
        "rebalance left 5 times, the last at 2026-01-01T12:00:24.000Z",
        "lag       ok 5 times, the last at 2026-01-01T12:00:34.000Z: most in orders 0",
    ]
    assert lines[1].startswith("2026-01-01T12:00:01.000Z")
