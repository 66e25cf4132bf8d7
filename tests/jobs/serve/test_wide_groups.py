"""Goal: a group with more partitions than anybody reads has a page of the size of any other, with those that matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from groupledger.jobs.serve.cursors import PLACES_MAX
from groupledger.jobs.serve.group_values import OWNERS_MAX
from groupledger.jobs.serve.lanes import LANES_MAX
from tests.jobs.serve.serving import AT, MINUTE, fill, served, write

if TYPE_CHECKING:
    from pathlib import Path

BEHIND = 1_700
AT_LEAST = 1 << 60
PAGE_BYTES_MAX = 400_000


@pytest.mark.parametrize("count", [600, 2_400])
def test_a_page_is_bounded(tmp_path: Path, count: int) -> None:
    """Goal: a page draws some lanes, and shows the partitions with the most lag and the digits of each offset; it says
    how many it leaves out, and its JSON has them all."""
    fill(tmp_path, "wide", "orders", "m")
    write(tmp_path, "assignments", *(assigned(number) for number in range(1, count)))
    write(tmp_path, "lag", *(sampled(number) for number in range(1, count)))
    with served(tmp_path) as client:
        page = client.get("/clusters/east/groups/wide?at=2026-01-01T12:01:00Z")
        owners = client.get("/api/v1/clusters/east/groups/wide/owners?at=2026-01-01T12:01:00Z")
    assert (page.status, owners.status, len(owners.json["owners"])) == (200, 200, count)
    assert len(page.text) < PAGE_BYTES_MAX
    assert f"{count - OWNERS_MAX:,} with less lag are left out" in page.text
    assert f"{count - LANES_MAX:,} partitions are left out" in page.text
    assert "Capacity, in the hour" not in page.text  # which reads every partition in every round of that hour
    assert page.text.count("<g data-lane>") == LANES_MAX
    assert page.text.count(f">{AT_LEAST + BEHIND:,}</td>") == (count > BEHIND)
    assert page.text.count(f">{AT_LEAST:,}"[:12]) == 2 * (OWNERS_MAX - 1)  # of all but the first partition


OF_PLACES = {"owners": "?at=2026-01-01T12:01:00Z", "": "?at=2026-01-01T12:01:00Z", "lag": "?"}


@pytest.mark.parametrize("route", OF_PLACES)
def test_json_comes_in_pages(tmp_path: Path, route: str) -> None:
    """Goal: an answer has no more rows by partition than a page holds, whatever is asked for; the pages together have
    each partition once, in order."""
    fill(tmp_path, "wide", "orders", "m")
    count = PLACES_MAX + 3
    write(tmp_path, "assignments", *(assigned(number) for number in range(1, count)))
    write(tmp_path, "lag", *(sampled(number) for number in range(1, count)))
    address, name = f"/api/v1/clusters/east/groups/wide/{route}".rstrip("/") + OF_PLACES[route], route or "owners"
    with served(tmp_path) as client:
        first = client.get(address).json
        second = client.get(f"{address}&cursor={first['next']}").json
        few = client.get(f"{address}&limit=2").json
        refused = [client.get(f"{address}&{more}").status for more in (f"limit={PLACES_MAX + 1}", "cursor=bm9uZQ==")]
    assert (len(first[name]), len(second[name]), second["next"]) == (PLACES_MAX, 3, None)
    assert [row["partition"] for row in first[name] + second[name]] == [*range(count)]
    assert {each["count"] for each in (first, second, few)} == {count}
    assert [row["partition"] for row in few[name]] == [0, 1]
    assert refused == [400, 400]


def assigned(number: int) -> dict[str, Any]:
    """An interval of a partition, which no later record has ended."""
    row = {"group_id": "wide", "incarnation": 1, "topic": "orders", "partition": number, "member_id": "m"}
    row |= {"other_member_ids": [], "from_offset": 1, "to_offset": None, "valid_from": AT, "valid_to": None}
    return row | {"is_start_known": True, "is_end_known": False}


def sampled(number: int) -> dict[str, Any]:
    """A row of lag; one partition is far behind, at an offset that no double holds."""
    committed = AT_LEAST + number
    row = {"group_id": "wide", "topic": "orders", "partition": number, "sampled_at": AT + MINUTE, "flags": []}
    row |= {"sample_date": AT.date(), "burrow_status": "OK", "status": "ok", "owner": "m"}
    lag = 9 if number == BEHIND else 3
    return row | {"lag": lag, "committed_offset": committed, "high_watermark": committed + lag}
