"""Goal: every line of a request log becomes a row, a reason or nothing, whatever its version, and whatever it holds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from groupledger.schemas.tables.requests import REQUESTS
from groupledger.transforms.logs.imported_lines import OF_THE_JOB
from groupledger.transforms.logs.rules.request_log import Parsed, client_host, parse_request_line
from groupledger.transforms.privacy import DROP, HASH, Privacy

KEEP_ALL = Privacy()
LOGGED_AT_US = 1_770_716_700_123_000  # 2026-02-10 09:45:00,123 UTC
MEMBER = "consumer-g1-1-0b6e3f5e-8f0b-4a55-9a41-3a1f2d9c7e10"
ENVELOPE = {
    "connection": "127.0.0.1:19092-10.1.2.3:51234-4-17",
    "totalTimeMs": 3.214,
    "securityProtocol": "PLAINTEXT",
    "principal": "User:ANONYMOUS",
    "listener": "PLAINTEXT",
    "clientInformation": {"softwareName": "apache-kafka-java", "softwareVersion": "4.2.0"},
}


def line(api_key: int, version: int, request: Any, response: Any, **changes: Any) -> str:
    header = {"requestApiKey": api_key, "requestApiVersion": version, "correlationId": 42, "clientId": "consumer-g1-1"}
    body = {"isForwarded": False, "requestHeader": header, "request": request, "response": response}
    text = json.dumps({**body, **ENVELOPE, **changes}, separators=(",", ":"))
    return f"[2026-02-10 09:45:00,123] DEBUG Completed request:{text} (kafka.request.logger)"


def parse(text: str, time_zone: str = "UTC", privacy: Privacy = KEEP_ALL) -> Parsed:
    return parse_request_line(text, time_zone, privacy)


def row(text: str, **how: Any) -> dict[str, Any]:
    parsed = parse(text, **how)
    assert parsed.row is not None, parsed
    return parsed.row


def commit(topics: list[Any], codes: list[Any], generation: str = "generationIdOrMemberEpoch", version: int = 9) -> str:
    request = {"groupId": "g1", generation: 4, "memberId": MEMBER, "groupInstanceId": None, "topics": topics}
    return line(8, version, request, {"throttleTimeMs": 0, "topics": codes})


def partition(index: int, offset: int) -> dict[str, Any]:
    return {"partitionIndex": index, "committedOffset": offset, "committedLeaderEpoch": 7, "committedMetadata": ""}


ORDERS = {"name": "orders", "partitions": [partition(0, 1234), partition(1, 5)]}
REFUSED = {
    "name": "orders",
    "partitions": [{"partitionIndex": 0, "errorCode": 22}, {"partitionIndex": 1, "errorCode": 0}],
}


def test_a_refused_commit() -> None:
    """Goal: the row says who committed, in which generation, for which partitions, how each partition was answered, and
    when the request arrived."""
    found = row(commit([ORDERS], [REFUSED]))
    assert found["happened_at"] == LOGGED_AT_US - 3_214
    assert (found["api"], found["group_id"], found["member_id"], found["generation"]) == (
        *("OFFSET_COMMIT", "g1"),
        *(MEMBER, 4),
    )
    assert (found["error"], found["error_scope"]) == ("ILLEGAL_GENERATION", "partition")
    names = ("topic", "topic_id", "partition", "committed_offset", "error")
    assert [tuple(each[name] for name in names) for each in found["partitions"]] == [
        ("orders", None, 0, 1234, "ILLEGAL_GENERATION"),
        ("orders", None, 1, 5, "NONE"),
    ]
    assert (found["client_host"], found["client_software_version"]) == ("10.1.2.3", "4.2.0")
    assert json.loads(found["request_json"])["topics"] == [ORDERS]


def test_a_row_has_the_columns_of_the_table() -> None:
    """Goal: every column but those that the job adds, so that none is null by mistake."""
    expected = {field.name for field in REQUESTS.schema} - {*OF_THE_JOB, "source_file", "line_number"}
    assert set(row(commit([ORDERS], [REFUSED]))) == expected


def test_differences_between_versions() -> None:
    """Goal: `generationId` of 3.4, the topic ids of API 10, the old connection, and no answer at all."""
    assert row(commit([ORDERS], [REFUSED], generation="generationId", version=8))["generation"] == 4
    by_id = {"topicId": "XzX1Zm0kQ2m6o0m2zq8m1A", "partitions": [partition(0, 9)]}
    answer = {"topicId": "XzX1Zm0kQ2m6o0m2zq8m1A", "partitions": [{"partitionIndex": 0, "errorCode": 113}]}
    (only,) = row(commit([by_id], [answer], version=10))["partitions"]
    assert (only["topic"], only["topic_id"], only["error"]) == (
        *(None, "XzX1Zm0kQ2m6o0m2zq8m1A"),
        "STALE_MEMBER_EPOCH",
    )
    heartbeat = {"groupId": "g1", "generationId": 4, "memberId": MEMBER, "groupInstanceId": "i"}
    old = row(line(12, 4, heartbeat, "", connection="[fe80:0:0:0:1%eth0-1]:9092-10.0.0.9:51234-17"))
    assert (old["error_code"], old["error"], old["response_json"], old["client_host"]) == (None, None, None, "10.0.0.9")
    assert old["group_instance_id"] == "i"


@pytest.mark.parametrize(("version", "name"), [(3, "name"), (6, "topicId")])
def test_transactional_commits_of_4_4(version: int, name: str) -> None:
    """Goal: a 4.4 broker prints the generation under its new name in every version, and topic ids in the newest."""
    who = {"groupId": "g1", "memberId": MEMBER, "groupInstanceId": None, "generationIdOrMemberEpoch": 4}
    topic = {name: "XzX1Zm0kQ2m6o0m2zq8m1A"}
    topics = [{**topic, "partitions": [partition(0, 9)]}]
    request = {"transactionalId": "t", **who, "producerId": 0, "producerEpoch": 0, "topics": topics}
    answer = {"topics": [{**topic, "partitions": [{"partitionIndex": 0, "errorCode": 113}]}]}
    found = row(line(28, version, request, {"throttleTimeMs": 0, **answer}))
    assert (found["api"], found["member_id"], found["generation"]) == ("TXN_OFFSET_COMMIT", MEMBER, 4)
    (only,) = found["partitions"]
    assert only["topic" if name == "name" else "topic_id"] == "XzX1Zm0kQ2m6o0m2zq8m1A"
    assert (only["committed_offset"], only["error"]) == (9, "STALE_MEMBER_EPOCH")


def test_a_topologys_description() -> None:
    """Goal: the request that 4.4 has added is about its group."""
    request = {"groupId": "g1", "memberId": "m", "topologyEpoch": 0, "topologyDescription": {}}
    found = row(line(93, 0, request, {"throttleTimeMs": 0, "errorCode": 35, "errorMessage": None}))
    assert (found["api"], found["group_id"], found["error"]) == (
        *("STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE", "g1"),
        "UNSUPPORTED_VERSION",
    )


# What `client_host` must find, and can't be used for: it goes back at each colon of what somebody wrote.
CONNECTION = re.compile(r".+:\d+-(?P<host>.+):\d+-\d+(?:-\d+)?\Z", re.DOTALL)


@given(st.text(alphabet="1:-a%\n", max_size=30))
@example("[fe80:0:0:0:1%eth0-1]:9092-fe80:0:0:0:2%eth0-1:51234-4-17")
def test_a_client_host_is_as_the_pattern_says(connection: str) -> None:
    """Goal: for any connection the same address of the client as the pattern, or none."""
    found = CONNECTION.match(connection)
    assert client_host(connection) == (None if found is None else found["host"])


def test_a_connection_made_to_hold_us_up() -> None:
    """Attack: a connection of 300,000 colons took hours; each is looked at once."""
    assert client_host("a" + ":1-" * 100_000 + ":1") is None
    assert client_host("a:1-" + ":" * 300_000 + ":1-1") == ":" * 300_000


def test_requests_about_several() -> None:
    """Goal: groups and members have an element each, and the single columns are null; nothing is a second row."""
    left = {
        "groupId": "g1",
        "members": [
            {"memberId": "", "groupInstanceId": "a", "reason": "member was removed by an admin"},
            {"memberId": MEMBER, "groupInstanceId": None, "reason": None},
        ],
    }
    answer = {
        "errorCode": 0,
        "members": [
            {"memberId": "", "groupInstanceId": "a", "errorCode": 25},
            {"memberId": MEMBER, "groupInstanceId": None, "errorCode": 0},
        ],
    }
    leave = row(line(13, 5, left, answer))
    assert (leave["member_id"], leave["error"], leave["error_scope"]) == (None, "UNKNOWN_MEMBER_ID", "member")
    assert [each["error"] for each in leave["members"]] == ["UNKNOWN_MEMBER_ID", "NONE"]
    fetched = {
        "groups": [
            {
                "groupId": "g2",
                "topics": [{"name": "t", "partitions": [{"partitionIndex": 3, "committedOffset": -1, "errorCode": 0}]}],
                "errorCode": 0,
            },
            {"groupId": "g1", "topics": [], "errorCode": 16},
        ]
    }
    asked = {"groups": [{"groupId": "g1", "memberId": MEMBER, "memberEpoch": 2}, {"groupId": "g2", "topics": None}]}
    fetch = row(line(9, 9, asked, fetched))
    assert (fetch["group_id"], fetch["error"], fetch["error_scope"]) == (None, "NOT_COORDINATOR", "group")
    assert [(each["group_id"], each["error_code"]) for each in fetch["groups"]] == [("g1", 16), ("g2", 0)]
    assert [(each["group_id"], each["topic"], each["partition"]) for each in fetch["partitions"]] == [("g2", "t", 3)]


def test_modern_groups_as_a_broker_logs_them() -> None:
    """Goal: lines of a 4.2 broker give who asked in which epoch, and the answer: `request_log_4_2.txt` has heartbeats
    of consumer, streams and share groups, commits and acknowledgements, accepted and refused."""
    lines = (Path(__file__).parent / "request_log_4_2.txt").read_text(encoding="utf-8").splitlines()
    names = ("api", "error_code", "error_scope", "member_id", "group_instance_id", "generation")
    members: dict[str, str] = {}
    found = []
    for text in lines:
        read = row(text)
        letter = members.setdefault(read["member_id"], chr(ord("a") + len(members)))
        found.append(tuple((read | {"member_id": letter})[name] for name in names))
    assert found == ROWS_4_2
    acknowledged = row(lines[-1])["partitions"]
    assert [(each["topic_id"], each["partition"], each["error"]) for each in acknowledged] == [
        (acknowledged[0]["topic_id"], 0, "INVALID_RECORD_STATE")
    ]


ROWS_4_2 = [
    ("CONSUMER_GROUP_HEARTBEAT", 0, None, "a", None, 0),
    ("CONSUMER_GROUP_HEARTBEAT", 110, "request", "a", None, 6),
    ("CONSUMER_GROUP_HEARTBEAT", 112, "request", "b", None, 0),
    ("CONSUMER_GROUP_HEARTBEAT", 128, "request", "c", None, 0),
    ("CONSUMER_GROUP_HEARTBEAT", 111, "request", "d", "i1", 0),
    ("OFFSET_COMMIT", 113, "partition", "e", None, 0),
    ("OFFSET_COMMIT", 0, None, "e", None, 1),
    ("SHARE_GROUP_HEARTBEAT", 0, None, "f", None, 0),
    ("SHARE_GROUP_HEARTBEAT", 110, "request", "f", None, 9),
    ("SHARE_ACKNOWLEDGE", 122, "request", "g", None, None),
    ("STREAMS_GROUP_HEARTBEAT", 0, None, "f", None, 0),
    ("STREAMS_GROUP_HEARTBEAT", 110, "request", "f", None, 9),
    ("STREAMS_GROUP_HEARTBEAT", 42, "request", "h", None, 0),
    ("STREAMS_GROUP_HEARTBEAT", 130, "request", "i", None, 0),
    ("SHARE_ACKNOWLEDGE", 0, None, "j", None, None),
    ("SHARE_ACKNOWLEDGE", 121, "partition", "j", None, None),
]

B_IS_NOT_EMPTY = {"groupId": "b", "errorCode": 68}
A_IS_FOUND = {"key": "a", "errorCode": 0}


@pytest.mark.parametrize(
    ("text", "group_ids", "errors"),
    [
        (line(42, 2, {"groupsNames": ["a", "b"]}, {"results": [B_IS_NOT_EMPTY]}), ["a", "b"], [None, 68]),
        (line(15, 5, {"groups": ["a"]}, {"groups": [{"groupId": "a", "errorCode": 0}]}), ["a"], [0]),
        (line(69, 0, {"groupIds": ["a"]}, {"groups": [{"groupId": "a", "errorCode": 69}]}), ["a"], [69]),
        (line(10, 1, {"key": "a", "keyType": 0}, {"errorCode": 15}), ["a"], [15]),
        (line(10, 4, {"keyType": 0, "coordinatorKeys": ["a"]}, {"coordinators": [A_IS_FOUND]}), ["a"], [0]),
        (line(13, 2, {"groupId": "a", "memberId": "m"}, {"errorCode": 25}), ["a"], [25]),
        (line(68, 1, {"groupId": "a", "memberId": "m", "memberEpoch": 3}, {"errorCode": 110}), ["a"], [110]),
    ],
)
def test_groups_of_each_api(text: str, group_ids: list[str], errors: list[int]) -> None:
    """Goal: wherever an API names its groups, they are found, with their errors."""
    found = row(text)["groups"]
    assert [(each["group_id"], each["error_code"]) for each in found] == list(zip(group_ids, errors, strict=True))


def test_what_is_about_something_else() -> None:
    """Goal: fetches, transactions' coordinators, other loggers and stack traces are skipped; names of topics kept."""
    assert parse(line(1, 17, {}, {})) == Parsed()
    assert parse(line(10, 1, {"key": "t", "keyType": 1}, {"errorCode": 0})) == Parsed()
    assert parse("[2026-02-10 09:45:00,123] INFO Starting up. (kafka.server.KafkaServer)") == Parsed()
    assert parse("\tat kafka.Kafka.main(Kafka.scala)") == Parsed()
    topics = [{"errorCode": 0, "name": "orders", "topicId": "XzX1Zm0kQ2m6o0m2zq8m1A", "partitions": []}]
    assert parse(line(3, 12, {"topics": None}, {"topics": topics})).topic_names == {"XzX1Zm0kQ2m6o0m2zq8m1A": "orders"}


