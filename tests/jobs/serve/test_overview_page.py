"""Goal: the overview has the newest trouble on top, finds what is searched for, and costs the same for any number of
groups."""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.serve.axis import Window, ticks
from groupledger.jobs.serve.strips import picture
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, Client, fill, served, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

OVERVIEW = f"/clusters/{CLUSTER}"
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    warehouse = tmp_path_factory.mktemp("overview")
    fill(warehouse, "pay", "orders", "pod-b")
    group = {"group_type": "classic", "kafka_partition": 7, "incarnation": 1, "first_seen_at": AT}
    ended = {**group, "group_id": "gone", "is_alive": False, "last_seen_at": AT + MINUTE}
    write(warehouse, "groups", ended, {**group, "group_id": "quiet", "is_alive": True, "last_seen_at": AT})
    member = {
        "group_id": "gone",
        "incarnation": 1,
        "member_id": "m",
        "client_id": "nightly",
        "client_host": "/10.9.9.9",
    }
    write(
        warehouse,
        "members",
        {**member, "client_host": "/10.9.9.9", "is_open": 0, "joined_at": AT, "left_at": AT + MINUTE},
    )
    with served(warehouse) as found:
        yield found


def names(page: str) -> list[str]:
    """Returns the groups of the list, in its order."""
    return re.findall(r'<td class="name"><a href="[^"]*">([^<]*)</a>', page)


def test_trouble_on_top(client: Client) -> None:
    """Goal: a group in trouble comes first, with its trouble and a link to that time; a group that ended quietly is
    left out."""
    page = client.get(OVERVIEW).text
    assert names(page) == ["pay", "quiet"]
    assert f'<a class="worst warning" href="{OVERVIEW}/groups/pay?at=2026-01-01T12%3A05%3A00.000Z">' in page
    assert f'href="{OVERVIEW}/incidents?severity=warning">1</a>' in page
    assert names(client.get(f"{OVERVIEW}?all=true").text) == ["pay", "quiet", "gone"]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("q=gon", ["gone"]),
        ("q=nightly", ["gone"]),
        ("q=10.9", ["gone"]),
        ("host=10.9.9.9", ["gone"]),
        ("client=nightly", ["gone"]),
        ("topic=none", []),
        ("status=growing", ["pay"]),
        ("sort=group", ["pay", "quiet"]),
        ("sort=-group", ["quiet", "pay"]),
        ("sort=-lag", ["pay", "quiet"]),
    ],
)
def test_search_and_order(client: Client, asked: str, found: list[str]) -> None:
    """Goal: groups are found by their names, clients, hosts and topics, also those that ended, and in any order."""
    assert names(client.get(f"{OVERVIEW}?{asked}").text) == found


@pytest.mark.parametrize(("path", "label"), [("", "Groups"), ("/incidents", "Incidents")])
def test_where_one_is(client: Client, path: str, label: str) -> None:
    """Goal: each list of the cluster is linked from each page, and the page that one is on is marked."""
    page = client.get(OVERVIEW + path).text
    assert re.findall(r'<a href="([^"]*)" aria-current="page">([^<]*)<', page) == [(OVERVIEW + path, label)]
    assert f'href="{OVERVIEW}/audit"' in page


def test_windows(client: Client) -> None:
    """Goal: a window of the past has the groups and incidents of that time; a text that is no window or no order is
    refused."""
    early = client.get(f"{OVERVIEW}?window=15m&until=2026-01-01T12:03:00Z").text
    assert "No incident in this time." in early
    assert client.get(f"{OVERVIEW}?window=soon").status == 400
    assert client.get(f"{OVERVIEW}?sort=colour").status == 400


