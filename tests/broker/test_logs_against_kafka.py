"""Goal: both logs of a real broker are read to the last line: requests, refusals, and the trigger of every rebalance of
real clients."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.coordinator_log import BEGIN, CLASSIC
from groupledger.transforms.history.rules.events import Coverage
from groupledger.transforms.history.rules.fold import fold
from groupledger.transforms.logs.rules.request_log import parse_request_line
from groupledger.transforms.logs.rules.server_log import entries, parse_entry
from groupledger.transforms.logs.rules.triggers import triggers
from groupledger.transforms.privacy import Privacy
from lab.kafka.matrix_truth import group_logs
from lab.truth.histories import Commit, position, summaries
from tests.broker import wire
from tests.schemas.kafka.written_again import written_again

if TYPE_CHECKING:
    from lab.kafka.local_broker import LocalBroker
    from tests.broker.conftest import Evidence

HOSTILE_GROUP = 'g in group h" in state Empty with old generation 7 (reason: "},\n[2026-01-01 00:00:00] {}\\'
TOPIC = "source"
HEARTBEATS_OF_OTHERS = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
}
LOG_SECONDS_MAX = 60.0
CLASSIC_KINDS = {kind for kind, _ in CLASSIC}


def requests(broker: LocalBroker) -> list[dict[str, Any]]:
    """Rows of the whole log; a line that can't be read fails the test."""
    rows = []
    for line in broker.request_log.read_text().split("\n")[:-1]:
        parsed = parse_request_line(line, "UTC", Privacy())
        assert parsed.quarantine_reason is None, line
        if parsed.row is not None:
            rows.append(parsed.row)
    return rows


def events(broker: LocalBroker) -> list[dict[str, Any]]:
    rows = []
    for entry in entries(enumerate(broker.server_log.read_text().split("\n")[:-1], 1)):
        parsed = parse_entry(entry, "UTC", Privacy())
        assert not isinstance(parsed, str), entry
        if parsed is not None:
            rows.append({"source_file": "server.log", **parsed})
    return rows


def classic_groups(rows: list[dict[str, Any]]) -> set[str]:
    """Those of the requests that are about one group, but for groups that beat in another protocol."""
    others = {row["group_id"] for row in rows if row["api_key"] in HEARTBEATS_OF_OTHERS}
    return {row["group_id"] for row in rows if row["group_id"] is not None} - others


def of_hostile_group(broker: LocalBroker, count: int) -> list[dict[str, Any]]:
    """Its requests, of one connection, in the order of their lines: the next is not read before the line is written,
    which is a moment after the answer was sent. By `happened_at` two of the same millisecond may change places."""
    deadline = time.monotonic() + LOG_SECONDS_MAX
    while True:
        rows = [row for row in requests(broker) if row["group_id"] == HOSTILE_GROUP]
        if len(rows) >= count or time.monotonic() > deadline:
            return rows
        time.sleep(0.1)


