"""Goal: the author of a move or a removal of offsets is named if a request log shows it, and nobody is named by a
guess."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.coordinator.simulator.request_log import render_line
from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import SCENARIOS
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.transforms.logs.rules.request_log import parse_request_line
from groupledger.transforms.offsets.rules.authors import APIS, LogSpan, acts
from groupledger.transforms.privacy import Privacy

if TYPE_CHECKING:
    from groupledger.coordinator.simulator.simulation import Outputs

Row = dict[str, Any]
AT = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
COVERED = [LogSpan(AT - HOUR, AT + HOUR)]


def event(partition: int = 0, **changed: Any) -> Row:
    row = {"group_id": "g", "topic": "orders", "partition": partition, "kind": "rewound", "happened_at": AT}
    row |= {"kafka_partition": 3, "kafka_offset": 50 + partition, "offset_before": 900, "offset_after": 100}
    return {**row, "records_repeated": 800, "records_skipped": None, "cause": "no_member", **changed}


def request(line: int = 1, *, error_code: int = 0, offset: int = 100, **changed: Any) -> Row:
    place = {"topic": "orders", "topic_id": None, "committed_offset": offset, "error_code": error_code}
    row = {"source_file": "f", "line_number": line, "happened_at": AT - SECOND / 100, "logged_at": AT + SECOND / 100}
    row |= {"api_key": ApiKey.OFFSET_COMMIT, "api": "OFFSET_COMMIT", "groups": [{"group_id": "g", "error_code": 0}]}
    row |= {"partitions": [{**place, "partition": number} for number in range(2)], "principal": f"User:{line}"}
    row |= {"client_id": "admin", "client_host": "10.0.0.9", "member_id": ""}
    return {**row, "client_software_name": None, "client_software_version": None, **changed}


def deletion(*groups: str, error_code: int = 0) -> Row:
    named = [{"group_id": name, "error_code": error_code if name == "g" else 0} for name in groups]
    return request(api_key=ApiKey.DELETE_GROUPS, api="DELETE_GROUPS", groups=named, partitions=None)


def reported(
    events: list[Row], requests: list[Row], spans: list[LogSpan] = COVERED, **more: Any
) -> list[tuple[str, Any]]:
    found = acts(events, requests, more.get("owners", ()), spans, more.get("topics", {}))
    return [(act["known_by"], [each["principal"] or each["member_id"] for each in act["authors"]]) for act in found]


def test_one_request() -> None:
    """Goal: the partitions of one request are one row, with their sums and the request."""
    (act,) = acts([event(1), event(0)], [request()], (), COVERED, {})
    assert (act["known_by"], act["reason"], act["record"]) == ("observed", None, "3/50")
    assert (act["partition_count"], act["records_repeated"], act["records_skipped"]) == (2, 1_600, None)
    assert [row["partition"] for row in act["partitions"]] == [0, 1]
    (by,) = act["authors"]
    assert (by["principal"], by["client_id"], by["client_host"], by["line_number"]) == (
        "User:1",
        "admin",
        "10.0.0.9",
        1,
    )


def test_candidates() -> None:
    """Goal: if two requests can have done it, both are named, and none is chosen."""
    assert reported([event()], [request(1), request(2)]) == [("candidates", ["User:1", "User:2"])]


@pytest.mark.parametrize(
    "other",
    [
        request(error_code=25),  # it was refused
        request(offset=101),
        request(happened_at=AT + SECOND),
        request(logged_at=AT - SECOND),
        request(groups=[{"group_id": "other", "error_code": 0}]),
        request(
            partitions=[{"topic": None, "topic_id": "x", "partition": 0, "committed_offset": 100, "error_code": 0}]
        ),
        request(api_key=ApiKey.OFFSET_DELETE),
        deletion("g"),
    ],
)
def test_another_request(other: Row) -> None:
    """Goal: a request that did something else, elsewhere, at another time or not at all is nobody's."""
    assert reported([event()], [other]) == [("unknown", [])]


def test_topic_by_id() -> None:
    """Goal: a commit by a topic id counts for the topic if the name of the id is known."""
    places = [{"topic": None, "topic_id": "x", "partition": 0, "committed_offset": 100, "error_code": None}]
    assert reported([event()], [request(partitions=places)], topics={"x": "orders"}) == [("observed", ["User:1"])]


