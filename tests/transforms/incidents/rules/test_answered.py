"""Goal: a refusal that a client recovers from at once is not reported, and any other one is."""

from __future__ import annotations

from typing import Any

import pytest

from groupledger.transforms.incidents.rules import Request, incidents
from lab.truth.made import RULES, T, facts, request

STALE, UNRELEASED = 113, 111
AT = T + 60_000


def reported(*requests: Request, **parts: Any) -> list[tuple[str, str, int]]:
    rows = incidents(facts(requests=[*requests], **parts), RULES)
    return [(row["kind"], row["severity"], row["occurrences"]) for row in rows]


def commit(error_code: int, after_ms: int = 0, member_id: str = "m-2", *offsets: tuple[int, int]) -> Request:
    return request("OFFSET_COMMIT", error_code, AT + after_ms, member_id, offsets=offsets or [(0, 120)])


def test_a_commit_that_is_repeated_with_the_new_epoch() -> None:
    """Goal: the epoch rose on a commit's way, and the member committed again, or had got as far: nothing was lost."""
    assert reported(commit(STALE), commit(0, 5)) == []
    assert reported(commit(STALE), commit(STALE, 100), commit(0, 59_000, "m-2", (0, 130))) == []
    assert reported(commit(STALE), commit(0, -5)) == []


@pytest.mark.parametrize(
    "later",
    [
        [],
        [commit(0, 5, "m-3")],
        [commit(0, 5, "m-2", (0, 119))],
        [commit(0, 5, "m-2", (1, 130))],
        [commit(0, 60_001)],
        [commit(0, -5, "m-2", (0, 119))],
    ],
    ids=["never", "another member", "less far", "another partition", "a minute later", "less far before"],
)
def test_a_commit_that_is_not_repeated(later: list[Request]) -> None:
    """Goal: records that their member processed and never committed are processed again."""
    assert reported(commit(STALE), *later) == [("stale_member_epoch", "error", 1)]


def test_all_partitions_of_a_commit_count() -> None:
    """Goal: a refused commit of two partitions is repaired only when both partitions are committed again."""
    both = commit(STALE, 0, "m-2", (0, 120), (1, 7))
    assert reported(both, commit(0, 5)) == [("stale_member_epoch", "error", 1)]
    assert reported(both, commit(0, 5), commit(0, 9, "m-2", (1, 7))) == []


def test_a_fetch_under_an_old_epoch() -> None:
    """Goal: a member that asks for its offsets under an epoch that is over asks again, and that is nothing."""
    assert reported(request("OFFSET_FETCH", STALE, AT, "m-2")) == []


def join(error_code: int, after_ms: int, instance_id: str = "i") -> Request:
    member_id = f"process-{after_ms}"
    who = {"group_instance_id": instance_id, "generation": 0}
    return request("CONSUMER_GROUP_HEARTBEAT", error_code, AT + after_ms, member_id, **who)


def test_an_instance_that_is_started_again() -> None:
    """Goal: a static member that crashed is refused until its old session ends, and then joins: that is normal."""
    assert reported(join(UNRELEASED, 0), join(UNRELEASED, 20_000), join(0, 46_000)) == []


def test_an_instance_that_does_not_come_in() -> None:
    """Goal: one that is refused for longer than a session, or gives up, does not work: two have one instance id."""
    crashing = [join(UNRELEASED, seconds * 1_000) for seconds in range(0, 300, 20)]
    assert reported(*crashing) == [("unreleased_instance_id", "error", 15)]
    assert reported(join(UNRELEASED, 0)) == [("unreleased_instance_id", "error", 1)]
    assert reported(join(UNRELEASED, 0), join(0, 5_000, "another")) == [("unreleased_instance_id", "error", 1)]
    # The other process joined before, although the times of a busy broker say after.
    assert reported(join(0, 3), join(UNRELEASED, 0)) == [("unreleased_instance_id", "error", 1)]
    (row,) = incidents(facts(requests=[join(UNRELEASED, 0)]), RULES)
    assert (row["group_instance_id"], row["probable_root"]) == ("i", "instance_started_twice")
    assert row["stale_since_generation"] is None  # a member that joins claims no epoch


def test_what_may_still_be_mended_is_not_reported() -> None:
    """Goal: nothing is reported that the next lines of the log may show to be normal."""
    assert reported(commit(STALE), as_of_ms=AT + 59_999) == []
    assert reported(commit(STALE), as_of_ms=AT + 60_000) == [("stale_member_epoch", "error", 1)]
    assert reported(join(UNRELEASED, 0), as_of_ms=AT + 59_999) == []
