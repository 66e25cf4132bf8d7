"""Goal: pages and their JSON say what the command line says, whatever clients are called, and keep others out."""

from __future__ import annotations

import json
import re
from http.client import HTTPConnection
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from markupsafe import escape

from groupledger.jobs.process.path_names import part
from groupledger.schemas.words import LagFlag
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, Client, fill, served, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOSTILE = "a/owners?x=1#<script>alert(1)</script>&\"'\x1b[2J\u202e%2F"
KNOWN_UNTIL = "2026-01-01T12:10:00.000Z"
SHOWN_UNTIL = f'<time datetime="{KNOWN_UNTIL}" title="{KNOWN_UNTIL}">1 Jan 12:10:00</time>'
KNOWN: dict[str, str | None] = dict.fromkeys(("topic", "history", "incidents"), KNOWN_UNTIL)
KNOWN |= {"samples": "2026-01-01T12:01:00.000Z", "request_log": None, "server_log": None}
NAMES = {"pay": ("orders", "pod-b"), HOSTILE: ("<b>" * 80, "</title><script>"), "..": ("..", "../..")}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    warehouse = tmp_path_factory.mktemp("served")
    for name, (topic, member) in NAMES.items():
        fill(warehouse, name, topic, member)
    with served(warehouse) as found:
        yield found


def path(name: str, rest: str = "") -> str:
    return f"/api/v1/clusters/{CLUSTER}/groups/{quote(name, '').replace('.', '%2E')}{rest}"