WHOLE = commit([ORDERS], [REFUSED])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (WHOLE[30:], "no time, level or logger"),
        (WHOLE.replace('"request":{', '"request":{{'), "no JSON"),
        (WHOLE.replace("3.214", '"3"'), "totalTimeMs is no duration"),
        (WHOLE.replace("1234", "1e99"), "committedOffset is no integer"),
        (WHOLE.replace('"g1"', "[]"), "groupId is no text"),
        (WHOLE.replace('"g1"', '"\\ud800"'), "half a character"),
        (line(3, 12, {}, {"topics": [{"name": "\ud800", "topicId": "XzX1Zm0kQ2m6o0m2zq8m1A"}]}), "half a character"),
        (WHOLE.replace("2026-02-10", "2026-02-31"), "a time that no broker can have logged"),
        (WHOLE.replace("2026-02-10", "1970-01-01"), "a time that no broker can have logged"),
        (WHOLE.replace(":{", ":RequestHeader(apiKey=OFFSET_COMMIT) -- {", 1), "before 2.8"),
        (commit([ORDERS], [REFUSED], version="[" * 100_000), "requestApiVersion is no integer"),  # type: ignore[arg-type]
    ],
)
def test_damage(text: str, reason: str) -> None:
    """Goal: a line that is cut, altered or too old is quarantined with the fault."""
    assert reason in str(parse(text).quarantine_reason)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(WHOLE)), st.integers(0, len(WHOLE)), st.text(max_size=5))
