"""Goal: the facts of a fault in logs and history give one episode, with its root, and one incident for each kind."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.schemas.kinds.incidents import KIND_OF_ERROR
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.transforms.incidents.rules import GroupFacts, incidents
from groupledger.transforms.incidents.rules.facts import LeavingMember
from lab.truth.made import RULES, T, commit, event, facts, generation, interval, rebalance, request, tenure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.transforms.incidents.rules import Request

OFFSETS = [(0, 120)]
WOKEN = (
    request("OFFSET_COMMIT", 25, T + 60_000, offsets=OFFSETS),
    request("HEARTBEAT", 25, T + 60_002),
)
EXPIRED = event("member_failed", T + 48_000, "m-1")


def found(given: GroupFacts) -> dict[str, dict[str, Any]]:
    """By kind; there is one episode."""
    rows = incidents(given, RULES)
    assert len({row["episode_id"] for row in rows}) <= 1
    assert len({row["kind"] for row in rows}) == len(rows)
    return {row["kind"]: row for row in rows}


def test_a_woken_process() -> None:
    """Goal: expiry, refused commit and refused heartbeat are one episode, with the member, the time and the cost."""
    rows = found(
        facts(
            requests=list(WOKEN),
            events=[EXPIRED],
            commits=[commit(100, T + 40_000, 40), commit(110, T + 55_000, 55)],
        )
    )
    assert {kind: (row["severity"], row["evidence"], row["occurrences"]) for kind, row in rows.items()} == {
        "session_expired": ("warning", "observed", 1),
        "unknown_member": ("error", "observed", 2),
    }
    assert {row["probable_root"] for row in rows.values()} == {"session_expired"}
    refused = rows["unknown_member"]
    columns = ("group_id", "member_id", "client_id", "client_host", "claimed_generation", "current_generation")
    assert [refused[name] for name in columns] == ["g", "m-1", "client", "10.0.0.1", 3, 4]
    assert (refused["incarnation"], refused["stale_since_generation"]) == (1, 4)
    assert refused["partitions"] == [
        {
            "topic": "orders",
            "partition": 0,
            "refused_offset": 120,
            "last_accepted_offset": 100,
            "owner_member_id": "m-2",
            "owner_client_id": "client of m-2",
        }
    ]
    # 100 to 110 the new owner has committed, 110 to 120 it will.
    assert (refused["duplicates_min"], refused["duplicates_max"]) == (10, 20)
    assert [proof["row_key"] for proof in refused["proofs"]] == ["requests.log/60000", "requests.log/60002"]
    assert refused["setting_to_change"] == "session.timeout.ms"
    assert refused["explanation"] == (
        "client at 10.0.0.1 was refused 2 times with UNKNOWN_MEMBER_ID: the group had removed it before. What it had"
        " processed is processed again by the new owner (10 to 20 records); its process was paused, starved of CPU"
        " or disconnected: check its garbage collection and CPU limit, or raise session.timeout.ms."
    )


def test_rows_have_the_tables_columns() -> None:
    """Goal: an incident has a value for each column of the table but the cluster's."""
    (row,) = found(facts(events=[EXPIRED])).values()
    assert set(row) == set(INCIDENTS.schema.names) - {"cluster"}


def test_a_night_later() -> None:
    """Goal: a process that wakes after hours is refused for its removal of then: the same episode."""
    late = replace(WOKEN[0], happened_at_us=(T + 30_000_000) * 1_000)
    assert set(found(facts(requests=[late], events=[EXPIRED]))) == {"session_expired", "unknown_member"}


def test_the_last_commit_of_librdkafka() -> None:
    """Goal: the commit under its new id with its old generation belongs to the episode of its old id."""
    again = request("OFFSET_COMMIT", 22, T + 63_000, "m-9", offsets=OFFSETS)
    rows = found(facts(requests=[*WOKEN, again], events=[EXPIRED]))
    assert set(rows) == {"session_expired", "unknown_member", "illegal_generation"}
    assert rows["illegal_generation"]["probable_root"] == "session_expired"