@pytest.mark.parametrize("name", NAMES)
def test_a_group(client: Client, name: str) -> None:
    """Goal: each question about a group is answered about that group, however it is called."""
    topic, member = NAMES[name]
    found = client.get(path(name, "?at=2026-01-01T12:01:00Z")).json
    assert found["group"]["group_id"] == name
    (owner,) = found["owners"]
    assert (owner["topic"], owner["member_id"], owner["status"]) == (topic, member, "owned")
    assert client.get(path(name, "/owners")).json["owners"][0]["status"] == "unowned"
    assert [row["to_generation"] for row in client.get(path(name, "/rebalances")).json["rebalances"]] == [2]
    assert [row["lag"] for row in client.get(path(name, "/lag")).json["lag"]] == [7]
    assert client.get(path(name, "/lag/total")).json["lag"] == 7
    assert [row["group_id"] for row in client.get(path(name, "/incidents")).json["incidents"]] == [name]
    assert client.get(path(name, "/why?since=2026-01-01")).json["verdict"]["setting_to_change"] == "s"
    assert len(client.get(path(name, "/timeline")).json["entries"]) == 2
    assert client.get(path(name, "/members")).json == {
        "known_until": KNOWN,
        "not_known": None,
        "members": [],
        "count": 0,
        "next": None,
    }
    for rest in ("", "/owners", "/timeline", "/rebalances", "/incidents", "/why?since=2026-01-01"):
        assert client.get(path(name, rest)).json["known_until"] == KNOWN
    answer = client.get(path(name, "/what-if")).json["answers"]
    assert [(row["setting"], row["refusal"]) for row in answer] == [
        ("static", None),
        ("consumer", f"{member} can't be computed."),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_page(client: Client, name: str) -> None:
    """Goal: a page shows the group at the instant of its link, with every name escaped, and nothing of elsewhere."""
    topic, member = NAMES[name]
    link = f"/clusters/{CLUSTER}/groups/{quote(name, '').replace('.', '%2E')}"
    page = client.get(f"{link}?at=2026-01-01T12:01:00Z&window=1h")
    assert page.status == 200
    assert "<script>" not in page.text
    assert topic.replace("<", "&lt;").replace(">", "&gt;") in page.text
    assert 'class="owner h' in page.text
    assert 'class="rebalance"' in page.text
    assert "next rebalance" in page.text
    assert '<td>static</td><td class="n">3</td><td class="n">about 2</td>' in page.text
    standing = '<span class="badge growing">growing</span> lag 7; 1 member; alive, classic <span'
    assert page.text.index("</h1>") < page.text.index(standing) < page.text.index('id="verdict"')
    later = client.get(f"{link}?at=2026-01-01T12:06:00Z&window=1h").text
    assert "previous rebalance" in later
    assert not re.search(r"(src|href)=\"(https?:)?//", page.text + later)
    assert member.replace("<", "&lt;").replace(">", "&gt;") in client.get(f"/clusters/{CLUSTER}").text


@pytest.mark.parametrize("name", NAMES)
def test_the_pages_of_questions(client: Client, name: str) -> None:
    """Goal: the answers to why and to what changed are pages, linked from the group's, which escape the names that they
    show."""
    topic, member = NAMES[name]
    link = f"/clusters/{CLUSTER}/groups/{quote(name, '').replace('.', '%2E')}"
    page = client.get(f"{link}?at=2026-01-01T12:06:00Z&window=15m").text
    assert f"/clusters/{CLUSTER}/groups/{part(name)}/why?since=" in page
    assert f"/clusters/{CLUSTER}/groups/{part(name)}/diff?from=" in page
    answer = client.get(f"{link}/why?since=2026-01-01T12:00:00Z")
    assert (answer.status, "Change: <b>s</b>" in answer.text) == (200, True)
    for shown in (answer.text, page):
        assert '<h2 class="kind">session_timeout (member_comes_and_goes)</h2>' in shown
        assert '<dd class="known">by server log, observed; with it: session_expired</dd>' in shown
    assert "growing" in answer.text
    assert "5 entries" in answer.text
    assert f"{escape(member)} took {escape(topic)} 0<" in answer.text
    assert f"{escape(member)} gave up {escape(topic)} 0<" in answer.text
    assert f"The log is known until {SHOWN_UNTIL}." in answer.text
    assert f"its log is known until {SHOWN_UNTIL}<" in page
    changed = client.get(f"{link}/diff?from=2026-01-01T12:01:00Z&to=2026-01-01T12:06:00Z")
    assert (changed.status, "member_count" in changed.text) == (200, True)
    assert topic.replace("<", "&lt;").replace(">", "&gt;") in changed.text
    assert member.replace("<", "&lt;").replace(">", "&gt;") in changed.text
    assert "<script>" not in answer.text + changed.text
    same = client.get(f"{link}/diff?from=2026-01-01T12:01:00Z&to=2026-01-01T12:02:00Z").text
    assert "Nothing is different." in same
    rows = client.get(path(name, "/diff?from=2026-01-01T12:01:00Z")).json["differences"]
    assert {"what": "member_count", "name": None, "partition": None, "then": 1, "now": 0} in rows


def test_a_topic(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Goal: the page of a topic has the groups that read it, with their lag in it, and of an unknown one nobody."""
    warehouse = tmp_path_factory.mktemp("topics")
    fill(warehouse, HOSTILE, "orders", "pod-b")
    commit = {"topic": "orders", "partition": 0, "offset": 5, "leader_epoch": 1, "topic_id": "AAAAAAAAAAAAAAAAAAAAAA"}
    record = {
        "kafka_partition": 7,
        "kafka_offset": 3,
        "kafka_timestamp": AT,
        "group_id": HOSTILE,
        "is_tombstone": False,
    }
    record |= {"record_type": "offset_commit", "offset_commit": commit, "ingest_date": AT.date()}
    write(warehouse, "coordinator_records", record)
    with served(warehouse) as client:
        page = client.get(f"/clusters/{CLUSTER}/topics/orders")
        assert page.status == 200
        assert f"The log is known until {SHOWN_UNTIL}." in page.text
        assert "1 groups" in page.text or "1 group" in page.text
        assert quote(HOSTILE, "") in page.text
        assert '<td class="growing">growing</td>' in page.text
        (row,) = client.get(f"/api/v1/clusters/{CLUSTER}/topics/orders/readers").json["readers"]
        assert client.get(f"/api/v1/clusters/{CLUSTER}/topics/orders/readers").json["known_until"] == KNOWN
        assert (row["group_id"], row["partitions_committed"]) == (HOSTILE, 1)
        answer = client.get(f"/api/v1/clusters/{CLUSTER}/topics/Order/readers").json
        assert (answer["readers"], answer["nearest_names"]) == ([], ["orders"])
        assert (
            f'Did you mean <a href="/clusters/{CLUSTER}/topics/orders">orders</a>?'
            in client.get(f"/clusters/{CLUSTER}/topics/Order").text
        )
        assert "The ledger knows no such group." in client.get(f"/clusters/{CLUSTER}/topics/%3Cb%3E").text


def test_the_list(client: Client) -> None:
    """Goal: search, filters and pages go over all groups; the last page has no next."""
    groups = f"/api/v1/clusters/{CLUSTER}/groups"
    first = client.get(f"{groups}?limit=2").json
    rest = client.get(f"{groups}?limit=2&cursor={first['next']}").json
    assert (first["count"], first["known_until"]) == (3, KNOWN)
    assert client.get(f"/api/v1/clusters/{CLUSTER}/incidents").json["known_until"] == KNOWN
    assert rest["next"] is None
    assert sorted(row["group_id"] for row in first["groups"] + rest["groups"]) == sorted(NAMES)
    assert [row["group_id"] for row in client.get(f"{groups}?q=pay&status=growing&type=classic").json["groups"]] == [
        "pay"
    ]
    assert client.get(f"{groups}?status=stopped").json["groups"] == []


def test_forms(client: Client) -> None:
    """Goal: an empty field of a form is no filter, and an instant outside of the window moves the window."""
    overview = f"/clusters/{CLUSTER}?q=&status=&type="
    assert "3 groups" in client.get(overview).text
    assert "1 group," in client.get(f"{overview}&q=pay").text
    page = client.get(f"/clusters/{CLUSTER}/groups/pay?at=2026-01-01T12:01&window=15m&until=2026-01-01T18:00").text
    assert 'value="2026-01-01T12:01:00.000Z"' in page
    assert 'class="owner h' in page


def test_burrow(client: Client) -> None:
    """Goal: a program that reads Burrow finds clusters, groups, topics, and a group's status, lag and offsets."""
    assert client.get("/v3/kafka").json["clusters"] == [CLUSTER]
    consumers = f"/v3/kafka/{CLUSTER}/consumer"
    assert client.get(consumers).json["consumers"] == sorted(NAMES)
    found = client.get(f"{consumers}/pay/lag").json
    assert found["error"] is False
    assert (found["status"]["status"], found["status"]["totallag"]) == ("WARN", 7)
    assert found["status"]["maxlag"]["end"]["offset"] == 5
    assert [each["current_lag"] for each in client.get(f"{consumers}/pay/status").json["status"]["partitions"]] == [7]
    assert client.get(f"{consumers}/pay").json["topics"]["orders"][0]["current-lag"] == 7
    assert client.get(f"/v3/kafka/{CLUSTER}/topic/orders").json["offsets"] == [12]
    assert client.get(f"/v3/kafka/{CLUSTER}/topic/orders/consumers").json["consumers"] == ["pay"]
    assert "orders" in client.get(f"/v3/kafka/{CLUSTER}/topic").json["topics"]
    for unknown in ("/v3/kafka/west/consumer", f"{consumers}/nobody/lag", f"/v3/kafka/{CLUSTER}/topic/none"):
        answer = client.get(unknown)
        assert (answer.status, answer.json.keys()) == (404, {"error", "message", "request"})
        assert answer.json["error"] is True


def test_burrow_has_no_place_for_partitions_that_a_topic_lacks(tmp_path: Path) -> None:
    """Attack: a commit for the greatest partition makes no list of two billion; one of a later known end has gaps."""
    fill(tmp_path, "pay", "orders", "pod-b")
    lag = {"group_id": "pay", "topic": "orders", "sampled_at": AT + MINUTE, "sample_date": AT.date(), "flags": []}
    lag |= {"committed_offset": 5}
    write(tmp_path, "lag", {**lag, "partition": 2, "high_watermark": 9, "lag": 4}, {**lag, "partition": 2**31 - 1})
    with served(tmp_path) as client:
        partitions = client.get(f"/v3/kafka/{CLUSTER}/consumer/pay").json["topics"]["orders"]
    assert [each["current-lag"] for each in partitions] == [7, 0, 4]


@pytest.mark.parametrize(
    ("asked", "status", "message"),
    [
        (path("nobody"), 404, "knows nothing of the group nobody"),
        (path("pays"), 404, "did you mean pay?"),
        ("/api/v1/clusters/west/groups", 404, "it has east"),
        ("/nowhere", 404, "nothing at this path"),
        (path("pay", "?at=soon"), 400, "soon is not a valid time"),
        (path("pay", "/timeline?limit=0"), 400, "limit"),
        (path("pay", "/offsets"), 400, "at"),
        (path("pay", "/incidents?severity=grave"), 400, "info, warning, error"),
        (f"/api/v1/clusters/{CLUSTER}/groups?cursor=xx", 400, "cursor"),
        (f"/clusters/{CLUSTER}/groups/pay?window=9999999d", 400, "at most a year"),
        ("/api/v1/clusters/%FF/groups", 400, "UTF-8"),
        (path("pay", "/offsets?at=2026-01-01"), 400, "coordinator_records"),
    ],
)
def test_what_is_refused(client: Client, asked: str, status: int, message: str) -> None:
    """Goal: errors are problem details that name the remedy."""
    answer = client.get(asked)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert message in answer.json["detail"]


@pytest.mark.parametrize(
    ("asked", "status", "message"),
    [
        (f"/clusters/{CLUSTER}/groups/pays", 404, f'<a href="/clusters/{CLUSTER}/groups/pay">pay</a>'),
        ("/clusters/west", 404, f'<a href="/clusters/{CLUSTER}">{CLUSTER}</a>'),
        (f"/clusters/{CLUSTER}/groups/%3Cb%3E", 404, "of the group &lt;b&gt;"),
        (f"/clusters/{CLUSTER}/groups/pay?at=%3Cb%3E", 400, "&lt;b&gt; is not a valid time"),
        ("/nowhere", 404, "nothing at this path"),
    ],
)
def test_an_error_is_a_page(client: Client, asked: str, status: int, message: str) -> None:
    """Goal: a browser gets an error as a page with the sentence, and with links to similar names."""
    answer = client.get(asked, Accept="text/html,*/*")
    assert (answer.status, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert message in answer.text
    assert "<b>" not in answer.text
    assert answer.text.lower().count("did you mean") <= 1


def test_who_may_ask(client: Client) -> None:
    """Goal: only questions are taken, only by the names of this machine, and a page runs no script but ours."""
    assert client.get("/", Host="evil.example").status == 421
    assert client.get("/livez", Host=f"localhost:{client.port}").status == 200
    assert client.get("/livez", method="POST").status == 405
    policy = client.get(f"/clusters/{CLUSTER}").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert client.get("/static/page.css").headers["x-content-type-options"] == "nosniff"
    assert client.get("/static/..%2Fpages.py").status == 404
    assert client.get("/api/v1/openapi.json").json["openapi"].startswith("3.")


def test_problems_of_the_guards(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: requests that are refused before any question is asked get an answer of the same form, with the headers
    that go with it."""
    refused = [client.get("/livez", method="POST"), client.get("/livez", Host="evil.example")]
    monkeypatch.setattr("groupledger.jobs.serve.slots.Places.every", 0)
    refused.append(client.get("/v3/kafka"))
    for answer, status, title in zip(
        refused, (405, 421, 503), ("Method Not Allowed", "Misdirected Request", "Service Unavailable"), strict=True
    ):
        assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
        assert {**answer.json, "detail": ""} == {"type": "about:blank", "title": title, "status": status, "detail": ""}
        assert answer.json["detail"].endswith(".")
    assert (refused[0].headers["allow"], refused[2].headers["retry-after"]) == ("GET, HEAD", "1")


@pytest.mark.parametrize(
    "asked", ["/", "/livez", f"/clusters/{CLUSTER}", path("pay"), "/nowhere", "/static/page.css", "/v3/kafka"]
)
def test_head(client: Client, asked: str) -> None:
    """Goal: HEAD has the head that GET has, and no body."""
    of_get, of_head = client.get(asked), client.get(asked, method="HEAD")
    assert (of_head.status, of_head.text) == (of_get.status, "")
    assert {**of_head.headers, "date": ""} == {**of_get.headers, "date": ""}


def test_head_of_what_has_no_end(client: Client) -> None:
    """Goal: the head of the stream of events comes, and nobody goes on streaming it."""
    events = f"/api/v1/clusters/{CLUSTER}/events"
    answer = client.get(events, method="HEAD")
    assert (answer.status, answer.text) == (200, "")
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_lag_for_an_autoscaler(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Goal: one number, of a group or of a topic, without what no consumer of the group will work off any more."""
    warehouse = tmp_path_factory.mktemp("scaled")
    fill(warehouse, "g", "orders", "pod-a")
    at = AT + 2 * MINUTE
    row = {"group_id": "g", "status": "ok", "sampled_at": at, "sample_date": at.date(), "flags": []}
    write(
        warehouse,
        "lag",
        {**row, "topic": "orders", "partition": 0, "lag": 9},
        {**row, "topic": "orders", "partition": 1, "lag": None},
        {**row, "topic": "payments", "partition": 0, "lag": 4},
        {**row, "topic": "old", "partition": 0, "lag": 1_000, "flags": [LagFlag.UNSUBSCRIBED]},
    )
    with served(warehouse) as client:
        total = path("g", "/lag/total")
        assert client.get(total).json["lag"] == 13
        assert client.get(f"{total}?topic=orders").json["lag"] == 9
        (listed,) = client.get(f"/api/v1/clusters/{CLUSTER}/groups").json["groups"]
        assert listed["lag_sum"] == 13
        for unknown in ("old", "nowhere"):
            assert client.get(f"{total}?topic={unknown}").status == 400
        assert client.get(f"{total}?no_commit=error").status == 400
        assert client.get(f"{total}?no_commit=perhaps").status == 400
        assert client.get(f"{total}?exclude_persistent=true").json["lag"] == 13


def test_lag_of_partitions_without_a_commit(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Goal: a group that has committed one of three partitions has no lag of 0 for its autoscaler, unless that is asked
    for; and every answer says how many partitions are in no number."""
    warehouse = tmp_path_factory.mktemp("uncommitted")
    fill(warehouse, "g", "orders", "pod-a")
    at = AT + 2 * MINUTE
    row = {"group_id": "g", "topic": "t", "sampled_at": at, "sample_date": at.date(), "owned": True}
    row |= {"log_start_offset": 100, "high_watermark": 300}
    none = {**row, "status": "no_commit", "flags": [LagFlag.NO_COMMIT]}
    committed = {"lag": 0, "committed_offset": 300, "status": "ok", "burrow_status": "OK", "flags": []}
    write(warehouse, "lag", {**row, "partition": 0, **committed}, *({**none, "partition": each} for each in (1, 2)))
    with served(warehouse) as client:
        total = path("g", "/lag/total")
        found = {each: client.get(f"{total}?no_commit={each}") for each in ("earliest", "latest", "none", "error")}
        assert {each: answer.json.get("lag") for each, answer in found.items()} == {
            "earliest": 400,
            "latest": 2,
            "none": 0,
            "error": None,
        }
        assert (found["error"].status, found["none"].json["partitions_without_lag"]) == (400, 2)
        assert client.get(total).json["lag"] == 2
        (listed,) = client.get(f"/api/v1/clusters/{CLUSTER}/groups").json["groups"]
        assert (listed["lag_sum"], listed["partitions_without_lag"], listed["status"]) == (0, 2, "no_commit")
        burrow = client.get(f"/v3/kafka/{CLUSTER}/consumer/g/lag").json["status"]
        assert (burrow["partition_count"], burrow["partitions_without_lag"], burrow["totallag"]) == (1, 2, 0)
        assert "and 2 unknown</span>" in client.get(f"/clusters/{CLUSTER}").text
        cells = '<td class="n">0</td><td class="n">2</td>'
        assert cells in client.get(f"/clusters/{CLUSTER}/groups/g?at=2026-01-01T12:02:00Z&window=1h").text


def test_commit_age_of_a_partition(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Goal: JSON and page say of each partition how long ago it was committed."""
    warehouse = tmp_path_factory.mktemp("ages")
    fill(warehouse, "g", "orders", "pod-a")
    at = AT + 2 * MINUTE
    row = {"group_id": "g", "topic": "orders", "partition": 0, "lag": 5, "status": "ok", "sampled_at": at, "flags": []}
    write(warehouse, "lag", {**row, "sample_date": at.date(), "committed_offset": 7, "committed_at": at - 21 * MINUTE})
    with served(warehouse) as client:
        assert [each["commit_age_ms"] for each in client.get(path("g", "/lag")).json["lag"]] == [1_260_000]
        page = client.get(f"/clusters/{CLUSTER}/groups/g?at=2026-01-01T12:02:00Z&window=1h").text
        assert '<td class="n">5</td><td class="n">21 min</td>' in page


def test_burrow_without_lag(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Goal: a group without commits has its own name; one that has ended is not found, as nobody's is; a commit beyond
    the end of its log is not OK, and in no sum."""
    warehouse = tmp_path_factory.mktemp("burrow")
    fill(warehouse, "first", "orders", "pod-a")
    lives = {"group_type": "classic", "kafka_partition": 7, "first_seen_at": AT, "last_seen_at": AT}
    write(
        warehouse,
        "groups",
        {**lives, "group_id": "no/lag", "is_alive": True},
        {**lives, "group_id": "gone", "is_alive": False},
        {**lives, "group_id": "ahead", "is_alive": True},
    )
    ahead = {"group_id": "ahead", "topic": "t", "partition": 0, "committed_offset": 5_000, "flags": ["ahead_of_log"]}
    ahead |= {"sampled_at": AT + MINUTE, "sample_date": AT.date(), "status": "ahead_of_log", "burrow_status": "REWIND"}
    write(warehouse, "lag", ahead)
    with served(warehouse) as client:
        consumers = f"/v3/kafka/{CLUSTER}/consumer"
        for what in ("status", "lag"):
            found = client.get(f"{consumers}/no%2Flag/{what}")
            assert (found.status, found.json["status"]["group"], found.json["status"]["status"]) == (
                200,
                "no/lag",
                "OK",
            )
            assert found.json["status"]["partition_count"] == 0
        for what in ("", "/status", "/lag"):
            for name in ("gone", "nobody"):
                answer = client.get(f"{consumers}/{name}{what}")
                assert (answer.status, answer.json["error"], "status" in answer.json) == (404, True, False)
        found = client.get(f"{consumers}/ahead/status").json["status"]
        assert (found["status"], found["totallag"], found["maxlag"]) == ("ERR", 0, None)
        assert [(each["status"], each["current_lag"]) for each in found["partitions"]] == [("REWIND", None)]
        for name, words in (("ahead", "lacks the ends"), ("gone", "has ended")):
            total = client.get(path(name, "/lag/total"))
            assert (total.status, words in total.json["detail"]) == (400, True)


def test_a_writer_goes_on(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Goal: rows that are written while it serves are in the next answer, and a warehouse without tables has no
    clusters."""
    warehouse = tmp_path_factory.mktemp("growing")
    with served(warehouse) as client:
        assert client.get("/api/v1/clusters").json == {"clusters": []}
        fill(warehouse, "first", "orders", "pod-a")
        assert client.get(path("first", "/lag")).json["sampled_at"] == "2026-01-01T12:01:00.000Z"
        at = AT + 2 * MINUTE
        row = {"group_id": "first", "topic": "orders", "partition": 0, "lag": 9, "status": "ok", "flags": []}
        write(warehouse, "lag", {**row, "sampled_at": at, "sample_date": at.date()})
        total = client.get(path("first", "/lag/total")).json
        assert total.pop("known_until")["samples"] == "2026-01-01T12:02:00.000Z"
        assert total == {
            "not_known": None,
            "lag": 9,
            "persistent_lag": 0,
            "partitions_without_lag": 0,
            "sampled_at": "2026-01-01T12:02:00.000Z",
        }


def test_events(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a client hears of a round and of an incident that come while it listens; more clients than the bound are
    refused."""
    monkeypatch.setattr("groupledger.jobs.serve.events.POLL_S", 0.1)
    monkeypatch.setattr("groupledger.jobs.serve.events.CLIENTS_MAX", 1)
    warehouse = tmp_path_factory.mktemp("events")
    fill(warehouse, "g", "orders", "pod-a")
    with served(warehouse) as client:
        path_of_events = f"/api/v1/clusters/{CLUSTER}/events"
        assert client.get("/api/v1/clusters/west/events").status == 404
        connection = HTTPConnection("127.0.0.1", client.port, timeout=120)
        connection.request("GET", path_of_events)
        stream = connection.getresponse()
        assert stream.readline().startswith(b": groupledger")
        refused = client.get(path_of_events)
        assert (refused.status, "1 clients listen" in refused.json["detail"]) == (503, True)
        at = AT + 2 * MINUTE
        row = {"group_id": "g", "topic": "orders", "partition": 0, "lag": 9, "status": "ok", "flags": []}
        write(warehouse, "lag", {**row, "sampled_at": at, "sample_date": at.date()})
        write(
            warehouse,
            "incidents",
            {"group_id": "g", "incident_id": "new\n\nevent: x", "kind": "fenced", "severity": "error", "is_open": True}
            | {"episode_id": "e", "first_seen_at": at, "last_seen_at": at},
        )
        reported: dict[str, str] = {}
        while len(reported) < 2:
            line = stream.readline().decode()
            if line.startswith("event: "):
                reported[line.removeprefix("event: ").strip()] = stream.readline().decode()
        connection.close()
    assert set(reported) == {"round", "incident"}
    assert "2026-01-01T12:02:00.000Z" in reported["round"]
    assert json.loads(reported["incident"].removeprefix("data: "))["kind"] == "fenced"
