"""Goal: the bridge finds by windows and joins in Spark what the rules' own functions find in lists."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.group_states import GROUP_STATES
from groupledger.schemas.tables.member_epochs import MEMBER_EPOCHS
from groupledger.schemas.tables.requests import REQUESTS
from groupledger.transforms.incidents.candidates import held_partitions
from groupledger.transforms.incidents.log_facts import wanted_requests
from groupledger.transforms.incidents.rebalance_stretches import COLUMNS, long_stretches
from groupledger.transforms.incidents.rebalance_stretches import rebalance_stretches as stretches_of
from groupledger.transforms.incidents.rules import Rules
from groupledger.transforms.incidents.rules.facts import rebalance_stretches

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from groupledger.schemas.tables.table import Table

BEGAN_AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
BEGAN_AT_MS = round(BEGAN_AT.timestamp() * 1_000)
RULES = Rules()
# A group is sampled each five minutes; at minute 92 a generation begins.
STATES = [
    *((minute, "Stable") for minute in (0, 5)),
    *((minute, "PreparingRebalance") for minute in (10, 15, 25)),
    (20, None),
    *((minute, "CompletingRebalance") for minute in (30, 85, 95)),
    (100, "Reconciling"),
    *((minute, "PreparingRebalance") for minute in (105, 110)),
]


def at(minute: float) -> datetime:
    return BEGAN_AT + timedelta(minutes=minute)


def frame(spark: SparkSession, table: Table, rows: list[dict[str, Any]]) -> DataFrame:
    """Returns rows of a table; what they leave out is null."""
    return spark.createDataFrame([{**dict.fromkeys(table.schema.names), **row} for row in rows], table.schema)


def stuck(spark: SparkSession, states: DataFrame, begun: DataFrame) -> DataFrame:
    """Returns the long stretches, found piece by piece: the samples until minute 20 first, and those until 90."""
    known = spark.createDataFrame([], "group_id string, first_ms long, last_ms long, state string, is_over boolean")
    for first, last in ((-1, 19), (19, 89), (89, 199)):

        def is_now(name: str, first: int = first, last: int = last) -> Column:
            return (F.col(name) > at(first)) & (F.col(name) <= at(last))

        known = stretches_of(known, states.where(is_now("sampled_at")), begun.where(is_now("started_at")))
    assert known.columns == [*COLUMNS]
    return long_stretches(known, RULES.stuck_rebalance_ms)


def test_stretches_of_rebalancing(spark: SparkSession) -> None:
    """Goal: a stretch lasts from a sample to the last without another state or a generation in between, and one that is
    long enough comes to the rules; a coordinator that did not answer ends none, and groups are apart."""
    states = frame(
        spark,
        GROUP_STATES,
        [
            {"group_id": group_id, "sampled_at": at(minute), "state": state}
            for minute, state in STATES
            for group_id in ("g", "h")
        ],
    )
    begun = [{"group_id": "g", "started_at": at(minute)} for minute in (4, 92)]
    found = stuck(spark, states, frame(spark, GENERATIONS, begun))
    rows = found.collect()
    reported = {(row["group_id"], row["first_ms"], row["last_ms"]) for row in rows}
    states_found = {(row["group_id"], row["first_ms"], row["state"]) for row in rows}
    for group_id, begun_ms in (("g", [BEGAN_AT_MS + 92 * 60_000]), ("h", [])):
        sampled = [(BEGAN_AT_MS + minute * 60_000, state) for minute, state in STATES if state is not None]
        stretches = rebalance_stretches(sampled, begun_ms)
        long = {each for each in stretches if each.last_ms - each.first_ms >= RULES.stuck_rebalance_ms}
        assert {(group_id, each.first_ms, each.last_ms) for each in long} == {
            each for each in reported if each[0] == group_id
        }
        assert {(group_id, each.first_ms, each.state) for each in long} <= states_found
    minutes = {
        (group_id, (first - BEGAN_AT_MS) // 60_000, (last - BEGAN_AT_MS) // 60_000)
        for group_id, first, last in reported
    }
    assert minutes == {("g", 10, 85), ("h", 10, 95)}


def test_partitions_that_were_held_back(spark: SparkSession) -> None:
    """Goal: a wait is reported from its target to the end of the step, or to now, if it is long enough and somebody
    with a name had the partition then."""

    def step(member_id: str, targeted: float, ended: float | None, *waits: tuple[str | None, int, str | None]) -> Any:
        return {
            "group_id": "g",
            "incarnation": 1,
            "member_id": member_id,
            "from_offset": len(member_id),
            "targeted_at": at(targeted),
            "valid_from": at(targeted + 0.1),
            "valid_to": None if ended is None else at(ended),
            "waits_for": [dict(zip(("topic", "partition", "held_by"), wait, strict=True)) for wait in waits],
        }

    rows = [
        step("a", 1, 2, ("orders", 0, "x")),
        step("bb", 1, 5, ("orders", 1, "x"), ("orders", 2, None), (None, 3, "x")),
        step("ccc", 1, None, ("orders", 4, "y")),
        step("dddd", 1, 9),
    ]
    found = held_partitions(frame(spark, MEMBER_EPOCHS, rows), RULES, BEGAN_AT_MS + 20 * 60_000).collect()
    assert {(row["member_id"], row["topic"], row["partition"], row["held_by"]) for row in found} == {
        ("bb", "orders", 1, "x"),
        ("ccc", "orders", 4, "y"),
    }
    minutes = {
        row["member_id"]: [(row[name] - BEGAN_AT_MS) / 60_000 for name in ("from_ms", "until_ms")] for row in found
    }
    assert minutes == {"bb": [1, 5], "ccc": [1, 20]}


def test_requests_that_rules_ask_for(spark: SparkSession) -> None:
    """Goal: the rules get from heartbeats the joins, leaves and refusals; from accepted commits only those of a member
    that had a stale epoch, near that refusal, each once; and all requests of a group with a request that has no
    answer."""

    def asked(minute: float, api: str, code: int | None, group_id: str = "g", **fields: Any) -> Any:
        answer = None if code is None else "{}"
        who = {"group_id": group_id, "member_id": "m", "generation": 3, **fields}
        return {"happened_at": at(minute), "api": api, "error_code": code, "response_json": answer, **who}

    wanted = [
        asked(0, "CONSUMER_GROUP_HEARTBEAT", 0, generation=0),
        asked(1, "SHARE_GROUP_HEARTBEAT", 0, generation=-1),
        asked(2, "STREAMS_GROUP_HEARTBEAT", 110),
        *(asked(minute, "OFFSET_COMMIT", 113) for minute in (10, 10.1)),
        *(asked(minute, "OFFSET_COMMIT", 0) for minute in (9.5, 10.2)),
        asked(3, "CONSUMER_GROUP_HEARTBEAT", 0, "unanswered"),
        asked(4, "OFFSET_COMMIT", None, "unanswered"),
    ]
    others = [
        asked(5, "CONSUMER_GROUP_HEARTBEAT", 0),
        asked(8, "OFFSET_COMMIT", 0),
        asked(12, "OFFSET_COMMIT", 0),
        asked(10.2, "OFFSET_COMMIT", 0, member_id="n"),
        asked(10.2, "OFFSET_COMMIT", 0, "h"),
    ]
    rows = [{**row, "line_number": number} for number, row in enumerate([*wanted, *others])]
    found = wanted_requests(frame(spark, REQUESTS, rows)).collect()
    assert sorted(row["line_number"] for row in found) == [*range(len(wanted))]


def test_the_assignor_of_a_refused_request(spark: SparkSession) -> None:
    """Goal: only a request that was refused for its assignor gives that name to the rules."""
    asks = {"api": "CONSUMER_GROUP_HEARTBEAT", "group_id": "g", "response_json": "{}", "happened_at": at(0)}
    asks |= {"request_json": '{"serverAssignor": "round-the-houses"}'}
    rows = [{**asks, "error_code": code, "line_number": code} for code in (112, 110)]
    found = wanted_requests(frame(spark, REQUESTS, rows)).collect()
    assert {row["line_number"]: row["server_assignor"] for row in found} == {112: "round-the-houses", 110: None}