@pytest.mark.parametrize(
    ("given", "kinds", "root"),
    [
        (
            {"requests": [request("LEAVE_GROUP", 0, T + 45_000, reasons=["consumer poll timeout has expired."])]},
            {"poll_timeout"},
            "poll_timeout_exceeded",
        ),
        (
            {
                "requests": [request("LEAVE_GROUP", 0, T + 45_000, reasons=["consumer poll timeout has expired."])],
                "events": [event("member_left", T + 45_000, "m-1", client_reason="consumer poll timeout has expired.")],
            },
            {"poll_timeout"},
            "poll_timeout_exceeded",
        ),
        # librdkafka and kafka-python give no reason, and join again on the same connection.
        (
            {
                "requests": [
                    request("LEAVE_GROUP", 0, T + 45_000, reasons=[None]),
                    request("JOIN_GROUP", 0, T + 52_000, ""),
                ]
            },
            {"poll_timeout"},
            "poll_timeout_exceeded",
        ),
        (
            {
                "requests": [
                    request("LEAVE_GROUP", 0, T + 45_000, reasons=[None]),
                    request("JOIN_GROUP", 0, T + 45_010, ""),
                ]
            },
            set(),
            None,
        ),
        # Or it commits as the member that has just left.
        (
            {"requests": [request("LEAVE_GROUP", 0, T + 45_000, reasons=[None]), WOKEN[0]]},
            {"unknown_member"},
            "poll_timeout_exceeded",
        ),
        (
            {"requests": [request("HEARTBEAT", 82, T + 45_000, group_instance_id="i")]},
            {"fenced_instance"},
            "instance_started_twice",
        ),
        (
            {"requests": [request("OFFSET_COMMIT", 22, T + 60_000, "m-2", offsets=OFFSETS, client_id="other")]},
            {"illegal_generation"},
            "stale_generation_kept",
        ),
        (
            {
                "requests": [
                    request("HEARTBEAT", 16, T + 51_000, "m-2"),
                    request("JOIN_GROUP", 25, T + 55_000, "m-8", client_id="third"),
                ]
            },
            {"unknown_member"},
            "coordinator_failover",
        ),
        (  # Neither names a member: nothing says that it was the same one.
            {
                "requests": [
                    request("LEAVE_GROUP", 0, T + 45_000, "", group_instance_id="i", reasons=[None]),
                    request("HEARTBEAT", 25, T + 55_000, "", client_id="third"),
                ]
            },
            {"unknown_member"},
            "unknown",
        ),
        (
            {
                "requests": [request("HEARTBEAT", 82, T + 55_000, "m-2", group_instance_id="i")],
                "events": [event("group_loaded", T + 50_000)],
            },
            {"fenced_instance"},
            "coordinator_failover",
        ),
        (
            {
                "requests": [
                    request("JOIN_GROUP", 0, T + 52_000, "", group_instance_id="i"),
                    request("HEARTBEAT", 82, T + 55_000, "m-2", group_instance_id="i"),
                ],
                "events": [event("group_loaded", T + 50_000)],
            },
            {"fenced_instance"},
            "instance_started_twice",
        ),
        (
            {"requests": [request("OFFSET_COMMIT", 27, T + 49_000, offsets=OFFSETS)]},
            {"rebalance_in_progress_commit"},
            "rebalance",
        ),
        ({"requests": [request("HEARTBEAT", 27, T + 49_000)]}, set(), None),
        ({"requests": [request("JOIN_GROUP", 79, T + 49_000, "")]}, set(), None),
        (
            {
                "events": [
                    event("stabilized", T + 20_000, generation=4),
                    event("preparing_rebalance", T + 70_000, trigger="sync_expired"),
                ]
            },
            {"leader_never_synced"},
            "rebalance",
        ),
        (
            {
                "events": [
                    event("stabilized", T + 20_000, generation=4),
                    event("assignment_received", T + 20_100, generation=4),
                    event("preparing_rebalance", T + 70_000, trigger="session_expired"),
                ]
            },
            set(),
            None,
        ),
    ],
)
def test_roots(given: dict[str, Any], kinds: set[str], root: str | None) -> None:
    """Goal: every way to be refused or removed has its kind and its root; normal operation has none."""
    rows = found(facts(**given))
    assert set(rows) == kinds
    assert {row["probable_root"] for row in rows.values()} == ({root} if root else set())


