"""Goal: every scenario does what it says, records the truth about it, and leaves what a broker would leave."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.groups.classic.group import Group
from groupledger.coordinator.model.groups.classic.states import State
from groupledger.coordinator.model.operation import Batch
from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import SCENARIOS
from groupledger.coordinator.simulator.scenarios.day import OF_A_DAY, SINGLE
from groupledger.schemas.codec.records import decode_record, encode_record
from tests.coordinator import fold

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.coordinator.simulator.conftest import Played

    Play = Callable[[str], Played]

pytestmark = pytest.mark.slow

NAMES = [scenario.name for scenario in SINGLE]
JOINED = ("joined", ("member_joined",))
STARTED = (1, "joined", ("group_started",))
FOLLOW_UP = ("cooperative_follow_up",)


def captured(played: Played) -> list[Batch]:
    """The capture's rows, decoded from their bytes, a batch for each as a loading broker takes them."""
    rows = []
    for batch in played.outputs.batches:
        for offset, record in enumerate(batch.records, batch.base_offset):
            decoded = decode_record(*encode_record(record))
            assert decoded == record
            rows.append(
                Batch(
                    partition=batch.partition, base_offset=offset, timestamp_ms=batch.timestamp_ms, records=(decoded,)
                )
            )
    return rows


# Of every scenario


@pytest.mark.parametrize("name", NAMES)
def test_capture_folds_to_the_durable_state(play: Play, name: str) -> None:
    """Goal: the capture decodes without an error, and a coordinator that loads it knows the groups and offsets of the
    simulated coordinators."""
    played = play(name)
    brokers = played.simulation.brokers
    rows = captured(played)
    assert rows
    for partition in sorted({row.partition for row in rows}):
        loaded = Coordinator(brokers.config)
        loaded.load(partition, [row for row in rows if row.partition == partition], now_ms=played.simulation.now_ms)
        live, of_log = brokers.coordinators[brokers.leaders[partition]].shard(partition), loaded.shard(partition)
        assert live is not None
        assert of_log is not None
        assert fold._offsets(live.offsets)["committed"] == fold._offsets(of_log.offsets)["committed"]
        assert [*live.groups] == [*of_log.groups]
        for group_id, group in live.groups.items():
            folded = of_log.groups[group_id]
            assert isinstance(group, Group)
            assert isinstance(folded, Group)
            fold._assert_group_is_fold(group, folded)


@pytest.mark.parametrize("name", NAMES)
def test_truth_agrees_with_the_coordinator_and_the_consumers(play: Play, name: str) -> None:
    """Goal: at the end the open rows agree with the coordinator's group, and with what its consumers own."""
    played = play(name)
    (group_id,) = played.simulation.group_ids
    brokers = played.simulation.brokers
    broker = brokers.coordinator_of(group_id)
    assert broker is not None
    group = brokers.coordinators[broker].group(group_id)
    current = [row for row in played.truth.generations if row.ended_at_ms is None]
    present = {row.member_id for row in played.truth.members if row.leave_cause is None}
    if group is None:
        assert (current, present) == ([], set())
        return
    assert group.state in (State.STABLE, State.EMPTY)
    (generation,) = current
    assert (generation.generation, generation.leader) == (group.generation_id, group.leader_id)
    assert set(generation.member_ids) == present == set(group.members)
    owned = {(row.member_id, row.topic, row.partition) for row in played.truth.owners if row.valid_to_ms is None}
    assert owned == {
        (consumer.member_id, *place)
        for application in played.applications
        if (consumer := application.consumer) is not None
        for place in consumer.assignment
    }


@pytest.mark.parametrize("name", NAMES)
def test_invariants(play: Play, name: str) -> None:
    """Goal: one owner at a time; keys are unique; generations grow within an incarnation; records lie in log order."""
    truth = play(name).truth
    for rows in (truth.generations, truth.causes):
        assert rows
    keys = [(row.incarnation, row.generation, row.revision) for row in truth.generations]
    assert keys == sorted(set(keys), key=lambda key: (key[0], key[1], -1 if key[2] is None else key[2]))
    offsets = [row.kafka_offset for row in truth.generations if row.kafka_offset is not None]
    assert offsets == sorted(set(offsets))
    for row in truth.generations[:-1]:
        assert row.ended_at_ms is not None
        assert row.ended_at_ms >= row.started_at_ms
    until: dict[Any, int | None] = {}
    for owner in truth.owners:
        place = (owner.incarnation, owner.topic, owner.partition)
        end = until.get(place, owner.valid_from_ms)
        assert end is not None
        assert end <= owner.valid_from_ms
        until[place] = owner.valid_to_ms