def test_requests_are_what_was_sent(broker: LocalBroker, evidence: Evidence) -> None:
    """Goal: a group with the most hostile of names joins, beats in a wrong generation, commits in it, and leaves: each
    request is one row, with its content and its answer."""
    with wire.Connection(broker.bootstrap_servers) as raw:
        member = raw.join_and_lead(HOSTILE_GROUP, protocol_type="x", protocol="p", metadata=b"\x01", assignment=b"\x02")
        who = wire.string(HOSTILE_GROUP) + wire.int32(99) + wire.string(member)
        with pytest.raises(wire.BrokerError, match="error code 22"):
            raw.call(ApiKey.HEARTBEAT, 1, who)
        offsets = wire.array([wire.int32(number) + wire.int64(5 + number) + wire.string("") for number in range(2)])
        topics = wire.array([wire.string(TOPIC) + offsets])
        with pytest.raises(wire.BrokerError, match="error code 22"):
            raw.call(ApiKey.OFFSET_COMMIT, 2, who + wire.int64(-1) + topics, error_at=slice(-2, None))
        raw.leave(HOSTILE_GROUP, member)
    found = of_hostile_group(broker, 5)
    columns = ("api", "error", "error_scope", "member_id", "generation", "client_id")
    assert [tuple(row[name] for name in columns) for row in found] == [
        ("JOIN_GROUP", "NONE", None, "", None, wire.CLIENT_ID),
        ("SYNC_GROUP", "NONE", None, member, 1, wire.CLIENT_ID),
        ("HEARTBEAT", "ILLEGAL_GENERATION", "request", member, 99, wire.CLIENT_ID),
        ("OFFSET_COMMIT", "ILLEGAL_GENERATION", "partition", member, 99, wire.CLIENT_ID),
        ("LEAVE_GROUP", "NONE", None, member, None, wire.CLIENT_ID),
    ]
    assert (found[0]["response_member_id"], found[0]["response_generation"]) == (member, 1)
    refused = [
        (each["topic"], each["partition"], each["committed_offset"], each["error"]) for each in found[3]["partitions"]
    ]
    assert refused == [(TOPIC, number, 5 + number, "ILLEGAL_GENERATION") for number in range(2)]
    said = [row for row in events(broker) if row["group_id"] == HOSTILE_GROUP]
    assert {"preparing_rebalance", "stabilized", "assignment_received", "member_left"} <= {row["kind"] for row in said}
    assert all(row["line_count"] == 2 for row in said)


def test_committed_records_are_accepted_requests(broker: LocalBroker, evidence: Evidence) -> None:
    """Goal: every commit that is in the topic was asked for by a request that the log says was accepted."""
    rows = requests(broker)
    accepted = {
        (row["group_id"], each["partition"], each["committed_offset"])
        for row in rows
        if row["api"] in {"OFFSET_COMMIT", "TXN_OFFSET_COMMIT"}
        for each in row["partitions"]
        if each["error_code"] == 0
    }
    stored = {
        (group_id, entry.partition, entry.committed_offset)
        for group_id, (_, records) in group_logs(broker, classic_groups(rows)).items()
        for entry in records
        if isinstance(entry, Commit) and entry.committed_offset is not None
    }
    assert len(stored) > 10
    assert stored <= accepted


def test_the_table_of_texts_is_the_brokers(broker: LocalBroker, evidence: Evidence) -> None:
    """Goal: the table of texts writes every entry about a classic group again from the values that it read in it, to
    the last byte."""
    lines = enumerate(broker.server_log.read_text().split("\n")[:-1], 1)
    compared = 0
    for entry in entries(lines):
        if BEGIN in entry.text:
            message, again = written_again(entry.text)
            if again is not None:
                assert again.by_template == message
                if again.kind in CLASSIC_KINDS:
                    assert again.by_coordinator == entry.text
                    compared += 1
    assert compared > 100


def test_every_rebalance_has_its_trigger(broker: LocalBroker, evidence: Evidence) -> None:
    """Goal: each rebalance of each real group has the reason of the line that began it, and nothing unknown."""
    # The records first: static members of another test may expire meanwhile, and a written record was logged before.
    records_of = group_logs(broker, classic_groups(requests(broker)))
    said = events(broker)
    assert {row["trigger"] for row in said if row["kind"] == "preparing_rebalance"}.isdisjoint({"unknown"})
    by_group: dict[str, list[dict[str, Any]]] = {}
    for row in said:
        by_group.setdefault(row["group_id"], []).append(row)
    text = broker.server_log.read_text()
    seen = 0
    for group_id, (partition, records) in records_of.items():
        marked = [Coverage(0, "complete"), *sorted(records, key=position)]
        rebalances = fold(group_id, partition, None, summaries(marked)).rows["rebalances"]
        for row, found in zip(rebalances, triggers(rebalances, by_group.get(group_id, [])), strict=True):
            line = f"Preparing to rebalance group {group_id} in state PreparingRebalance with old generation"
            begun = re.findall(
                rf"{re.escape(line)} {row['to_generation'] - 1} \(reason: (.*?)\)\. \(org", text, re.DOTALL
            )
            assert found["trigger_reason"] in begun, (group_id, row)
            assert len(begun) > 1 or found["trigger_reason"] == begun[0]
            seen += 1
    assert seen > 10