@pytest.mark.parametrize(
    ("joined_s", "is_start_known", "root"),
    [
        (10, True, "coordinator_failover"),
        (55, False, "coordinator_failover"),
        (55, True, "stale_generation_kept"),
    ],
)
def test_an_absence_before_the_member_joined(joined_s: int, is_start_known: bool, root: str) -> None:
    """Goal: a coordinator that was away before the refused member joined, as that of a broker that has just started,
    is not why the member was refused."""
    away = request("HEARTBEAT", 16, T + 51_000, "m-2")
    refused = request("OFFSET_COMMIT", 22, T + 60_000, "m-2", offsets=OFFSETS, client_id="other")
    members = [tenure("m-1", 10, 50), tenure("m-2", joined_s, None, is_start_known=is_start_known)]
    rows = found(facts(requests=[away, refused], members=members))
    assert {kind: row["probable_root"] for kind, row in rows.items()} == {"illegal_generation": root}


def test_a_leader_that_is_paused_before_it_assigns() -> None:
    """Goal: the server's log alone shows, in one episode, that the leader's session ran out, and that the others waited
    for its assignment."""
    events = [
        event("stabilized", T + 40_000, generation=4),
        EXPIRED,
        event("preparing_rebalance", T + 48_000, "m-1", trigger="session_expired"),
    ]
    rows = found(GroupFacts("g", T + 100_000, events=events))
    assert {kind: (row["severity"], row["probable_root"], row["member_id"]) for kind, row in rows.items()} == {
        "leader_never_synced": ("warning", "session_expired", "m-1"),
        "session_expired": ("warning", "session_expired", "m-1"),
    }


@pytest.mark.parametrize(
    ("joined_ms", "root", "setting"),
    [
        ((41_000, 42_000, 47_000), "leader_sends_no_assignment", "partition.assignment.strategy"),
        ((41_000,), "session_expired", "session.timeout.ms"),  # then it was silent
        ((), "session_expired", "session.timeout.ms"),
    ],
)
def test_a_leader_that_joins_and_never_assigns(joined_ms: tuple[int, ...], root: str, setting: str) -> None:
    """Goal: a member that joins again and again while the group waits for its assignment was not silent, and nobody is
    told to look at its garbage collection; one that stops joining may have been paused."""
    events = [
        event("stabilized", T + 40_000, generation=4),
        EXPIRED,
        event("preparing_rebalance", T + 48_000, "m-1", trigger="session_expired"),
    ]
    joins = [request("JOIN_GROUP", 0, T + at_ms) for at_ms in joined_ms]
    classic = generation(3, 10, None, group_type="classic")
    rows = found(facts(events=events, requests=joins, generations=[classic], rebalances=[]))
    expired, unsynced = rows["session_expired"], rows["leader_never_synced"]
    assert (expired["probable_root"], expired["setting_to_change"]) == (root, setting)
    assert ("garbage collection" in expired["explanation"]) == (root == "session_expired")
    assert unsynced["setting_to_change"] == "partition.assignment.strategy"
    assert "its assignor may fail" in unsynced["explanation"]


def test_the_assignor_that_a_broker_lacks() -> None:
    """Goal: its name is said where the request log has it, as it stands there."""
    refused = request("CONSUMER_GROUP_HEARTBEAT", 112, T + 60_000)
    (row,) = found(facts(requests=[refused])).values()
    assert "group.remote.assignor. It" in row["explanation"]
    (row,) = found(facts(requests=[replace(refused, server_assignor="round {the} houses")])).values()
    assert "group.remote.assignor (round {the} houses). It" in row["explanation"]


