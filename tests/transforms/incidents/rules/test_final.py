"""Goal: the incidents that are not final are the same, whether the rules have all of a group's past or only what did
not end before the time that a pass reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.transforms.incidents.rules import incidents
from groupledger.transforms.incidents.rules.facts import CommitStep
from lab.truth.made import RULES, T, commit, facts, request
from tests.transforms.incidents.rules.long_past import HOUR, group_with_a_past

if TYPE_CHECKING:
    from groupledger.transforms.incidents.rules import GroupFacts

HOUR_MS, DAYS = 3_600_000, 40


def read_since(group: GroupFacts, since_ms: int) -> GroupFacts:
    """Returns the facts as `jobs.derive.reach` reads them."""
    since_us = since_ms * 1_000

    def open_or_ended_since(rows: list[dict[str, Any]], end: str) -> list[dict[str, Any]]:
        return [row for row in rows if row[end] is None or row[end] >= since_us]

    return replace(
        group,
        generations=open_or_ended_since(group.generations, "ended_at"),
        members=open_or_ended_since(group.members, "left_at"),
        assignments=open_or_ended_since(group.assignments, "valid_to"),
        rebalances=[row for row in group.rebalances if row["happened_at"] >= since_us],
        steps=[step for step in group.steps if step.next_commit is None or step.next_commit.at_ms >= since_ms],
        requests=[each for each in group.requests if each.happened_at_ms >= since_ms],
        events=[each for each in group.events if each.logged_at_ms >= since_ms],
        commits=[each for each in group.commits if each.at_ms >= since_ms],
        stretches=[each for each in group.stretches if each.last_ms >= since_ms],
        held=[each for each in group.held if each.until_ms >= since_ms],
        lag_stretches=[each for each in group.lag_stretches if each.until_ms >= since_ms],
        offset_events=[each for each in group.offset_events if each.at_ms >= since_ms],
        returns=[each for each in group.returns if each.lost_at_ms >= since_ms],
    )


def not_final(group: GroupFacts, final_ms: int) -> dict[str, dict[str, Any]]:
    rows = incidents(group, RULES)
    episodes = {row["episode_id"] for row in rows if row["is_open"] or row["last_seen_at"] >= final_ms * 1_000}
    return {row["incident_id"]: row for row in rows if row["episode_id"] in episodes}


@pytest.fixture(scope="module")
def group() -> GroupFacts:
    found = group_with_a_past(24 * DAYS)
    for row in found.members:
        row["to_generation"] = 20 * (row["from_offset"] // HOUR) + 1
    return found


@pytest.mark.parametrize("hours", [24 * 7, 24 * 3, 24, 13])
def test_the_past_before_what_is_read_changes_nothing(group: GroupFacts, hours: int) -> None:
    """Goal: a day, the shortest that the settings allow, is enough, and so are thirteen hours."""
    after_ms = hours * HOUR_MS
    final_ms = group.as_of_ms - after_ms
    found = not_final(read_since(group, final_ms - after_ms), final_ms)
    assert found == not_final(group, final_ms)
    assert len({row["kind"] for row in found.values()}) >= 15


def test_a_refused_commit_of_a_partition_that_was_idle() -> None:
    """Goal: how much may be processed twice is known from the last accepted commit, be it of long ago: the step that
    it began is read."""
    days_s = 40 * 24 * 3_600
    refused_ms = T + days_s * 1_000
    refusal = request("OFFSET_COMMIT", 22, refused_ms, "m-2", generation=4, offsets=[(0, 250)])
    last, following = commit(100, T + 60_000, 60), commit(300, refused_ms + 60_000, days_s + 60)
    known = facts(requests=[refusal], commits=[last, following], as_of_ms=refused_ms + 120_000)
    step = CommitStep(commit=last, next_commit=following, interval_ms=None)
    shorter = replace(read_since(known, refused_ms - 24 * HOUR_MS), steps=[step])
    assert shorter.commits == [following]
    of_all, of_some = (incidents(each, RULES) for each in (known, shorter))
    assert of_all[0]["partitions"][0]["last_accepted_offset"] == 100
    assert of_all == of_some
