"""Goal: the first reason that a coordinator gives since the generation before is what started the rebalance."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groupledger.transforms.logs.rules.triggers import NO_TRIGGER, triggers

MEMBER = "m-0b6e3f5e-8f0b-4a55-9a41-3a1f2d9c7e10"
SECOND = 1_000_000


def event(second: float, kind: str, **fields: Any) -> dict[str, Any]:
    names = ("generation", "previous_generation", "member_id", "member_ids", "reason", "client_reason", "trigger")
    return {
        **dict.fromkeys(names),
        "source_file": "server",
        "line_number": round(second * 10),
        "logged_at": round(second * SECOND),
        "kind": kind,
        "is_certain": True,
        **fields,
    }


def preparing(second: float, previous: int, trigger: str = "joined", **fields: Any) -> dict[str, Any]:
    return event(second, "preparing_rebalance", previous_generation=previous, trigger=trigger, **fields)


def left(second: float, client_reason: str | None) -> dict[str, Any]:
    return event(second, "member_left", member_id=MEMBER, client_reason=client_reason)


def rebalance(second: float, generation: int) -> dict[str, Any]:
    return {"to_generation": generation, "happened_at": round(second * SECOND)}


def found(rebalances: list[dict[str, Any]], *events: dict[str, Any]) -> list[Any]:
    return [trigger["trigger"] for trigger in triggers(rebalances, events)]


def test_each_rebalance_has_its_own() -> None:
    """Goal: a reason belongs to the rebalance that followed it, in whatever order the lines come."""
    events = [preparing(1, 4), left(2, None), preparing(5, 5, "session_expired")]
    rows = [rebalance(4, 5), rebalance(6, 6)]
    assert found(rows, *reversed(events)) == ["joined", "session_expired"]
    assert [each["trigger_line_number"] for each in triggers(rows, events)] == [10, 50]


def test_a_new_coordinator_begins_its_own() -> None:
    """Goal: of two rebalances to the same generation, the one counts from which the generation came; an unsynced one is
    not the next generation."""
    events = [preparing(1, 4, "left", member_ids=[MEMBER]), preparing(3, 4)]
    assert found([rebalance(4, 5)], *events) == ["joined"]
    unsynced = [preparing(1, 4), preparing(3, 5, "sync_expired")]
    assert found([rebalance(5, 6)], *unsynced) == ["sync_expired"]


def test_another_incarnation_is_another_group() -> None:
    """Goal: numbers that come back are distinguished by time; where the log was not imported, nothing is claimed."""
    rows = [rebalance(2, 1), rebalance(100, 1), rebalance(200, 1)]
    assert found(rows, preparing(1, 0), preparing(99, 0, "metadata_changed")) == ["joined", "metadata_changed", None]
    assert list(triggers([rebalance(2, 1)], [])) == [NO_TRIGGER]


def test_leaves_by_their_reason() -> None:
    """Goal: the client's reason, from the line before or in the reason itself; an instance id alone is an admin's."""
    leave = preparing(
        2, 4, "left", member_ids=[MEMBER], reason=f"explicit `LeaveGroup` request for ({MEMBER}) members."
    )
    row = [rebalance(3, 5)]
    assert found(row, left(1, "the consumer is being closed"), leave) == ["left"]
    assert found(row, left(1, "consumer poll timeout has expired."), leave) == ["left_poll_timeout"]
    assert found(row, left(1, "member was removed by an admin: broken"), leave) == ["admin_removed"]
    assert found(row, left(1, "the consumer is being closed"), {**leave, "member_ids": [""]}) == ["admin_removed"]
    other = {**leave, "member_ids": ["other"]}
    assert found(row, left(1, "consumer poll timeout has expired."), other) == ["left"]


def test_a_coordinator_that_gives_no_reason() -> None:
    """Goal: before 2.1 the line of the same step says who went; of one that says nothing, it is known when it began."""
    row, begun = [rebalance(3, 5)], event(2, "preparing_rebalance", previous_generation=4)
    failed = event(2, "member_failed", member_id=MEMBER, line_number=19)
    (rows,) = triggers(row, [failed, begun])
    assert (rows["trigger"], rows["trigger_member_ids"], rows["trigger_at"]) == (
        *("session_expired", [MEMBER]),
        2 * SECOND,
    )
    assert found(row, {**left(2, None), "line_number": 19}, begun) == ["left"]
    for events in ([begun], [{**failed, "logged_at": SECOND}, begun], [failed, preparing(2, 3), begun]):
        rows = next(iter(triggers(row, events)))
        assert (rows["trigger"], rows["trigger_reason"], rows["trigger_at"]) == (None, None, 2 * SECOND)


def bumped(second: float, epoch: int) -> dict[str, Any]:
    return event(second, "group_epoch_bumped", generation=epoch)


def fenced(second: float, reason: str = "the member session expired") -> dict[str, Any]:
    return event(second, "consumer_member_fenced", member_id=MEMBER, reason=reason)


def gone(second: float, kind: str = "consumer_member_left") -> dict[str, Any]:
    return event(second, kind, member_id=MEMBER)


def test_left_or_fenced() -> None:
    """Goal: for a consumer group, a line says who left and how, and the next line of the same operation the epoch; the
    records of left and fenced members are the same."""
    row = [rebalance(3, 5)]
    (rows,) = triggers(row, [gone(2.9), bumped(2.9, 5)])
    assert (rows["trigger"], rows["trigger_member_ids"], rows["trigger_line_number"]) == ("left", [MEMBER], 29)
    assert found(row, gone(2.9, "consumer_static_member_left"), bumped(2.9, 5)) == ["left"]
    assert found(row, fenced(2.9), bumped(2.9, 5)) == ["session_expired"]
    assert found(row, gone(2.9, "consumer_member_not_revoking"), bumped(2.9, 5)) == ["rebalance_timeout"]
    slow = "the classic member failed to join within the rebalance timeout"
    assert found(row, fenced(2.9, slow), bumped(2.9, 5)) == ["rebalance_timeout"]
    assert found(row, fenced(2.9, "of what a later version says"), bumped(2.9, 5)) == ["unknown"]


def test_a_departure_of_another_epoch() -> None:
    """Goal: nothing is claimed of an epoch that somebody joined with, of one that no line names, or of one long after,
    as of a share group, whose departures are logged without their epoch."""
    row = [rebalance(3, 5)]
    assert found(row, fenced(2.8), event(2.9, "consumer_member_joined"), bumped(2.9, 5)) == [None]
    assert found(row, fenced(2.8), event(2.9, "share_member_joined"), bumped(2.9, 5)) == [None]
    assert found(row, fenced(2.8), bumped(2.8, 4)) == [None]
    assert found(row, fenced(0.5), bumped(2.9, 5)) == [None]
    assert found(row, bumped(2.9, 5)) == [None]
    assert found(row, fenced(2.9)) == [None]


def tried(rebalances: list[dict[str, Any]], events: list[dict[str, Any]]) -> list[int | None]:
    """The lines of the triggers, by trying every event for every rebalance."""
    waiting = sorted(events, key=lambda each: (each["logged_at"], each["line_number"]))
    lines: list[int | None] = []
    before = None
    for row in rebalances:
        fitting = [
            each
            for each in waiting
            if each["previous_generation"] == row["to_generation"] - 1
            and each["logged_at"] <= row["happened_at"] + SECOND
            and (before is None or each["logged_at"] >= before - SECOND)
        ]
        best = [each for each in fitting if each["logged_at"] <= row["happened_at"]] or fitting
        lines.append(best[-1]["line_number"] if best else None)
        waiting = [each for each in waiting if not best or each is not best[-1]]
        before = row["happened_at"]
    return lines


MOMENTS = st.lists(st.tuples(st.integers(0, 80).map(lambda tenth: tenth / 10), st.integers(1, 2)), max_size=12)


@given(MOMENTS, MOMENTS)
def test_as_by_trying_all(rebalances: list[tuple[float, int]], events: list[tuple[float, int]]) -> None:
    """Goal: for any times the same triggers as by trying every event for every rebalance."""
    rows = [rebalance(second, generation) for second, generation in rebalances]
    begun = [{**preparing(at, generation - 1), "line_number": line} for line, (at, generation) in enumerate(events)]
    assert [each["trigger_line_number"] for each in triggers(rows, begun)] == tried(rows, begun)


def test_a_group_that_comes_and_goes() -> None:
    """Attack: a job that starts and ends each minute, for two months: each rebalance was compared with all of them."""
    seconds = range(0, 60 * 100_000, 60)
    rows = [rebalance(second + 1, 1) for second in seconds]
    events = [preparing(second, 0) for second in seconds]
    lines = [each["trigger_line_number"] for each in triggers(rows, events)]
    assert lines == [each["line_number"] for each in events]