def test_the_cost_of_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a page of 1,100 groups has a hundred rows, and takes as many scans of tables as one of 110."""
    scans: Counter[str] = Counter()
    scan = ClusterRows._scan

    def counted(self: ClusterRows, table: str, *others: Any) -> Any:
        scans[table] += 1
        return scan(self, table, *others)

    monkeypatch.setattr(ClusterRows, "_scan", counted)
    found = []
    for first, last in ((0, 110), (110, 1_100)):
        write(tmp_path, "groups", *(group(number) for number in range(first, last)))
        write(tmp_path, "lag", *(sampled(number) for number in range(first, last)))
        write(tmp_path, "coverage", {"kafka_partition": 7, "completeness": "complete", "to_time": AT + last * MINUTE})
        scans.clear()
        with served(tmp_path) as client:
            page = client.get(f"{OVERVIEW}?page=2").text if first else client.get(OVERVIEW).text
        assert len(names(page)) == 100
        found.append(scans.total())
    assert found[0] == found[1]


def group(number: int) -> dict[str, Any]:
    row = {"group_id": f"g-{number}", "group_type": "classic", "is_alive": True, "kafka_partition": 7}
    return row | dict.fromkeys(("first_seen_at", "last_seen_at"), AT)


def sampled(number: int) -> dict[str, Any]:
    row: dict[str, Any] = {"group_id": f"g-{number}", "topic": "t", "partition": 0, "status": "ok", "flags": []}
    return row | {"sampled_at": AT, "sample_date": AT.date(), "lag": number}


def test_a_strip(tmp_path: Path) -> None:
    """Goal: a status holds until the next one, not over missing ones; the time before and after a group looks
    different."""
    write(tmp_path, "coverage", {"kafka_partition": 7, "completeness": "complete", "to_time": AT + 2 * HOUR})
    for minute, status in ((0, "ok"), (5, "ok"), (10, "stalled"), (15, "ok"), (60, "ok")):
        write(tmp_path, "lag", sampled(1) | {"sampled_at": AT + minute * MINUTE, "status": status})
    happened = {"group_id": "g-1", "happened_at": AT + 10 * MINUTE, "changes": []}
    born = {"group_id": "g-1", "happened_at": AT, "changes": [{"kind": "group_started"}]}
    write(tmp_path, "rebalances", happened, born)
    incident = {"group_id": "g-1", "first_seen_at": AT + 10 * MINUTE, "last_seen_at": AT + 40 * MINUTE}
    incident |= {"severity": "error", "kind": "k", "explanation": "Broken."}
    row = group(1) | {"is_alive": False, "last_seen_at": AT + 90 * MINUTE}
    window = Window(AT - HOUR, AT + 2 * HOUR)
    strip = picture(ClusterRows(str(tmp_path), CLUSTER), window, [row], [incident], []).strips["g-1"]
    reported = [(each.style, minutes(each.since), minutes(each.until)) for each in strip.statuses]
    assert reported[:2] == [("not_born", -60, 0), ("ended", 90, 120)]
    assert [each[0] for each in reported[2:]] == ["ok", "stalled", "ok", "ok"]
    assert reported[2][1:] == (0, 10)
    assert reported[4][2] < 40
    assert [minutes(each.since) for each in strip.rebalances] == [10]
    assert [(each.style, each.x, each.width) for each in strip.incidents] == [("error", 38.89, 16.67)]


def minutes(at: datetime) -> int:
    return round((at - AT) / MINUTE)


@pytest.mark.parametrize(
    ("lasts", "texts"),
    [
        (timedelta(minutes=1), ["1 Jan 12:00", "12:00:10", "12:00:20", "12:00:30", "12:00:40", "12:00:50"]),
        (timedelta(days=1), ["1 Jan 12:00", "18:00", "21:00", "2 Jan", "03:00", "06:00", "09:00"]),
        (timedelta(days=7), ["2 Jan", "3 Jan", "4 Jan", "5 Jan", "6 Jan", "7 Jan", "8 Jan"]),
    ],
)
def test_ticks(lasts: timedelta, texts: list[str]) -> None:
    """Goal: ticks are on round times, with a date at the beginning and where a day begins."""
    assert [each.text for each in ticks(Window(AT, AT + lasts))] == texts
