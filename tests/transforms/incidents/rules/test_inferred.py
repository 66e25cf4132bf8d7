"""Goal: an incident is inferred if the topic alone gives reason to suspect it, and not if there is another
explanation."""

from __future__ import annotations

from typing import Any

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.incidents.rules import EndSample, GroupFacts, HeldPartition, incidents
from groupledger.transforms.incidents.rules.facts import TopicEnd, commit_steps, rebalance_stretches
from lab.truth.made import (
    RULES,
    T,
    commit,
    event,
    facts,
    generation,
    interval,
    rebalance,
    request,
    tenure,
)

SILENT = {"leave_cause": "session_expired", "leave_cause_confidence": 0.85}
PAUSE = {"topic": "orders", "partition": 0, "committed_offset_before": 100, "committed_offset_after": 340}


def kinds(given: GroupFacts) -> dict[str, dict[str, Any]]:
    return {row["kind"]: row for row in incidents(given, RULES)}


def steps(*commits: Any, ends: Any = None) -> Any:
    """`ends` are of partition 0: (seconds, high watermark)."""
    samples = [TopicEnd(T + seconds * 1_000, end) for seconds, end in ends or ()]
    return commit_steps(commits, RULES.commit_gap_ms, {TopicPartition("orders", 0): samples})


def test_a_zombie() -> None:
    """Goal: a silent member that is back soon after its removal was alive; the number of records that it had in hand is
    bounded by the new owner's catch-up. One that is back at once was restarted, one that is back late may have been,
    and one that the request log has without a refusal was, as was one at whose time the log has others of the group.
    Nobody is suspected where the group had no member meanwhile."""
    rebalances = [rebalance(4, 50, partition_pauses=[PAUSE])]

    def returned(at: int, requests: list[Any] | None = None, **others: Any) -> dict[str, dict[str, Any]]:
        members = [tenure("m-1", 10, 50, **SILENT), tenure("m-5", at, None)]
        return kinds(facts(members=members, rebalances=rebalances, requests=requests or [], **others))

    row = returned(80)["zombie_commit_suspected"]
    assert (row["duplicates_min"], row["duplicates_max"], row["evidence"]) == (0, 240, "inferred")
    assert row["probable_root"] == "session_expired"
    assert set(returned(50)) == {"session_expired"}
    assert set(returned(50 + RULES.zombie_return_ms // 1_000 + 1)) == {"session_expired"}
    beat = request("HEARTBEAT", 0, T + 20_000)
    again = request("JOIN_GROUP", 0, T + 80_000, "", response_member_id="m-5", response_generation=5)
    assert set(returned(80, [beat])) == {"session_expired", "zombie_commit_suspected"}
    assert set(returned(80, [beat, again])) == {"session_expired"}
    of_another = request("HEARTBEAT", 0, T + 70_000, "m-2")
    assert set(returned(80, [of_another])) == {"session_expired"}
    refused = request("OFFSET_COMMIT", 25, T + 75_000, offsets=[(0, 120)])
    assert "zombie_commit_suspected" in returned(80, [of_another, refused])
    empty = [generation(3, 10, 50), generation(4, 50, 80, member_count=0), generation(5, 80, None)]
    assert set(returned(80, generations=empty)) == {"session_expired"}


def test_a_doubtful_removal() -> None:
    """Goal: a guess that is wrong as often as not is reported, but alarms nobody, and no zombie is made of it."""
    doubtful = {**SILENT, "leave_cause_confidence": 0.6}
    rows = kinds(facts(members=[tenure("m-1", 10, 50, **doubtful), tenure("m-5", 80, None)]))
    assert {kind: (row["severity"], row["confidence"]) for kind, row in rows.items()} == {
        "session_expired": ("info", 0.6)
    }


def test_a_static_member_that_was_closed() -> None:
    """Goal: a static member says nothing when it closes: its expiry alone is normal operation, with its return it is
    not."""
    gone = tenure("m-1", 10, 50, group_instance_id="i", **SILENT)
    assert kinds(facts(members=[gone]))["session_expired"]["severity"] == "info"
    back = tenure("m-5", 80, None, group_instance_id="i", client_host="/10.9.9.9")
    assert kinds(facts(members=[gone, back]))["session_expired"]["severity"] == "warning"
    for members, severity in (([gone], "info"), ([gone, back], "warning")):
        row = kinds(facts(members=members, events=[event("member_failed", T + 48_000, "m-1")]))["session_expired"]
        assert (row["evidence"], row["severity"]) == ("observed", severity)
        assert "does not leave when it is stopped" in row["explanation"]


GROWING = [(seconds, seconds) for seconds in range(0, 520, 30)]
"""Samples of an end that lies well before all that `gap_facts` commits."""


def gap_facts(*, both: bool = True, ends: Any = GROWING, **parts: Any) -> GroupFacts:
    """Two partitions that were committed every five seconds; one or both fall silent at offset 20 for five minutes."""
    commits = [
        commit(number, T + 11_000 + number * 5_000, 100 + 2 * number + partition, partition)
        for number in range(100)
        for partition in (0, 1)
        if not (20 < number < 80 and (both or partition == 0))
    ]
    owned = [interval("m-2", partition, 10, None) for partition in (0, 1)]
    return facts(steps=steps(*commits, ends=ends), assignments=owned, as_of_ms=T + 510_000, **parts)


def test_commit_gaps() -> None:
    """Goal: a member whose partitions all fall silent has a gap; one silent partition is no gap, nor is a slow
    rhythm."""
    (row,) = incidents(gap_facts(), RULES)
    assert (row["kind"], row["severity"], row["member_id"]) == ("commit_gap", "info", "m-2")
    assert row["last_seen_at"] - row["first_seen_at"] == 300_000_000
    assert len(row["partitions"]) == 2
    assert incidents(gap_facts(both=False), RULES) == []
    slow = [commit(number, T + 11_000 + number * 130_000, 100 + number) for number in range(4)]
    slowly = facts(steps=steps(*slow, ends=GROWING), assignments=[interval("m-2", 0, 10, None)], as_of_ms=T + 500_000)
    assert incidents(slowly, RULES) == []


def test_samples_that_go_on_where_the_topic_is_not_read_yet() -> None:
    """Goal: an ingest that is behind makes no silence: commits since its last read are unknown."""
    commits = [commit(number, T + 11_000 + number * 5_000, 100 + number) for number in range(20)]
    given = {"assignments": [interval("m-2", 0, 10, None)], "as_of_ms": T + 510_000}

    def found(topic_until_ms: int | None) -> list[str]:
        silent = facts(steps=steps(*commits, ends=GROWING), topic_until_ms=topic_until_ms, **given)
        return [row["kind"] for row in incidents(silent, RULES)]

    assert found(None) == found(T + 505_000) == ["commit_gap"]
    assert found(T + 120_000) == []


def test_an_idle_hour_is_no_commit_gap() -> None:
    """Goal: a gap begins when there is something to commit, and none is claimed where nobody knows: without a sample,
    or with one offset left to read, which may be the marker of a transaction."""
    assert incidents(gap_facts(ends=[]), RULES) == []
    assert incidents(gap_facts(ends=[(seconds, 20) for seconds in range(0, 520, 30)]), RULES) == []
    assert incidents(gap_facts(ends=[(seconds, 21) for seconds in range(0, 520, 30)]), RULES) == []
    assert (
        incidents(gap_facts(ends=[(seconds, 20 if seconds < 390 else 90) for seconds in range(0, 520, 30)]), RULES)
        == []
    )
    (row,) = incidents(gap_facts(ends=[(seconds, 20 if seconds < 210 else 90) for seconds in range(0, 520, 30)]), RULES)
    assert (row["first_seen_at"], row["last_seen_at"]) == ((T + 180_000) * 1_000, (T + 411_000) * 1_000)


def test_a_commit_gap_between_rare_samples() -> None:
    """Goal: one sample in a silence proves a gap if records waited for most of it from then on, and none if they may
    have come just before its end."""
    (row,) = incidents(gap_facts(ends=[(240, 90)]), RULES)
    assert row["last_seen_at"] - row["first_seen_at"] == 300_000_000
    assert incidents(gap_facts(ends=[(300, 90)]), RULES) == []


def test_generations_without_a_record() -> None:
    """Goal: a generation whose leader never synced is reported, and belongs to the removal of a member of it."""
    hole = rebalance(5, 50, from_generation=3, hole_cause="not_synced")
    rows = incidents(facts(rebalances=[hole], members=[tenure("m-1", 10, 50, **SILENT)]), RULES)
    assert {row["kind"] for row in rows} == {"leader_never_synced", "session_expired"}
    assert len({row["episode_id"] for row in rows}) == 1


def test_a_generation_without_a_record_is_over() -> None:
    """Goal: one generation without a record is over with the next that has one; as many as in a storm may go on."""
    for gap, is_open in ((1, False), (2220, True)):
        hole = rebalance(4, 50, from_generation=3, hole_cause="not_synced", generation_gap=gap)
        row = kinds(facts(rebalances=[hole], as_of_ms=T + 60_000))["leader_never_synced"]
        assert row["is_open"] == is_open
    seen = [event("stabilized", T + 52_000, generation=5), event("preparing_rebalance", T + 54_000)]
    for later, is_open in ((generation(4, 50, None), True), (generation(6, 58, None), False)):
        row = kinds(facts(generations=[later], events=seen, as_of_ms=T + 60_000))["leader_never_synced"]
        assert row["is_open"] == is_open


def test_an_ignored_subscription() -> None:
    """Goal: a static member that comes back with other topics within its generation is reported."""
    change = {"kind": "subscription_changed", "member_id": "m-7", "group_instance_id": "i", "client_id": "c"}
    revised = generation(4, 60, None, revision=1, changes=[change])
    (row,) = incidents(facts(generations=[generation(4, 50, 60), revised]), RULES)
    assert (row["kind"], row["member_id"], row["group_instance_id"]) == ("static_subscription_ignored", "m-7", "i")


def test_storms() -> None:
    """Goal: more rebalances than a restart of every member takes are a storm, as long as it lasts; a restart is no
    storm."""
    storm = [rebalance(number, 100 + number * 50) for number in range(2, 14)]
    row = kinds(facts(rebalances=storm))["rebalance_storm"]
    assert row["last_seen_at"] - row["first_seen_at"] == 11 * 50_000_000
    assert row["explanation"].startswith("The group rebalanced 12 times within 550 s.")
    restarted = [rebalance(number, 100 + number * 50, member_count=5) for number in range(2, 12)]
    assert kinds(facts(rebalances=restarted)) == {}
    follow_ups = [{**row, "caused_by_generation": row["to_generation"] - 1} for row in storm]
    assert kinds(facts(rebalances=follow_ups)) == {}


def test_a_storm_in_which_nobody_comes_or_goes() -> None:
    """Goal: if the members stay, the advice is neither to find out who comes and goes nor to use static membership."""
    storm = [rebalance(number, 100 + number * 50) for number in range(2, 14)]
    classic = [{**generation(2, 90, None), "group_type": "classic"}]
    row = kinds(facts(rebalances=storm, generations=classic))["rebalance_storm"]
    assert "No member came or went in most of them" in row["explanation"]
    assert row["setting_to_change"] is None
    joined = [{**each, "changes": [{"kind": "member_joined"}]} for each in storm]
    row = kinds(facts(rebalances=joined, generations=classic))["rebalance_storm"]
    assert "Find out who comes and goes" in row["explanation"]


def test_follow_ups_without_an_end() -> None:
    """Goal: the one or two rounds that a cooperative rebalance costs are no rebalances of their own; those of a chain
    that goes on are, and the advice is about what keeps it going."""
    round_of = {"caused_by_generation": 2, "changes": [{"kind": "cooperative_follow_up"}]}
    chain = [rebalance(number, 100 + number * 15, **round_of) for number in range(3, 20)]
    row = kinds(facts(rebalances=chain))["rebalance_storm"]
    assert row["explanation"].startswith("The group rebalanced 15 times within 210 s.")
    assert row["explanation"].endswith("keeps moving partitions. Upgrade the clients.")  # its type is not known
    classic = [{**generation(2, 90, None), "group_type": "classic"}]
    row = kinds(facts(rebalances=chain, generations=classic))["rebalance_storm"]
    assert row["explanation"].endswith("give all of them another partition.assignment.strategy.")
    assert row["setting_to_change"] == "partition.assignment.strategy"
    come_and_go = [{**each, "changes": [*each["changes"], {"kind": "member_joined"}]} for each in chain]
    row = kinds(facts(rebalances=come_and_go))["rebalance_storm"]
    assert "group.instance.id" in row["setting_to_change"]


def test_flapping() -> None:
    """Goal: a process with three short tenures within an hour flaps; three different ones, or three a day, don't."""
    short = [tenure(f"m-{number}", number * 300, number * 300 + 100) for number in range(1, 4)]
    row = kinds(facts(members=short))["member_flapping"]
    assert (row["client_id"], row["occurrences"], len(row["proofs"])) == ("client", 1, 3)
    others = [{**each, "client_host": f"/10.0.0.{number}"} for number, each in enumerate(short)]
    assert kinds(facts(members=others)) == {}
    rare = [tenure(f"m-{number}", number * 9_000, number * 9_000 + 100) for number in range(1, 4)]
    assert kinds(facts(members=rare)) == {}


def test_a_member_that_leaves_in_order_again_and_again() -> None:
    """Goal: one that is known to leave by itself is asked why it ends, not to hide that behind a group.instance.id."""
    left = {"leave_cause": "left", "leave_cause_confidence": 0.95}
    short = [tenure(f"m-{number}", number * 300, number * 300 + 100, **left) for number in range(1, 4)]
    row = kinds(facts(members=short))["member_flapping"]
    assert row["explanation"].endswith("It left in order: its own log, and that of its supervisor, may say why.")
    assert row["setting_to_change"] is None
    guessed = [{**each, "leave_cause_confidence": 0.5} for each in short]
    assert kinds(facts(members=guessed))["member_flapping"]["setting_to_change"] == "group.instance.id"


def test_a_static_member_that_flaps() -> None:
    """Goal: a process that has a group.instance.id is not asked to take one."""
    short = [tenure(f"m-{number}", number * 300, number * 300 + 100, group_instance_id="i-1") for number in range(1, 4)]
    row = kinds(facts(members=short))["member_flapping"]
    assert row["explanation"].endswith("Look whether it ends, or whether a second process uses its id.")
    assert "Each time the group rebalances" not in row["explanation"]
    assert row["setting_to_change"] is None


def job(runs: int, *, every: int = 60, pause: int = 30, stays: bool = False, **left: Any) -> GroupFacts:
    """A process that joins each minute and is gone half a minute later, alone or beside one that stays."""
    ended = {"leave_cause": "left", "leave_cause_confidence": 0.95, **left}
    generations, rebalances, members = [generation(0, 10, 60, member_count=0)], [], []
    for run in range(1, runs + 1):
        begin, end = run * every, (run + 1) * every - pause
        generations.append(generation(2 * run - 1, begin, end, member_count=1 + stays))
        generations.append(generation(2 * run, end, end + pause, member_count=int(stays)))
        rebalances += [rebalance(2 * run - 1, begin, member_count=1), rebalance(2 * run, end, member_count=0)]
        members.append(tenure(f"m-{run}", begin, end, **ended))
    if stays:
        members.append(tenure("m-0", 60, None, client_id="other"))
    return facts(generations=generations, rebalances=rebalances, members=members, assignments=[])


def test_a_job_that_runs_each_minute() -> None:
    """Goal: processes that come, leave in good order and come again flap and storm only where others stay, who are
    stopped each time, or where they did not leave by themselves."""
    assert kinds(job(20)) == {}
    patterns = {"member_flapping", "rebalance_storm"}
    assert kinds(job(20, stays=True)).keys() == patterns
    assert kinds(job(20, leave_cause=None)).keys() == patterns
    assert kinds(job(20, leave_cause_confidence=0.5)).keys() == patterns


def test_a_process_that_fails_at_a_record() -> None:
    """Goal: a process that closes its consumer as it fails, and is started again at once, is no job of a schedule; a
    few restarts, and long runs, are nothing."""
    assert kinds(job(40, every=4, pause=2)).keys() == {"member_flapping", "rebalance_storm"}
    assert kinds(job(2, every=4, pause=2)) == {}
    assert kinds(job(20, every=120, pause=2)) == {}
    assert kinds(job(20, every=30, pause=10)) == {}


def test_a_job_that_does_not_come_to_rest() -> None:
    """Goal: a run in which a process comes twice, or which rebalances more often than processes come and go, is no
    job's."""
    given = job(8)
    twice = [
        {**row, "member_count": row["member_count"] or int(0 < row["generation"] < 16)} for row in given.generations
    ]
    assert "member_flapping" in kinds(facts(generations=twice, rebalances=given.rebalances, members=given.members))
    again = [rebalance(row["to_generation"], row["kafka_offset"] + 1 + n) for row in given.rebalances for n in range(4)]
    assert "rebalance_storm" in kinds(facts(generations=given.generations, rebalances=again, members=given.members))


def stuck(minutes: int = 60, state: str = "PreparingRebalance", **parts: Any) -> dict[str, dict[str, Any]]:
    """Incidents of a group that is sampled each minute from minute 10 on, in this state for so long, and then stable;
    its only partition was committed last just before, and gets a record each second unless `ends` says otherwise."""
    states = [(T + minute * 60_000, state if minute < 10 + minutes else "Stable") for minute in range(10, 90)]
    ends = parts.pop("ends", [(minute * 60, minute * 60) for minute in range(90)])
    begun = [row["started_at"] // 1_000 for row in parts.get("generations", ())]
    given = {
        "steps": steps(commit(590, T + 590_000, 590), commit(4_300, T + 4_300_000, 4_300), ends=ends),
        "stretches": rebalance_stretches(states, begun),
        "as_of_ms": T + 5_400_000,
    }
    return kinds(facts(**given | parts))


def test_a_stuck_rebalance() -> None:
    """Goal: a group that samples show in one rebalance for longer than ten minutes, while records wait, is reported
    with how many they are, whom it waits for by its state, and the setting that bounds that."""
    row = stuck()["rebalance_stuck"]
    assert (row["severity"], row["setting_to_change"]) == ("error", "max.poll.interval.ms")
    assert (row["first_seen_at"], row["last_seen_at"]) == ((T + 600_000) * 1_000, (T + 4_140_000) * 1_000)
    assert "in one rebalance for 3,540 s, and nobody read the 3,670 records" in row["explanation"]
    assert [proof["table_name"] for proof in row["proofs"]] == ["group_states", "group_states", "coordinator_records"]
    assert "It waits for a member that does not rejoin, for as long as" in row["explanation"]
    of_leader = stuck(state="CompletingRebalance")["rebalance_stuck"]
    assert of_leader["explanation"].endswith("It waits for the assignment of the group's leader: look at its log.")
    assert of_leader["setting_to_change"] is None
    assert stuck(minutes=12).keys() == {"rebalance_stuck"}


def test_a_stuck_rebalance_of_static_members() -> None:
    """Goal: the advice about a static member says that the rebalance goes on to wait if the member only stops, and what
    ends the wait; not if the leader's assignment is missing, and not for a static member that had gone before."""
    there = [tenure("m-1", 10, None, group_instance_id="pod-0")]
    row = stuck(members=there)["rebalance_stuck"]
    assert "start it again with its group.instance.id, or remove that id" in row["explanation"]
    assert row["setting_to_change"] == "max.poll.interval.ms, session.timeout.ms"
    of_leader = stuck(state="CompletingRebalance", members=there)["rebalance_stuck"]
    assert "group.instance.id" not in of_leader["explanation"]
    gone = [tenure("m-1", 10, 300, group_instance_id="pod-0"), tenure("m-2", 10, None)]
    assert stuck(members=gone)["rebalance_stuck"]["explanation"] == stuck()["rebalance_stuck"]["explanation"]


def test_rebalances_that_are_not_stuck() -> None:
    """Goal: no incident is claimed for a rebalance within the time that a member may take, for one that led to a
    generation, for one of a modern group, whose members go on, or if nothing is known to have waited: an idle topic, or
    no samples."""
    assert stuck(minutes=10) == {}
    assert stuck(generations=[generation(number, 300 * number, 300 * (number + 1)) for number in range(2, 15)]) == {}
    assert stuck(state="Reconciling") == {}
    assert stuck(ends=[(minute * 60, 590) for minute in range(90)]) == {}
    assert stuck(ends=[]) == {}


def held_back(seconds: int = 600, partition: int = 0, **parts: Any) -> dict[str, dict[str, Any]]:
    """Incidents of a group in which m-2 waited for so long for a partition that m-1 was to give up at second 600; it
    was committed last just before, and gets a record each second unless `ends` says otherwise."""
    waits = [
        HeldPartition(
            incarnation=1,
            member_id=member_id,
            from_offset=number,
            held_by="m-1",
            topic="orders",
            partition=partition,
            from_ms=T + 600_000,
            until_ms=T + until * 1_000,
        )
        for number, (member_id, until) in enumerate([("m-2", 630), ("m-2", 600 + seconds)], start=610)
    ]
    ends = parts.pop("ends", [(minute * 60, minute * 60) for minute in range(90)])
    given = {
        "steps": steps(commit(590, T + 590_000, 590), commit(4_300, T + 4_300_000, 4_300), ends=ends),
        "held": waits,
        "members": [tenure("m-1", 10, None, client_id="pod-b"), tenure("m-2", 20, None)],
        "as_of_ms": T + 5_400_000,
    }
    return {kind: row for kind, row in kinds(facts(**given | parts)).items() if kind != "commit_gap"}


def test_a_stuck_reconciliation() -> None:
    """Goal: a member of a KIP-848 group that keeps a partition from another, while records wait in it, is reported with
    its id, the duration, and the setting that bounds it; a member that still keeps it, too."""
    row = held_back()["reconciliation_stuck"]
    assert (row["severity"], row["member_id"], row["client_id"]) == ("error", "m-1", "pod-b")
    assert row["setting_to_change"].startswith("max.poll.interval.ms")
    assert (row["first_seen_at"], row["last_seen_at"]) == ((T + 600_000) * 1_000, (T + 1_200_000) * 1_000)
    assert "pod-b at 10.0.0.1 has held back 1 partition that others wait for, for 600 s" in row["explanation"]
    assert [(each["topic"], each["partition"]) for each in row["partitions"]] == [("orders", 0)]
    assert [proof["table_name"] for proof in row["proofs"]] == ["member_epochs", "member_epochs", "coordinator_records"]
    assert held_back(seconds=4_800, steps=steps(commit(590, T + 590_000, 590), ends=[(700, 700)])).keys() == {
        "reconciliation_stuck"
    }


def test_reconciliations_that_are_not_stuck() -> None:
    """Goal: none is claimed within the bound, where the holder went on committing, where no record waited or nobody
    knows it, or where another partition stood still."""
    assert held_back(seconds=170) == {}
    goes_on = steps(*(commit(n, T + n * 1_000, n) for n in range(500, 1_300, 30)), ends=[(n, n) for n in range(1_300)])
    assert held_back(steps=goes_on) == {}
    assert held_back(ends=[(minute * 60, 590) for minute in range(90)]) == {}
    assert held_back(ends=[]) == {}
    assert held_back(partition=1) == {}


def test_a_stalled_transaction() -> None:
    """Goal: a last stable offset that stands still below the high watermark is reported, a moving one is not."""

    def stalled(*stable_offsets: int) -> list[dict[str, Any]]:
        samples = [EndSample(T + 60_000 * n, 7, 900 + n, stable) for n, stable in enumerate(stable_offsets)]
        return incidents(GroupFacts(None, T, samples=samples), RULES)

    (row,) = stalled(800, 800, 800, 800, 800, 800)
    assert (row["kind"], row["group_id"]) == ("stalled_transaction", None)
    assert row["partitions"][0] == {
        "topic": "__consumer_offsets",
        "partition": 7,
        "refused_offset": 800,
        "last_accepted_offset": None,
        "owner_member_id": None,
        "owner_client_id": None,
    }
    assert "partition 7 of __consumer_offsets has not ended for 300 s" in row["explanation"]
    assert stalled(800, 810, 820, 830, 840, 850) == []


def test_many_generations_without_a_record() -> None:
    """Goal: as many generations as in a storm are a warning, and no sentence says that their leader sent nothing; with
    a log that has the assignments there is no such incident."""
    hole = rebalance(2222, 50, from_generation=1, hole_cause="not_synced", generation_gap=2220)
    row = kinds(facts(rebalances=[hole]))["leader_never_synced"]
    assert row["severity"] == "warning"
    assert "2,220 generations before 2222 left no record" in row["explanation"]
    assert "Import the server log" in row["explanation"]
    received = event("assignment_received", T + 20_000, generation=891)
    assert kinds(facts(rebalances=[hole], events=[received])) == {}
