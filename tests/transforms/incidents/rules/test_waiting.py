"""Goal: records that wait without a reader, for a transaction, or after a commit that is too far on, are reported with
the known facts; and the daily routine of a group is no alarm."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.incidents.rules import GroupFacts, LagStretch, incidents
from groupledger.transforms.incidents.rules.facts import LeavingMember, TopicEnd, commit_steps
from lab.truth.made import RULES, T, commit, event, facts, generation, interval, request, tenure

if TYPE_CHECKING:
    from collections.abc import Iterable

LEFT = {"leave_cause": "left", "leave_cause_confidence": 0.95}
SILENT = {"leave_cause": "session_expired", "leave_cause_confidence": 0.85}
ENDED_S = 50  # when the last member was gone
KIND = "group_without_members"


def gone(
    *members: dict[str, Any],
    back_s: int | None = None,
    ends: Iterable[tuple[int, int]] = ((60, 100), (90, 160), (400, 900)),
    **others: Any,
) -> GroupFacts:
    """Facts of a group that had no members from `ENDED_S` on, and whose partition ends so at some seconds."""
    generations = [generation(3, 10, ENDED_S), generation(4, ENDED_S, back_s, member_count=0)]
    commits = [commit(90, T + 40_000, 40), commit(100, T + 45_000, 45)]
    if back_s is not None:
        generations.append(generation(5, back_s, None))
        commits.append(commit(500, T + back_s * 1_000 + 1_000, back_s + 1))
    samples = [TopicEnd(T + seconds * 1_000, end) for seconds, end in ends]
    given: dict[str, Any] = {
        "members": list(members),
        "generations": generations,
        "steps": commit_steps(commits, RULES.commit_gap_ms, {TopicPartition("orders", 0): samples}),
        "as_of_ms": T + 600_000,
    }
    return facts(**given | others)


def reported(given: GroupFacts, kind: str = KIND) -> dict[str, Any]:
    (row,) = [row for row in incidents(given, RULES) if row["kind"] == kind]
    return row


def is_reported(given: GroupFacts, kind: str = KIND) -> bool:
    return any(row["kind"] == kind for row in incidents(given, RULES))


def test_stopped_in_good_order() -> None:
    """Goal: the start, the number of waiting records, the last member and its way to leave are reported, without an
    alarm."""
    first, last = tenure("m-1", 10, ENDED_S - 1, **LEFT), tenure("m-2", 10, ENDED_S, client_id="last", **LEFT)
    row = reported(gone(first, last))
    assert (row["severity"], row["probable_root"], row["is_open"]) == ("info", "members_gone", True)
    assert (row["client_id"], row["client_host"]) == ("last", "10.0.0.1")
    assert (row["first_seen_at"], row["last_seen_at"]) == ((T + 90_000) * 1_000, (T + 600_000) * 1_000)
    assert row["explanation"] == (
        "For 510 s the group had no members, while up to 800 records waited in 1 partition; last at 10.0.0.1 was the"
        " last, and all of the last members left by themselves. Consumers that are stopped leave like this: start them"
        " again, or delete the group if it is no longer needed."
    )


def test_gone_without_a_word() -> None:
    """Goal: one whose session ran out makes it an alarm, in one episode with the expiry; one that did not poll, too."""
    crashed = gone(tenure("m-1", 10, ENDED_S, **SILENT), tenure("m-2", 10, ENDED_S, **LEFT))
    row = reported(crashed)
    assert (row["severity"], row["probable_root"]) == ("warning", "session_expired")
    assert row["episode_id"] == reported(crashed, "session_expired")["episode_id"]
    assert "a member disappeared without leaving" in row["explanation"]
    assert "left by themselves" not in row["explanation"]
    hung = reported(gone(tenure("m-1", 10, ENDED_S, leave_cause="left_poll_timeout", leave_cause_confidence=0.95)))
    assert (hung["severity"], hung["probable_root"]) == ("warning", "poll_timeout_exceeded")
    assert "what their processing waits for" in hung["explanation"]


def test_nobody_misses_a_console_consumer() -> None:
    """Goal: a name that a console consumer made for one use is without members from then on, which is no incident."""
    assert not is_reported(replace(gone(tenure("m-1", 10, ENDED_S, **SILENT)), group_id="console-consumer-50211"))
    assert is_reported(replace(gone(tenure("m-1", 10, ENDED_S, **SILENT)), group_id="console-consumer-billing"))


@pytest.mark.parametrize("has_log", [True, False])
def test_how_they_left_is_not_known(has_log: bool) -> None:
    """Goal: if it is as likely that the members were stopped as that they died, the sentence says so, and asks for the
    server log if there is none."""
    events = [event("stabilized", T + 11_000)] if has_log else []
    row = reported(gone(tenure("m-1", 10, ENDED_S, leave_cause="left", leave_cause_confidence=0.5), events=events))
    assert row["severity"] == "info"
    assert "stopped or died" in row["explanation"]
    assert ("import the server log" in row["explanation"]) is not has_log
    assert "was the last" not in reported(gone())["explanation"]


def test_what_a_log_says_wins() -> None:
    """Goal: a line of the server log, or a request to leave, says how a member went, whatever the records suggest."""
    member = tenure("m-1", 10, ENDED_S, leave_cause="left", leave_cause_confidence=0.95)
    failed = event("member_failed", T + ENDED_S * 1_000, "m-1")
    assert reported(gone(member, events=[failed]))["severity"] == "warning"
    early = event("member_failed", T - 3_600_000, "m-1")
    assert reported(gone(member, events=[early]))["severity"] == "info"
    silent = tenure("m-1", 10, ENDED_S, **SILENT)
    leave = request("LEAVE_GROUP", 0, T + ENDED_S * 1_000, None)
    leave = type(leave)(
        **{name: getattr(leave, name) for name in leave.__slots__ if name != "leaving"},
        leaving=(LeavingMember("m-1", None, "the consumer is being closed", 0),),
    )
    assert reported(gone(silent, requests=[leave]))["severity"] == "info"


def test_without_harm_it_is_none() -> None:
    """Goal: nothing is reported where nothing waits, or one marker, or not for long, or where the members stayed."""
    member = tenure("m-1", 10, ENDED_S, **SILENT)
    assert is_reported(gone(member))
    assert not is_reported(gone(member, ends=[(60, 100), (400, 101)]))
    assert not is_reported(gone(member, ends=[]))
    assert not is_reported(gone(member, back_s=ENDED_S + 100))
    assert is_reported(gone(member, back_s=ENDED_S + 300))
    assert not is_reported(gone(member, generations=[generation(3, 10, None)]))


def test_it_ends_when_somebody_comes_back() -> None:
    row = reported(gone(tenure("m-1", 10, ENDED_S, **SILENT), back_s=300))
    assert row["last_seen_at"] == (T + 300_000) * 1_000
    assert row["occurrences"] == 1


def test_a_job_between_its_runs() -> None:
    """Goal: a group that is away again and again for about as long is a job, and is not reported if it leaves in good
    order; if it dies each time, that is no alarm of this kind. An absence much longer than usual is reported."""

    def runs(cause: dict[str, Any], last_s: int) -> GroupFacts:
        begins = (10, 410, 810, 1_210)
        generations, members, commits = [], [], []
        for number, begin in enumerate(begins):
            end = begin + 200
            generations.append(generation(2 * number + 1, begin, end))
            following = begins[number + 1] if number + 1 < len(begins) else None
            generations.append(generation(2 * number + 2, end, following, member_count=0))
            members.append(tenure(f"m-{number}", begin, end, **cause))
            commits += [commit(number * 500 + each, T + (begin + each) * 1_000, begin + each) for each in (1, 2)]
        ends = {TopicPartition("orders", 0): [TopicEnd(T + second * 1_000, second + 9) for second in range(0, 4000, 5)]}
        steps = commit_steps(commits, RULES.commit_gap_ms, ends)
        as_of_ms = T + (begins[-1] + 200 + last_s) * 1_000
        return facts(generations=generations, members=members, steps=steps, as_of_ms=as_of_ms)

    assert not is_reported(runs(LEFT, 500))
    assert reported(runs(LEFT, 700))["severity"] == "info"
    rows = [row for row in incidents(runs(SILENT, 500), RULES) if row["kind"] == KIND]
    assert [row["severity"] for row in rows] == ["info"] * 4


# What the lag shows


def stretch(status: str, from_s: int, until_s: int, partition: int = 0, **fields: Any) -> LagStretch:
    given: dict[str, Any] = {"committed_offset": 54, "last_stable_offset": 54, "high_watermark": 283}
    return LagStretch(
        status=status,
        topic="orders",
        partition=partition,
        from_ms=T + from_s * 1_000,
        until_ms=T + until_s * 1_000,
        **given | fields,
    )


def open_transaction(from_s: int, until_s: int, partition: int = 0, **fields: Any) -> LagStretch:
    return stretch("waiting_for_transaction", from_s, until_s, partition, **fields)


def test_an_open_transaction() -> None:
    """Goal: partitions that wait for the same time are one incident, which does not blame their consumer."""
    row = reported(
        facts(lag_stretches=[open_transaction(60, 600), open_transaction(70, 600, 1)]), "open_transaction_in_topic"
    )
    assert (row["severity"], row["probable_root"]) == ("warning", "transaction_not_ended")
    assert row["explanation"].startswith(
        "The group has read up to the last stable offset of 2 partitions, where a transaction has been open for 540 s:"
        " 458 records wait after that offset."
    )
    assert "find-hanging" in row["explanation"]
    assert row["setting_to_change"] == "transaction.timeout.ms"


def test_transactions_that_end() -> None:
    """Goal: a short one is nothing, a longer one no alarm, nor are long ones one after the other."""
    kind = "open_transaction_in_topic"
    assert not is_reported(facts(lag_stretches=[open_transaction(60, 170)]), kind)
    assert reported(facts(lag_stretches=[open_transaction(60, 200)]), kind)["severity"] == "info"
    in_a_row = [
        open_transaction(600 * each, 600 * each + 590, last_stable_offset=54 + each, committed_offset=54 + each)
        for each in range(4)
    ]
    rows = [row for row in incidents(facts(lag_stretches=in_a_row), RULES) if row["kind"] == kind]
    assert [row["severity"] for row in rows] == ["info"] * 4


def test_nobody_waits_for_a_transaction() -> None:
    """Goal: if the group has no members, the incident is that members are missing, and not an open transaction."""
    absent = [generation(3, 10, ENDED_S), generation(4, ENDED_S, None, member_count=0)]
    given = facts(generations=absent, lag_stretches=[open_transaction(60, 600)], as_of_ms=T + 600_000)
    assert not is_reported(given, "open_transaction_in_topic")


def test_no_gap_while_a_transaction_is_open() -> None:
    """Goal: a group that waits for a transaction has not stopped committing; a group that is silent long after the
    transaction's end has."""
    commits = [commit(n, T + n * 1_000, n) for n in range(51, 55)]
    ends = [TopicEnd(T + second * 1_000, 283) for second in range(60, 900, 10)]
    given: dict[str, Any] = {
        "members": [tenure("m-1", 10, None)],
        "generations": [generation(3, 10, None)],
        "assignments": [interval("m-1", 0, 10, None)],
        "steps": commit_steps(commits, RULES.commit_gap_ms, {TopicPartition("orders", 0): ends}),
        "as_of_ms": T + 900_000,
    }
    assert is_reported(facts(**given), "commit_gap")
    assert not is_reported(facts(**given, lag_stretches=[open_transaction(60, 890)]), "commit_gap")
    row = reported(facts(**given, lag_stretches=[open_transaction(60, 300)]), "commit_gap")
    assert row["first_seen_at"] == (T + 300_000) * 1_000
    assert is_reported(facts(**given, lag_stretches=[open_transaction(60, 890, 1)]), "commit_gap")