def test_no_damage_raises(start: int, end: int, text: str) -> None:
    """Goal: any text in place of a part of a line gives a row, a reason or nothing."""
    damaged = WHOLE[:start] + text + WHOLE[max(start, end) :]
    assert isinstance(parse(damaged), Parsed)


def test_hostile_names_are_nothing_but_names() -> None:
    """Goal: quotes, brackets, line breaks and a whole request inside a name stay one name."""
    evil = 'x","response":{"errorCode":0}} (kafka.request.logger)\n[2026-02-10 09:45:00,123] DEBUG Completed request:{'
    heartbeat = {"groupId": evil, "generationId": 4, "memberId": evil, "groupInstanceId": None}
    found = row(line(12, 4, heartbeat, {"errorCode": 27}))
    assert (found["group_id"], found["member_id"], found["error"]) == (evil, evil, "REBALANCE_IN_PROGRESS")


def test_frames() -> None:
    """Goal: other log4j patterns, and a zone that the time is read in, by its rules of that day."""
    bare = (
        WHOLE.replace("[2026-02-10 09:45:00,123]", "2026-02-10T09:45:00.123456")
        + " [data-plane-kafka-network-thread-1]"
    )
    assert row(bare)["logged_at"] == LOGGED_AT_US + 456
    assert row(WHOLE, time_zone="Europe/Vienna")["logged_at"] == LOGGED_AT_US - 3_600_000_000
    summer = WHOLE.replace("2026-02-10", "2026-07-10")
    assert row(summer)["logged_at"] - row(summer, time_zone="Europe/Vienna")["logged_at"] == 7_200_000_000