# Each by itself


def test_scale_out(play: Play) -> None:
    """Goal: two members, then three, then five; the two that come together cause one rebalance."""
    played = play("scale-out")
    assert [members for *_, members in played.generations()] == [0, 2, 3, 5]
    assert played.triggers() == [STARTED, (2, *JOINED), (3, *JOINED)]
    assert played.refusals() == []


def test_scale_in(play: Play) -> None:
    """Goal: the group shrinks from five members to four and two; no member is refused, and no partition of a member
    that stays moves away from it."""
    played = play("scale-in")
    assert [members for *_, members in played.generations()] == [0, 5, 4, 2]
    assert [trigger for _, trigger, _ in played.triggers()] == ["joined", "left", "left"]
    assert all("member_left" in (changes or ()) for _, _, changes in played.triggers()[1:])
    assert Counter(played.leave_causes()) == {"left": 3, None: 2}
    stayed = {row.member_id for row in played.truth.members if row.leave_cause is None}
    assert all(row.valid_to_ms is None for row in played.truth.owners if row.member_id in stayed)


def test_rolling_restart(play: Play) -> None:
    """Goal: each of three restarts costs two rebalances, one as it leaves and one as it comes back."""
    played = play("rolling-restart")
    assert [trigger for _, trigger, _ in played.triggers()] == ["joined", *["left", "joined"] * 3]
    assert Counter(played.leave_causes()) == {"left": 3, None: 3}
    assert played.refusals() == []


def test_rolling_restart_static(play: Play) -> None:
    """Goal: no rebalance after the first, three revisions of generation 1, and ownership passes to the new ids."""
    played = play("rolling-restart-static")
    assert played.generations() == [(1, 0, 0, 0), (1, 1, 0, 3), (1, 1, 1, 3), (1, 1, 2, 3), (1, 1, 3, 3)]
    assert played.triggers() == [STARTED]
    assert Counter(played.leave_causes()) == {"replaced": 3, None: 3}
    assert Counter((row.from_generation, row.to_generation) for row in played.truth.owners) == {(1, 1): 12}


def test_crash(play: Play) -> None:
    """Goal: the session ends within 45 s of the last heartbeat, and not before it could."""
    played = play("crash")
    assert [trigger for _, trigger, _ in played.triggers()] == ["joined", "session_expired", "joined"]
    expired = played.truth.causes[1]
    assert 45_000 - 3_100 <= expired.started_at_ms - played.action_ms("crash") <= 45_000
    assert expired.planted == "crash"
    assert Counter(played.leave_causes()) == {"session_expired": 1, None: 3}
    assert played.refusals() == []


def test_long_gc(play: Play) -> None:
    """Goal: one session_expired, and one episode of refusals when the process wakes up."""
    played = play("long-gc")
    assert [trigger for _, trigger, _ in played.triggers()] == ["joined", "session_expired", "joined"]
    assert Counter(played.leave_causes()) == {"session_expired": 1, None: 3}
    assert set(played.refusals()) == {
        ("OFFSET_COMMIT", "UNKNOWN_MEMBER_ID", "long_gc"),
        ("HEARTBEAT", "UNKNOWN_MEMBER_ID", "long_gc"),
    }
    (victim,) = {row.member_id for row in played.truth.rejections}
    assert victim == next(row.member_id for row in played.truth.members if row.leave_cause is not None)
    times = [row.requested_at_ms for row in played.truth.rejections]
    assert max(times) - min(times) < 1_000
    assert {(row.claimed_generation, row.current_generation) for row in played.truth.rejections} == {(1, 2)}
    commits = [row for row in played.truth.rejections if row.api == "OFFSET_COMMIT"]
    assert all(len(row.partitions) == len(row.offsets) == 2 for row in commits)


def test_slow_processing(play: Play) -> None:
    """Goal: the client leaves after max.poll.interval.ms, and joins again once its batch is done."""
    played = play("slow-processing")
    assert [trigger for _, trigger, _ in played.triggers()] == [
        "joined",
        "left_poll_timeout",
        "joined",
        "metadata_changed",
    ]
    assert played.truth.causes[-1].changes == FOLLOW_UP
    assert Counter(played.leave_causes()) == {"left_poll_timeout": 1, None: 3}
    waited_ms = played.truth.causes[1].started_at_ms - played.action_ms("slow_processing")
    assert 300_000 - 6_000 <= waited_ms <= 300_000 + 1_000


def test_flapping_member(play: Play) -> None:
    """Goal: a storm: two rebalances for every restart, and the two other members stay all the time."""
    played = play("flapping-member")
    restarts = sum(row.action == "flapping" for row in played.truth.actions)
    assert restarts >= 8
    assert len(played.truth.causes) == 1 + 2 * restarts
    assert Counter(played.leave_causes()) == {"left": restarts, None: 3}