def test_a_commit_ahead_of_the_end() -> None:
    ahead = [stretch("ahead_of_log", 10, 600, committed_offset=5_000, last_stable_offset=None, high_watermark=30)]
    row = reported(facts(lag_stretches=ahead), "commit_ahead_of_end")
    assert (row["severity"], row["probable_root"], row["setting_to_change"]) == ("warning", "offset_beyond_end", None)
    assert "lie beyond the ends of their logs, by 4,970 in total" in row["explanation"]
    assert "OFFSET_OUT_OF_RANGE" in row["explanation"]
    assert "--reset-offsets" in row["explanation"]
    passing = [stretch("ahead_of_log", 10, 30, committed_offset=5_000, last_stable_offset=None, high_watermark=30)]
    assert not is_reported(facts(lag_stretches=passing), "commit_ahead_of_end")


def test_members_of_whom_there_is_no_record() -> None:
    """Goal: a generation that the server log has ends the time without members, though no record followed; a line about
    an earlier one does not."""
    gone_s = tenure("m-1", 10, ENDED_S, **SILENT)
    later = event("stabilized", T + 52_000, generation=5)
    assert not is_reported(gone(gone_s, events=[later]))
    assert is_reported(gone(gone_s, events=[event("stabilized", T + 52_000, generation=3)]))