def heartbeat(error_code: int, epoch: int, api: str = "CONSUMER_GROUP_HEARTBEAT", **fields: Any) -> Request:
    leaving = (LeavingMember("m-1", None, None, error_code),) if epoch < 0 else ()
    return replace(request(api, error_code, T + 60_000, generation=epoch, **fields), leaving=leaving)


@pytest.mark.parametrize("api", ["CONSUMER_GROUP_HEARTBEAT", "SHARE_GROUP_HEARTBEAT", "STREAMS_GROUP_HEARTBEAT"])
def test_a_fenced_epoch(api: str) -> None:
    """Goal: a heartbeat that is fenced shows a member that it lost what it had; a repeated one that is accepted is
    nothing, and one that says good-bye to a group that does not know the member wakes nobody."""
    (row,) = found(facts(requests=[heartbeat(110, 3, api)])).values()
    assert (row["kind"], row["severity"], row["claimed_generation"]) == ("fenced_member_epoch", "warning", 3)
    assert found(facts(requests=[heartbeat(0, 3, api), heartbeat(0, 2, api)])) == {}
    (row,) = found(facts(requests=[heartbeat(25, -1, api)])).values()
    assert (row["kind"], row["severity"]) == ("unknown_member", "info")


NOT_REVOKING = event("consumer_member_not_revoking", T + 48_000, "m-1", generation=3)


def test_a_member_that_gives_nothing_up() -> None:
    """Goal: the server log's line, or what the records show, is an incident whose root is the poll loop; the refused
    heartbeat that follows belongs to it. A member that left by itself, in whichever log, was not fenced."""
    rows = found(facts(events=[NOT_REVOKING], requests=[heartbeat(25, 3)]))
    assert {kind: (row["severity"], row["evidence"]) for kind, row in rows.items()} == {
        "rebalance_timeout_fenced": ("warning", "observed"),
        "unknown_member": ("warning", "observed"),
    }
    assert {row["probable_root"] for row in rows.values()} == {"poll_timeout_exceeded"}
    gone = tenure("m-1", 10, 50, leave_cause="rebalance_timeout", leave_cause_confidence=0.9)
    (row,) = found(facts(members=[gone])).values()
    assert (row["kind"], row["evidence"], row["confidence"]) == ("rebalance_timeout_fenced", "inferred", 0.9)
    assert found(facts(members=[gone], events=[event("consumer_member_left", T + 50_000, "m-1")])) == {}
    assert found(facts(members=[gone], requests=[heartbeat(0, -1)])) == {}


def test_why_a_member_was_fenced() -> None:
    """Goal: an expired session of each type of group is reported as in a classic group; a leave is not reported."""
    for kind in ("consumer_member_fenced", "streams_member_fenced"):
        expired = event(kind, T + 48_000, "m-1", reason="the member session expired.")
        assert set(found(facts(events=[expired]))) == {"session_expired"}
    for kind in ("consumer_member_left", "consumer_static_member_left", "share_member_left", "streams_member_left"):
        assert found(facts(events=[event(kind, T + 48_000, "m-1")])) == {}


def test_members_cut_off_together() -> None:
    """Goal: several members at different addresses that expire at once point to the network; each is an episode."""
    both = [EXPIRED, event("member_failed", T + 49_000, "m-2")]
    members = [tenure("m-1", 10, 50), tenure("m-2", 10, 50, client_id="other", client_host="/10.0.0.2")]
    rows = incidents(facts(events=both, members=members), RULES)
    assert [(row["member_id"], row["probable_root"]) for row in rows] == [("m-1", "network"), ("m-2", "network")]
    assert len({row["episode_id"] for row in rows}) == 2
    apart = [EXPIRED, event("member_failed", T + 90_000, "m-2")]
    members[1] = tenure("m-2", 10, 91, client_id="other", client_host="/10.0.0.2")
    rows = incidents(facts(events=apart, members=members), RULES)
    assert [(row["member_id"], row["probable_root"]) for row in rows] == [
        ("m-1", "session_expired"),
        ("m-2", "session_expired"),
    ]