def test_leader_loss(play: Play) -> None:
    """Goal: the first loss changes the leader; the second leaves generation 3 without a record."""
    played = play("leader-loss")
    assert played.generations() == [(1, 0, 0, 0), (1, 1, 0, 3), (1, 2, 0, 2), (1, 3, None, 3), (1, 4, 0, 2)]
    changes = [row.changes for row in played.truth.causes]
    assert "leader_changed" in (changes[1] or ())
    assert changes[2] is None
    assert (played.truth.causes[3].from_generation, played.truth.causes[3].to_generation) == (2, 4)
    assert Counter(played.leave_causes()) == {"session_expired": 2, None: 2}


def test_subscription_change(play: Play) -> None:
    """Goal: three members change their topics, three rebalances say so, and both topics are owned in the end."""
    played = play("subscription-change")
    assert [changes for *_, changes in played.triggers()[1:]] == [("subscription_changed",)] * 3
    owned = Counter(row.topic.split(".")[0] for row in played.truth.owners if row.valid_to_ms is None)
    assert owned == {"orders": 6, "payments": 4}


def test_partitions_added(play: Play) -> None:
    """Goal: the leader rejoins within metadata.max.age.ms, and the three new partitions find owners."""
    played = play("partitions-added")
    added = played.truth.causes[1]
    assert (added.trigger, added.client_reason) == ("leader_rejoined", "cached metadata has changed")
    assert "partitions_added" in (added.changes or ())
    assert added.started_at_ms - played.action_ms("partitions_added") <= 310_000
    assert {row.partition for row in played.truth.owners if row.valid_to_ms is None} == set(range(9))


def test_protocol_upgrade(play: Play) -> None:
    """Goal: the protocol changes once, at the end of the first bounce; after the second the group is cooperative."""
    played = play("protocol-upgrade")
    protocols = [row.protocol for row in played.truth.generations if row.protocol]
    switch = protocols.index("cooperative-sticky")
    assert set(protocols[:switch]) == {"range"}
    assert set(protocols[switch:]) == {"cooperative-sticky"}
    changed = [row for row in played.truth.causes if "protocol_changed" in (row.changes or ())]
    assert len(changed) == 1
    assert "cooperative_follow_up" in (played.truth.causes[-1].changes or ())


def test_stuck_consumer(play: Play) -> None:
    """Goal: without any rebalance, one member's committed offsets stand still for a quarter of an hour."""
    played = play("stuck-consumer")
    assert played.triggers() == [STARTED]
    stuck_id = next(row.client_id for row in played.truth.actions if row.action == "stuck")
    stuck = {row.partition for row in played.truth.owners if row.client_id == stuck_id}
    between: dict[int, set[int]] = {partition: set() for partition in range(6)}
    for batch in captured(played):
        (record,) = batch.records
        if record.record_type == "offset_commit" and 11 < played.minutes(batch.timestamp_ms) < 24:
            assert record.value is not None
            between[record.key["partition"]].add(record.value["offset"])
    assert {partition for partition, offsets in between.items() if len(offsets) == 1} == stuck
    assert all(len(offsets) > 100 for partition, offsets in between.items() if partition not in stuck)


def test_admin_reset(play: Play) -> None:
    """Goal: while the group is empty every offset goes back by a thousand, and the members begin there."""
    played = play("admin-reset")
    assert [members for *_, members in played.generations()] == [0, 2, 0, 2]
    reset_ms = played.action_ms("admin_reset")
    offsets: dict[int, list[tuple[int, int]]] = {}
    for batch in captured(played):
        (record,) = batch.records
        if record.value is not None and record.record_type == "offset_commit":
            offsets.setdefault(record.key["partition"], []).append((batch.timestamp_ms, record.value["offset"]))
    for commits in offsets.values():
        before = [offset for time_ms, offset in commits if time_ms < reset_ms]
        after = [offset for time_ms, offset in commits if time_ms >= reset_ms]
        assert after[0] == before[-1] - 1_000
        assert after == sorted(after)


