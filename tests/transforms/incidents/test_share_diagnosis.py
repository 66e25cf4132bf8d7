"""Goal: the diagnosis of a share group says what its state proves, and nothing that is only true of groups that
commit."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from groupledger.transforms.incidents.diagnosis.deliveries import share_rounds, sums_of
from groupledger.transforms.incidents.diagnosis.diagnose import diagnoses
from groupledger.transforms.incidents.diagnosis.evidence import DiagnosisRows
from tests.transforms.incidents.group_rows import AT, MINUTE, member

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
THERE = [member("m0", -9, None)]


def a_pass(minutes: float, start: int | None, end: int, **fields: Any) -> dict[str, Any]:
    row = {"sampled_at": AT + minutes * MINUTE, "topic": "orders", "partition": 0, "start_offset": start}
    lag = None if start is None else end - start
    return row | {"delivery_complete_count": 0, "high_watermark": end, "lag": lag} | fields


def delivery(minutes: float, first: int, last: int, state: int, count: int) -> dict[str, Any]:
    row = {"happened_at": AT + minutes * MINUTE, "topic": "orders", "partition": 0, "first_offset": first}
    return row | {"last_offset": last, "delivery_state": state, "delivery_count": count}


def found(members: list[dict[str, Any]], *passes: dict[str, Any], **rows: Any) -> list[dict[str, Any]]:
    shared = share_rounds(passes, members)
    tenures = members if all(row["left_at"] is not None for row in members) else ()
    return diagnoses(
        DiagnosisRows(
            group_type="share",
            members=members,
            tenures=tenures,
            rounds=sums_of(shared),
            lag_at=lambda at: shared[at],
            known_until=AT + 9 * MINUTE,
            **rows,
        )
    )


STANDS = [a_pass(at, 50, 90 + at) for at in (0, 3, 6)]
GROWS = [a_pass(at, 50 + 2 * at, 90 + 9 * at) for at in (0, 3, 6)]


def test_records_that_were_given_up() -> None:
    """Goal: records that the brokers gave up are counted, with the number of deliveries; the start goes on
    meanwhile."""
    given = [delivery(n, n, n, state, 5) for n in range(3) for state in (ACKNOWLEDGED, ARCHIVED)]
    again = [delivery(n / 2, n, n, AVAILABLE, n + 1) for n in range(4)]
    (only,) = found(THERE, *(a_pass(at, 90, 90) for at in (0, 3)), deliveries=[*given, *again])
    assert (only["cause"], only["severity"], only["beside"]) == ("records_given_up", "error", ["deliveries_fail"])
    assert (only["never_read_max"], only["duplicates_max"]) == (3, 3)
    assert (
        "3 records, most of them of orders 0, were given up after they had been delivered up to 5 times"
        in (only["explanation"])
    )
    assert only["sources"] == ["share state", "topic"]


def test_records_that_were_rejected() -> None:
    (only,) = found(THERE, deliveries=[delivery(1, 7, 9, ARCHIVED, 1)])
    assert "at their first delivery: members rejected them" in only["explanation"]
    assert only["never_read_max"] == 3


def test_deliveries_that_fail_again_and_again() -> None:
    """Goal: a group that stands still since its deliveries fail has one diagnosis, with both symptoms' time and
    harm."""
    deliveries = [delivery(n / 2, 50, 53, AVAILABLE, n + 1) for n in range(1, 4)]
    (only,) = found(THERE, *STANDS, deliveries=deliveries)
    assert (only["cause"], only["records_behind"], only["severity"]) == ("deliveries_fail", 46, "warning")
    assert "delivered up to 4 times" in only["explanation"]
    assert "group.share.record.lock.duration.ms" in only["setting_to_change"]


def test_one_release_is_none() -> None:
    """Goal: a member that closes gives back what it holds, and that alone is nothing."""
    assert found(THERE, *(a_pass(at, 90, 90) for at in (0, 3)), deliveries=[delivery(1, 7, 9, AVAILABLE, 1)]) == []


@pytest.mark.parametrize(
    ("left", "cause"), [("left", "members_left"), ("session_expired", "members_expired")], ids=["left", "expired"]
)
def test_nobody_is_left(left: str, cause: str) -> None:
    """Goal: a share group whose members are gone while records wait is an error, with its last member and the time
    since then."""
    (only,) = found([member("m0", -9, -2, left)], *STANDS)
    assert (only["cause"], only["severity"], only["client_id"]) == (cause, "error", "m0")
    assert only["since"] == AT - 2 * MINUTE
    assert "46 records wait, and nobody reads them" in only["explanation"]


def test_members_that_acknowledge_nothing() -> None:
    """Goal: nothing proves why, and no cause is named that only a group with commits has."""
    (only,) = found(THERE, *STANDS)
    assert only["cause"] is None
    assert {each["cause"] for each in only["rivals"]} == {"acknowledges_nothing", "waits_for_shared_transaction"}
    assert only["symptom"] == "no_progress"


def test_producers_are_faster() -> None:
    (only,) = found(THERE, *GROWS)
    assert only["cause"] == "shares_too_slowly"
    assert "more of them than partitions help" in only["advice"]


def test_nothing_is_wrong_or_known() -> None:
    """Goal: a group that keeps up has no diagnosis, nor has one of whose partition nothing was ever read."""
    assert found(THERE, *(a_pass(at, 90 + at, 90 + at) for at in (0, 3, 6))) == []
    assert found(THERE, *(a_pass(at, None, 90 + at) for at in (0, 3, 6))) == []
    assert found(THERE, a_pass(0, 50, 90)) == []


def test_what_is_done_out_of_order_is_progress() -> None:
    """Goal: the start stays at a record that is still locked, and the later records are done: that is no standstill."""
    passes = [a_pass(at, 50, 90 + at, delivery_complete_count=10 + at, lag=30) for at in (0, 3, 6)]
    assert found(THERE, *passes) == []


@pytest.mark.parametrize("group_type", ["classic", "consumer", "streams"])
def test_other_groups_have_no_deliveries(group_type: str) -> None:
    """Goal: a diagnosis of another type of group does not use the signs of share groups."""
    rows = DiagnosisRows(group_type=group_type, members=THERE, known_until=AT + timedelta(hours=1))
    assert diagnoses(rows) == []