def test_every_refusal_is_explained() -> None:
    """Goal: two sentences for each kind of refusal, by each request whose refusal it is."""
    for error_code, kind in KIND_OF_ERROR.items():
        for api in kind.apis or ("OFFSET_COMMIT", "HEARTBEAT"):
            (row,) = incidents(facts(requests=[request(api, error_code, T + 60_000, offsets=OFFSETS)]), RULES)
            assert row["explanation"].count(". ") >= 1
            assert "{" not in row["explanation"]
            assert row["kind"] == kind.name


@pytest.mark.parametrize(
    ("error_code", "api", "kind", "severity", "setting"),
    [
        (3, "OFFSET_COMMIT", "unknown_topic_commit", "warning", "bootstrap.servers"),
        (12, "OFFSET_COMMIT", "offset_metadata_too_large", "error", "offset.metadata.max.bytes"),
        (23, "JOIN_GROUP", "inconsistent_protocol", "error", "partition.assignment.strategy, group.id"),
        (23, "SYNC_GROUP", "inconsistent_protocol", "error", "partition.assignment.strategy, group.id"),
        (
            *(26, "JOIN_GROUP", "invalid_session_timeout", "error"),
            "session.timeout.ms, group.min.session.timeout.ms, group.max.session.timeout.ms",
        ),
        (29, "TXN_OFFSET_COMMIT", "topic_not_authorized", "error", "ACL: READ of the topic"),
        (30, "JOIN_GROUP", "group_not_authorized", "error", "ACL: READ of the group"),
        (30, "FIND_COORDINATOR", "group_not_authorized", "error", "ACL: READ of the group"),
        (30, "HEARTBEAT", "group_not_authorized", "error", "ACL: READ of the group"),
        (81, "JOIN_GROUP", "group_full", "error", "group.max.size"),
        (81, "CONSUMER_GROUP_HEARTBEAT", "group_full", "error", "group.max.size"),
        (30, "SHARE_GROUP_HEARTBEAT", "group_not_authorized", "error", "ACL: READ of the group"),
        (
            *(112, "CONSUMER_GROUP_HEARTBEAT", "unsupported_assignor", "error"),
            "group.remote.assignor, group.consumer.assignors",
        ),
        (128, "CONSUMER_GROUP_HEARTBEAT", "invalid_regex", "error", "subscription pattern"),
        (130, "STREAMS_GROUP_HEARTBEAT", "streams_invalid_topology", "error", "topology"),
        (131, "STREAMS_GROUP_HEARTBEAT", "streams_invalid_topology_epoch", "error", "topology"),
        (132, "STREAMS_GROUP_HEARTBEAT", "streams_topology_fenced", "error", "topology"),
        (42, "STREAMS_GROUP_HEARTBEAT", "streams_topology_changed", "error", "application.id"),
        (
            *(121, "SHARE_ACKNOWLEDGE", "late_acknowledgement", "warning"),
            "group.share.record.lock.duration.ms, max.poll.records",
        ),
    ],
)
def test_refusals_that_no_retry_mends(error_code: int, api: str, kind: str, severity: str, setting: str) -> None:
    """Goal: a wrong setting or a missing right is reported with the setting to change, as grave for a join as for a
    commit; its repeats are one row. The same error for a tool that asks about groups is no incident."""
    member_id = "" if api == "JOIN_GROUP" else "m-2"
    refused = [request(api, error_code, T + 60_000 + n * 1_000, member_id, offsets=OFFSETS) for n in range(3)]
    (row,) = incidents(facts(requests=refused), RULES)
    assert (row["kind"], row["severity"], row["setting_to_change"]) == (kind, severity, setting)
    assert (row["occurrences"], row["client_id"], row["probable_root"] != "unknown") == (3, "client", True)
    for other in ("DESCRIBE_GROUPS", "OFFSET_FETCH", "OFFSET_DELETE"):
        assert incidents(facts(requests=[request(other, error_code, T + 60_000)]), RULES) == []