def test_privacy() -> None:
    """Goal: addresses and principals are gone, or equal only to themselves, wherever they are."""
    members = [{"memberId": "m", "clientHost": "/10.1.2.3"}]
    text = line(15, 5, {"groups": ["a"]}, {"groups": [{"groupId": "a", "errorCode": 0, "members": members}]})
    dropped = row(text, privacy=Privacy(DROP, DROP))
    assert "10.1.2.3" not in repr(dropped)
    assert (dropped["principal"], dropped["client_host"], dropped["connection_id"]) == (None, None, None)
    hashed, other = (row(text, privacy=Privacy(HASH, HASH, key)) for key in (b"one", b"two"))
    assert "10.1.2.3" not in repr(hashed)
    assert len(hashed["client_host"]) == 18
    assert hashed == row(text, privacy=Privacy(HASH, HASH, b"one"))
    assert hashed["client_host"] != other["client_host"]


FETCH = {"maxWaitMs": 500, "minBytes": 1, "isolationLevel": 0, "topics": [], "forgottenTopicsData": [], "rackId": ""}


@pytest.mark.parametrize(("api_key", "groups"), [(1, []), (78, ["g1"])])
def test_only_a_throttled_fetch_becomes_a_row(api_key: int, groups: list[str]) -> None:
    """Goal: fetches are many, and only those that a quota held up are kept, with whose they are and for how long."""
    request = FETCH | dict.fromkeys(("groupId",), "g1") if groups else FETCH
    answer = {"throttleTimeMs": 9368, "errorCode": 0, "responses": []}
    found = row(line(api_key, 16, request, answer, throttleTimeMs=9368))
    assert (found["throttle_time_ms"], found["client_id"], found["client_host"]) == (9368, "consumer-g1-1", "10.1.2.3")
    assert [each["group_id"] for each in found["groups"]] == groups
    assert found["group_id"] == (groups[0] if groups else None)
    others: tuple[dict[str, Any] | None, ...] = ({"throttleTimeMs": 0, "responses": []}, None, {"responses": []})
    for other in others:
        assert parse(line(api_key, 16, request, other, throttleTimeMs=0)) == Parsed()


def test_other_requests_have_their_throttle_time() -> None:
    assert row(commit([ORDERS], [REFUSED]))["throttle_time_ms"] == 0