@pytest.mark.parametrize(
    ("kind", "asked", "known_by"),
    [
        ("group_deleted", deletion("g", "h"), "observed"),
        ("group_deleted", deletion("g", error_code=68), "unknown"),
        ("group_deleted", request(api_key=ApiKey.OFFSET_DELETE), "unknown"),
        ("deleted", request(api_key=ApiKey.OFFSET_DELETE), "observed"),
        ("removed", request(api_key=ApiKey.OFFSET_DELETE), "observed"),
        ("removed", deletion("g"), "observed"),
        ("topic_deleted", request(api_key=ApiKey.OFFSET_DELETE), "unknown"),
    ],
)
def test_removals(kind: str, asked: Row, known_by: str) -> None:
    """Goal: an offset was removed by a request that removes such an offset, and that was granted."""
    assert [each for each, _ in reported([event(kind=kind, cause=None, offset_after=None)], [asked])] == [known_by]


def test_member() -> None:
    """Goal: a member's commit without a request is laid to the owner of the partition then, each owner apart."""
    owner = {"group_id": "g", "topic": "orders", "client_id": "c", "client_host": "/h"}
    owners = [
        {**owner, "partition": 0, "member_id": "m-0", "from_offset": 1, "to_offset": 50},
        {**owner, "partition": 0, "member_id": "m-1", "from_offset": 49, "to_offset": None},
        {**owner, "partition": 1, "member_id": "m-2", "from_offset": 1, "to_offset": 90},
    ]
    events = [event(0, cause="member"), event(1, cause="member"), event(2, cause="member"), event(3)]
    assert reported(events, [], owners=owners) == [("inferred", ["m-1"]), ("inferred", ["m-2"]), ("unknown", [])]


@pytest.mark.parametrize(
    ("spans", "reason"),
    [
        ([], "no request log was imported"),
        ([LogSpan(AT + SECOND, AT + HOUR)], "the imported request logs begin at 2026-01-01T12:00:01.000Z"),
        ([LogSpan(AT - HOUR, AT - SECOND)], "the imported request logs end at 2026-01-01T11:59:59.000Z"),
        (
            [LogSpan(AT - HOUR, AT - SECOND), LogSpan(AT + SECOND, AT + HOUR)],
            "no imported request log covers that time",
        ),
        (COVERED, "the request logs of that time have no such request; that of a broker that was not imported may"),
    ],
)
def test_why_unknown(spans: list[LogSpan], reason: str) -> None:
    """Goal: an answer without a name says what is missing."""
    (act,) = acts([event()], [], (), spans, {})
    assert (act["known_by"], act["authors"], act["reason"]) == ("unknown", [], reason)


# The simulator's truth


def rewinds(outputs: Outputs) -> list[Row]:
    """Returns the commits below those before, as `offset_events` has them."""
    last: dict[tuple[str, str, int], int] = {}
    found = []
    for batch in outputs.batches:
        for offset, record in enumerate(batch.records, batch.base_offset):
            if record.record_type == "offset_commit" and record.value is not None:
                place = record.key["group_id"], record.key["topic"], record.key["partition"]
                before, after = last.get(place), record.value["offset"]
                last[place] = after
                if before is not None and after < before:
                    row = dict(zip(("group_id", "topic", "partition"), place, strict=True))
                    row |= {"kafka_partition": batch.partition, "kafka_offset": offset, "offset_before": before}
                    at = instant_of_ms(batch.timestamp_ms)
                    row |= {"happened_at": at, "offset_after": after, "records_repeated": before - after}
                    found.append(event(**row))
    return found


def requests_of(outputs: Outputs) -> list[Row]:
    parsed = (parse_request_line(render_line(each), "UTC", Privacy()).row for each in outputs.exchanges)
    rows = [row for row in parsed if row is not None and row["api_key"] in APIS]
    times = ("happened_at", "logged_at")
    place = {"source_file": "f"}
    return [
        {**row, **place, "line_number": number, **{name: instant_of_ms(row[name] // 1_000) for name in times}}
        for number, row in enumerate(rows)
    ]


def test_the_administrator_of_a_simulation() -> None:
    """Goal: each group's reset is laid to the administrator who made it, out of all requests, and nothing else is."""
    scenario = SCENARIOS["admin-reset"]
    simulation = prepare(scenario, 1, 4)
    simulation.run(BEGAN_AT_MS + round(scenario.hours * 3_600_000))
    outputs = simulation.take(is_last=True)
    requests = requests_of(outputs)
    assert len(requests) > 1_000
    found = acts(rewinds(outputs), requests, (), COVERED, {})
    actions = simulation.recorder.truth.actions
    resets = {row.group_id: row.happened_at_ms for row in actions if row.action == "admin_reset"}
    assert [act["group_id"] for act in found] == sorted(resets, key=lambda name: resets[name])
    for act in found:
        assert [(by["client_id"], by["client_host"], by["member_id"]) for by in act["authors"]] == [
            ("admin", "10.0.0.9", "")
        ]
        assert (act["known_by"], act["partition_count"], act["records_repeated"]) == ("observed", 4, 4_000)
        assert timedelta() <= act["happened_at"] - instant_of_ms(resets[act["group_id"]]) < SECOND