def test_a_refused_commit_of_the_present_generation() -> None:
    """Goal: a commit that was refused for its metadata is not called a commit of an old generation, though the group
    rebalances later; the offset that was committed before it is known."""
    refused = request("OFFSET_COMMIT", 12, T + 40_000, offsets=OFFSETS)
    (row,) = incidents(facts(requests=[refused], commits=[commit(100, T + 30_000, 30)]), RULES)
    assert (row["claimed_generation"], row["current_generation"], row["stale_since_generation"]) == (3, 3, None)
    assert (row["partitions"][0]["last_accepted_offset"], row["duplicates_max"]) == (100, 20)


@pytest.mark.parametrize(
    ("error_code", "api", "every_s", "kind", "severity"),
    [
        (47, "TXN_OFFSET_COMMIT", 60, "producer_fenced", "error"),
        (88, "OFFSET_FETCH", 1, "unstable_offsets", "warning"),
        (15, "FIND_COORDINATOR", 20, "coordinator_not_found", "error"),
    ],
)
def test_refusals_that_go_on(error_code: int, api: str, every_s: int, kind: str, severity: str) -> None:
    """Goal: a refusal that is normal once is an incident if one client gets it for five minutes without a pause; not
    for less, not with long pauses, not by several clients in turn, and not as an answer to another request."""

    def refused(times_s: Iterable[int], clients: int = 1, by: str = api) -> list[dict[str, Any]]:
        requests = [
            request(by, error_code, T + at_s * 1_000, client_id=f"client-{n % clients}", offsets=OFFSETS)
            for n, at_s in enumerate(times_s)
        ]
        return incidents(facts(requests=requests), RULES)

    (row,) = refused(range(60, 361, every_s))
    assert (row["kind"], row["severity"], row["occurrences"]) == (kind, severity, 300 // every_s + 1)
    assert row["last_seen_at"] - row["first_seen_at"] == 300_000_000
    assert refused([60]) == []
    assert refused(range(60, 360, every_s)) == []
    assert refused(range(60, 3_600, 130)) == []
    assert refused([60, 200, 420], clients=3) == []
    assert refused(range(60, 361, every_s), by="HEARTBEAT") == []


def test_ids_are_of_what_rows_are_about() -> None:
    """Goal: another log line, another import or another time of the run gives the same ids; another member others."""
    seen = found(facts(requests=[*WOKEN], events=[EXPIRED]))
    later = found(facts(requests=[*WOKEN, request("HEARTBEAT", 25, T + 61_000)], events=[EXPIRED], as_of_ms=T + 10**9))
    for kind in ("session_expired", "unknown_member"):
        assert seen[kind]["incident_id"] == later[kind]["incident_id"]
        assert seen[kind]["episode_id"] == later[kind]["episode_id"]
    without_server_log = found(facts(requests=[*WOKEN]))
    assert without_server_log["unknown_member"]["incident_id"] == seen["unknown_member"]["incident_id"]
    other = found(facts(requests=[request("HEARTBEAT", 25, T + 60_002, "m-3")]))
    assert other["unknown_member"]["incident_id"] != seen["unknown_member"]["incident_id"]


def test_ids_of_a_member_in_trouble_again() -> None:
    """Goal: two episodes that begin with the same member have two ids; the first keeps its id."""
    lines = [event("member_failed", T + at_ms, "m-9") for at_ms in (60_000, 660_000)]
    rows = incidents(facts(events=lines, as_of_ms=T + 10**6), RULES)
    assert len(rows) == len({row["incident_id"] for row in rows}) == len({row["episode_id"] for row in rows}) == 2
    (alone,) = incidents(facts(events=lines[:1], as_of_ms=T + 10**6), RULES)
    assert rows[0]["incident_id"] == alone["incident_id"]


def test_ids_of_the_same_generation_again() -> None:
    """Goal: a group that was born again has the same generations again, and other ids; the earlier one keeps its id."""
    lines = [
        event(kind, T + day * 86_400_000 + ms, generation=7)
        for day in (0, 1, 2)
        for kind, ms in (("stabilized", 0), ("preparing_rebalance", 9_000))
    ]
    first, rows = (incidents(GroupFacts("g", T + 1, events=some), RULES) for some in (lines[:2], lines))
    assert [row["kind"] for row in rows] == ["leader_never_synced"] * 3
    assert len({row["episode_id"] for row in rows} | {row["incident_id"] for row in rows}) == 6
    assert first[0]["incident_id"] == rows[0]["incident_id"]


def test_stronger_evidence_wins() -> None:
    """Goal: evidence from a log takes the place of the guess; the two are never mixed in one row."""
    silent = tenure("m-1", 10, 50, leave_cause="session_expired", leave_cause_confidence=0.85)
    (guess,) = found(facts(members=[silent])).values()
    (seen,) = found(facts(members=[silent], events=[EXPIRED])).values()
    assert (guess["evidence"], seen["evidence"], seen["confidence"]) == ("inferred", "observed", 1.0)
    assert guess["incident_id"] == seen["incident_id"]
    assert {proof["table_name"] for proof in seen["proofs"]} == {"coordinator_events"}
    assert {proof["table_name"] for proof in guess["proofs"]} == {"members"}


def test_a_log_refutes_a_guess() -> None:
    """Goal: a member that was guessed to have stopped polling, and was seen to expire, expired; a member that left did
    not expire."""
    slow = tenure("m-1", 10, 50, leave_cause="left_poll_timeout", leave_cause_confidence=0.7)
    assert set(found(facts(members=[slow]))) == {"poll_timeout"}
    assert set(found(facts(members=[slow], events=[EXPIRED]))) == {"session_expired"}
    silent = tenure("m-1", 10, 50, leave_cause="session_expired", leave_cause_confidence=0.85)
    left = request("LEAVE_GROUP", 0, T + 45_000, reasons=["the consumer is being closed"])
    assert found(facts(members=[silent], requests=[left])) == {}
    earlier = event("consumer_member_left", T - 300_000, "m-1")  # a modern client comes back under its id
    assert set(found(facts(members=[silent], events=[earlier]))) == {"session_expired"}


def test_open_while_the_end_is_near() -> None:
    """Goal: an incident is open while what is known ends soon after it."""
    (near,) = found(facts(events=[EXPIRED], as_of_ms=T + 100_000)).values()
    (far,) = found(facts(events=[EXPIRED])).values()
    assert (near["is_open"], far["is_open"]) == (True, False)


def test_a_client_that_never_gives_up() -> None:
    """Goal: repeats are one row, with their number and a bounded list of proofs."""
    many = [request("HEARTBEAT", 22, T + 60_000 + number * 500, "m-2") for number in range(1_000)]
    (row,) = found(facts(requests=many, assignments=[interval("m-2", 0, 50, None)])).values()
    assert row["occurrences"] == 1_000
    assert len(row["proofs"]) == 100
    assert row["last_seen_at"] - row["first_seen_at"] == 999 * 500_000


def test_a_commit_from_outside() -> None:
    """Goal: a client that never was a member is not reported as removed, and no owner is said to process anything
    again."""
    refused = request("OFFSET_COMMIT", 25, T + 60_000, "", generation=-1, offsets=OFFSETS, client_id="the-script")
    row = found(facts(requests=[refused], commits=[commit(100, T + 40_000, 40)]))["commit_from_outside"]
    assert (row["probable_root"], row["setting_to_change"]) == ("commits_beside_members", "group.id")
    assert "without being a member" in row["explanation"]
    assert not any(words in row["explanation"] for words in ("removed", "new owner", "server log"))


@pytest.mark.parametrize(
    ("error", "root"),
    [
        ("UNKNOWN_SERVER_ERROR", "assignment_too_large"),
        ("COORDINATOR_NOT_AVAILABLE", "offsets_topic_unavailable"),
        ("A_NEW_ERROR", "offsets_topic_unavailable"),
        ("", "assignment_unstored"),
    ],
)
def test_an_assignment_that_cannot_be_stored(error: str, root: str) -> None:
    """Goal: rebalances that go on because an assignment can't be stored are one incident, by the error's cause; where
    the broker names no error, none is taken for it."""
    reason = f"Error {error} when storing group assignmentduring SyncGroup (member: m-1).".replace("  ", " ")
    lines = [
        event("preparing_rebalance", T + n * 1_000, "m-1", trigger="assignment_not_stored", reason=reason)
        for n in range(3)
    ]
    row = found(facts(events=lines))["assignment_not_stored"]
    assert (row["severity"], row["occurrences"], row["probable_root"]) == ("error", 3, root)
    assert (row["setting_to_change"] or "").startswith("max.message.bytes") == (
        root in {"assignment_too_large", "assignment_unstored"}
    )


def test_members_that_did_not_join_again() -> None:
    """Goal: each member that a coordinator dropped because it did not join again in time is reported, and nothing is
    guessed of why it went."""
    dropped = event("dynamic_members_removed", T + 50_000, member_ids=("m-1", "m-2"))
    silent = {"leave_cause": "session_expired", "leave_cause_confidence": 0.85}
    members = [tenure(each, 10, 51, client_id=f"client of {each}", **silent) for each in ("m-1", "m-2", "m-3")]
    rows = incidents(facts(events=[dropped], members=members), RULES)
    assert {(row["member_id"], row["kind"], row["evidence"]) for row in rows} == {
        ("m-1", "failed_to_rejoin", "observed"),
        ("m-2", "failed_to_rejoin", "observed"),
        ("m-3", "session_expired", "inferred"),
    }


@pytest.mark.parametrize(
    ("protocol", "settings"),
    [
        ({"protocol_type": "connect"}, "rebalance.timeout.ms"),
        ({"protocol_type": "consumer", "protocol": "stream"}, "max.poll.interval.ms, max.poll.records"),
        ({"protocol_type": "consumer", "protocol": "range"}, "max.poll.interval.ms, max.poll.records"),
        ({"protocol_type": "consumer", "protocol": "cooperative-sticky"}, "max.poll.interval.ms, max.poll.records"),
    ],
)
def test_advice_fits_the_kind_of_client(protocol: dict[str, str], settings: str) -> None:
    """Goal: a worker of Kafka Connect has other settings, and no instance id; Kafka Streams takes no other assignor,
    and a group with the cooperative assignor is not advised to take it."""
    generations = [generation(2, 10, None, group_type="classic", **protocol)]
    joined = [{"kind": "member_joined"}]
    storm = [rebalance(number, 100 + number * 50, changes=joined) for number in range(2, 14)]
    timed_out = event("member_left", T + 100_000, "m-1", client_reason="worker poll timeout has expired.")
    reported = incidents(facts(generations=generations, rebalances=storm, events=[timed_out]), RULES)
    rows = {row["kind"]: row for row in reported}
    assert rows["poll_timeout"]["setting_to_change"] == settings
    of_storm = rows["rebalance_storm"]["explanation"], rows["rebalance_storm"]["setting_to_change"]
    is_eager = protocol.get("protocol") == "range"
    assert all(("cooperative-sticky" in text) == is_eager for text in of_storm)
    assert all(("group.instance.id" in text) == (protocol["protocol_type"] == "consumer") for text in of_storm)
    assert "{" not in "".join(of_storm)


@pytest.mark.parametrize(
    ("group_type", "setting"),
    [
        ("classic", "session.timeout.ms"),
        ("consumer", "consumer.session.timeout.ms of the group"),
        ("share", "share.session.timeout.ms of the group"),
        ("streams", "streams.session.timeout.ms of the group"),
    ],
)
def test_advice_fits_the_protocol(group_type: str, setting: str) -> None:
    """Goal: if the broker sets the session timeout, the client's setting, which the client would refuse, is not
    named."""
    of_type = generation(3, 10, None, group_type=group_type)
    row = found(facts(events=[EXPIRED], generations=[of_type]))["session_expired"]
    assert row["setting_to_change"] == setting
    assert f"raise {setting}." in row["explanation"]