def test_zombie_commits(play: Play) -> None:
    """Goal: each of the three refusals of a commit, with its planted cause and the generations on both sides."""
    played = play("zombie-commits")
    commits = [row for row in played.truth.rejections if row.api == "OFFSET_COMMIT"]
    assert [(row.error, row.root_cause) for row in commits] == [
        ("FENCED_INSTANCE_ID", "instance_started_twice"),
        ("UNKNOWN_MEMBER_ID", "long_gc"),
        ("ILLEGAL_GENERATION", "stale_generation"),
    ]
    fenced, unknown, illegal = commits
    assert fenced.claimed_generation == fenced.current_generation
    assert fenced.member_id == next(row.member_id for row in played.truth.members if row.leave_cause == "replaced")
    for row in (unknown, illegal):
        assert row.claimed_generation is not None
        assert row.current_generation == row.claimed_generation + 1
    assert Counter(played.leave_causes()) == {"replaced": 1, "session_expired": 1, None: 3}


def test_group_reborn(play: Play) -> None:
    """Goal: the second incarnation begins with generation 0 again, after tombstones for all offsets and the group."""
    played = play("group-reborn")
    assert played.generations() == [(1, 0, 0, 0), (1, 1, 0, 2), (1, 2, 0, 0), (2, 0, 0, 0), (2, 1, 0, 2)]
    tombstones = [record.record_type for row in captured(played) for record in row.records if record.value is None]
    assert tombstones == ["offset_commit"] * 4 + ["group_metadata"]
    assert {row.incarnation for row in played.truth.owners} == {1, 2}


def test_coordinator_failover(play: Play) -> None:
    """Goal: the rebalance that was going on is forgotten, the newcomer starts over, and the group goes on."""
    played = play("coordinator-failover")
    assert [members for *_, members in played.generations()] == [0, 3, 4]
    errors = {error for _, error, _ in played.refusals()}
    assert errors == {"COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "UNKNOWN_MEMBER_ID"}
    assert {root_cause for *_, root_cause in played.refusals()} == {"coordinator_failover"}
    kinds = Counter(event.kind for _, event in played.outputs.events)
    assert (kinds["group_loaded"], kinds["group_unloaded"]) == (2, 1)


def test_offset_expiry(play: Play) -> None:
    """Goal: first the given-up topic's offsets go, then the empty group's, and the group with them."""
    played = play("offset-expiry")
    gone = [
        (record.record_type, record.key.get("topic", "").split(".")[0])
        for row in captured(played)
        for record in row.records
        if record.value is None
    ]
    assert gone == [("offset_commit", "payments")] * 2 + [("offset_commit", "orders")] * 4 + [("group_metadata", "")]
    assert played.truth.generations[-1].ended_at_ms is not None


def test_compaction(play: Play) -> None:
    """Goal: before the cleaner's pass a key has at most one record; after it all are there."""
    played = play("compaction")
    cleaned_ms = played.action_ms("compaction")
    keys = Counter(
        (record.record_type, *record.key.values())
        for row in captured(played)
        for record in row.records
        if row.timestamp_ms < cleaned_ms
    )
    assert set(keys.values()) == {1}
    recorded = {row.kafka_offset for row in played.truth.generations}
    kept = {
        row.base_offset for row in captured(played) for record in row.records if record.record_type == "group_metadata"
    }
    assert kept < recorded


def test_transactional_commits(play: Play) -> None:
    """Goal: aborted commits and markers are missing from the capture and leave holes; committed ones are there."""
    played = play("transactional-commits")
    rows = captured(played)
    (partition,) = {row.partition for row in rows}
    log = played.simulation.brokers.logs[partition]
    offsets = [row.base_offset for row in rows]
    holes = set(range(log.last_stable_offset)) - set(offsets)
    markers = {batch.base_offset for batch in log.batches if batch.committed is not None}
    aborted = [batch for batch in log.batches if batch.committed is False]
    assert markers <= holes | set(range(log.last_stable_offset, log.end_offset))
    assert len(aborted) >= 5
    assert len(holes) > len(markers)
    assert any(batch.producer_id != -1 for batch in played.outputs.batches)


# Many groups


def test_day() -> None:
    """Goal: a day begins with every scenario's group at work, and the same cluster carries them all."""
    simulation = prepare(SCENARIOS["day"], 7)
    simulation.run(simulation.now_ms + 600_000)
    assert len(simulation.group_ids) == len(OF_A_DAY)
    sampled = simulation.take().group_states[-len(OF_A_DAY) :]
    assert {row.group_id for row in sampled} == set(simulation.group_ids)
    assert {row.state for row in sampled} == {"Stable"}


def test_a_group_is_the_same_in_any_company() -> None:
    """Goal: the history of a group does not depend on the number of other groups."""
    lives = []
    for groups in (1, 2):
        simulation = prepare(SCENARIOS["rolling-restart"], 7, groups)
        simulation.run(simulation.now_ms + 690_000)
        lives.append([row for row in simulation.recorder.truth.causes if row.group_id == simulation.group_ids[0]])
    assert lives[0] == lives[1]
    assert len(lives[0]) == 3
