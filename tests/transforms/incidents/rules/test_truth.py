"""The incidents beside the simulator's truth, for one seed; `bench.incident_accuracy` has the others."""

from __future__ import annotations

from functools import cache

import pytest

from groupledger.transforms.incidents.rules import incidents
from lab.truth.faults import CLEAN, LONG_FAULTS, NORMAL_LIFE, Played, only_topic, play
from lab.truth.made import RULES
from lab.truth.scores import (
    alarms,
    expected_refusals,
    judged_inferred,
    observed_refusals,
    observed_removals,
)

pytestmark = pytest.mark.slow

SEED = 7
PLANTED = ("long-gc", "slow-processing", "zombie-commits", "flapping-member", "admin-reset")
ROOTS = {
    "long-gc": {"session_expired"},
    "slow-processing": {"poll_timeout_exceeded"},
    "zombie-commits": {"instance_started_twice", "session_expired", "stale_generation_kept"},
    "flapping-member": {"rebalance", "restart"},
    "admin-reset": {"admin_reset"},
}


@cache
def planted() -> list[Played]:
    return play(*PLANTED, seed=SEED)


def test_observed_is_precise_and_complete() -> None:
    """Goal: every refusal and removal of the truth is seen, and nothing else."""
    for played in planted():
        assert observed_refusals(played) == expected_refusals(played)
        expected, found, _ = observed_removals(played)
        assert found == expected


def test_each_fault_is_one_episode() -> None:
    """Goal: every planted fault has its root once, with one incident for each kind."""
    for played in planted():
        rows = [row for row in incidents(played.facts, RULES) if row["severity"] != "info"]
        episodes = {row["episode_id"]: row["probable_root"] for row in rows}
        assert set(episodes.values()) <= ROOTS[played.name]
        assert len(episodes) == (3 if played.name == "zombie-commits" else 1), played.name
        assert len({(row["episode_id"], row["kind"]) for row in rows}) == len(rows)
        assert len({row["incident_id"] for row in rows}) == len(rows)


def test_inferred_from_the_topic_alone() -> None:
    """Goal: nearly all claims without a log are true, and nearly all incidents that can be known are claimed."""
    judged = [each for played in planted() for each in judged_inferred(played)]
    right = sum(each.is_true and each.is_claimed for each in judged)
    assert right >= 0.85 * sum(each.is_claimed for each in judged)
    assert right >= 0.85 * sum(each.is_true for each in judged)


def test_clean_runs_raise_no_alarm() -> None:
    """Goal: scaling, rolling restarts and upgrades, eager, cooperative and static, are nothing above severity info."""
    for played in play(*CLEAN, seed=SEED):
        assert alarms(played.facts) == [], played.name
        assert alarms(only_topic(played.facts)) == [], played.name


def test_normal_life_is_no_incident() -> None:
    """Goal: jobs that run each minute or every ten, topics that rest for an hour, and a rebalance within a member's
    time raise no alarm; idle topics not even a row of severity info, and the jobs one: after the last run no consumer
    comes for the waiting records."""
    for played in play(*NORMAL_LIFE, seed=SEED):
        expected = [("group_without_members", "info")] if played.name.startswith("job-") else []
        for facts in (played.facts, only_topic(played.facts)):
            assert alarms(facts) == [], played.name
            rows = [(row["kind"], row["severity"]) for row in incidents(facts, RULES)]
            assert played.name == "slow-rebalance" or rows == expected, played.name


def test_harm_is_reported() -> None:
    """Goal: a job that dies each time it runs, and a group that hangs in a rebalance while records wait, are
    distinguished from the topic and the samples alone."""
    crashes, stuck = (only_topic(played.facts) for played in play(*LONG_FAULTS, seed=SEED))
    assert {"member_flapping", "rebalance_storm"} <= {row["kind"] for row in incidents(crashes, RULES)}
    (row,) = [row for row in incidents(stuck, RULES) if row["kind"] == "rebalance_stuck"]
    assert (row["severity"], row["setting_to_change"]) == ("error", "max.poll.interval.ms")
    assert row["last_seen_at"] - row["first_seen_at"] > 50 * 60_000_000
