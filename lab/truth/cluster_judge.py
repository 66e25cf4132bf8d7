"""Compares the ledger's answers about a cluster whose brokers failed with the truth (`cluster_truth`). Pure.

Each answer is right, not known (the ledger says that it does not know) or wrong; each wrong answer gives a sentence. If
the truth itself is not known, such as the owner right before or after a change, the answer does not count.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds import roots
from groupledger.schemas.kinds.causes.cause import Fault as WhoseFault
from groupledger.schemas.kinds.incidents import COORDINATOR_FAILED, COORDINATOR_NOT_FOUND, REMOVALS, ZOMBIE_COORDINATOR
from groupledger.schemas.kinds.triggers import LEFT, SESSION_EXPIRED, UNKNOWN
from groupledger.schemas.words import Evidence, LagFlag, LagStatus, LeaveCause, Ownership, Severity, words_of
from groupledger.transforms.incidents.rules.coordinator_faults import DETECTION_MS
from lab.truth.cluster_truth import offsets_in, positions_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lab.truth.cluster_truth import Fault, Place, Span, Truth

    Row = Mapping[str, Any]

STABLE, NO_EPOCH = "Stable", -1  # as Kafka's Admin client has them
RIGHT, NOT_KNOWN, WRONG = "right", "not known", "wrong"
OUTCOMES = (RIGHT, NOT_KNOWN, WRONG)
OF_BROKERS = {each.name for each in (COORDINATOR_FAILED, COORDINATOR_NOT_FOUND, ZOMBIE_COORDINATOR)}
OF_REMOVALS = {each.name for each in REMOVALS}
STANDS_STILL = (LagStatus.STOPPED, LagStatus.STALLED)
ROUND_MS = 6_000  # from before a round reads the ends of the log to its last answer, with all brokers well
MOVED_WITHIN_MS = 30_000
LINE_MS = 30_000  # between a line of a coordinator and the record that it led to
AFTER_WHY_MS = 60_000
NOTICED_MS = 45_000  # between the end of a fault and the first sign of it
ENDED_WITHIN_MS = 150_000  # a session, a rebalance, and the pattern that comes of it


@dataclass
class Tally:
    """Counts the outcomes by what was asked, and lists a sentence for each wrong answer."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, what: str, outcome: str, sentence: str = "") -> None:
        self.counts[what, outcome] += 1
        if outcome == WRONG:
            self.wrong.append(f"{what}: {sentence}")


def judge_owner(
    tally: Tally, truth: Truth, group_id: str, place: Place, at_ms: int, answer: tuple[str, frozenset[str]]
) -> None:
    """Judges an answer about the owners of a partition. `answer` has the status and the owners' client ids. Only a
    share group has several owners."""
    owners = truth.owners(group_id, place, at_ms)
    if not owners:
        return
    what = f"owners, {truth.groups[group_id]}"
    status, clients = answer
    if status == Ownership.UNKNOWN:
        tally.add(what, NOT_KNOWN)
        return
    is_right = status == Ownership.OWNED and clients == owners
    tally.add(
        what,
        RIGHT if is_right else WRONG,
        f"{group_id}: {place} at {at_ms} was {sorted(owners)}'s, and is said to be {status} {sorted(clients)}",
    )


def judge_members(
    tally: Tally, truth: Truth, group_id: str, at_ms: int, answer: tuple[object, Iterable[str]] | None
) -> None:
    """Judges who was a member at an instant, and in which epoch. `answer` has the epoch and the members' ids; it is
    None if the ledger knows no generation then. Admin has no generation of a classic group."""
    around = truth.around(group_id, at_ms)
    described = {(row["epoch"], frozenset(each[0] for each in row["members"])) for row in around}
    if len(described) != 1 or any(row["state"] != STABLE for row in around):
        return
    ((epoch, members),) = described
    what = f"members, {truth.groups[group_id]}"
    if answer is None:
        tally.add(what, NOT_KNOWN)
        return
    is_right = frozenset(answer[1]) == members and epoch in (NO_EPOCH, answer[0])
    said = f"{group_id} at {at_ms}: {answer[0]} {sorted(answer[1])}, Admin has {epoch} {sorted(members)}"
    tally.add(what, RIGHT if is_right else WRONG, said)


# Lag


def judge_lag(tally: Tally, truth: Truth, row: Row) -> None:
    """Judges a row of `lag` from a sampling round while groups made progress. Each number must lie within what the
    brokers reported from their last answer before the round to the first one after it."""
    place, at_ms = (row["topic"], row["partition"]), row["sampled_ms"]
    committed, ends = _around(truth, place, at_ms)
    if committed is None or ends is None:
        return
    about = f"{row['group_id']} {place} at {at_ms}"
    if row["status"] in STANDS_STILL and _has_moved(truth, place, at_ms):
        tally.add("lag, live", WRONG, f"{about}: {row['status']}, though it committed: {committed}")
    elif LagFlag.NO_COMMIT in row["flags"]:
        tally.add("lag, live", WRONG, f"{about}: no commit, and the broker had {committed}")
    elif row["lag"] is None:
        tally.add("lag, live", NOT_KNOWN)
    else:
        least, most = max(0, ends.least - committed.most), ends.most - committed.least
        is_right = least <= row["lag"] <= most and committed.least <= row["committed_offset"] <= committed.most
        found = f"{row['lag']} behind at {row['committed_offset']}"
        tally.add("lag, live", RIGHT if is_right else WRONG, f"{about}: {found}; commits {committed}, ends {ends}")


def _around(truth: Truth, place: Place, at_ms: int) -> tuple[Span | None, Span | None]:
    committed, ends = truth.committed.get(place), truth.ends.get(place)
    if committed is None or ends is None:
        return None, None
    span = (at_ms - ROUND_MS, at_ms + ROUND_MS)
    return committed.between(*span), ends.between(*span)


def _has_moved(truth: Truth, place: Place, at_ms: int) -> bool:
    samples = truth.committed.get(place)
    span = None if samples is None else samples.between(at_ms - MOVED_WITHIN_MS, at_ms - ROUND_MS)
    return span is not None and span.most > span.least


def judge_rest(tally: Tally, what: str, answers: Sequence[Row], rows: Iterable[Row]) -> None:
    """Judges the rows of `lag` of the last round, when nothing moved any more: they must equal what Admin reports.
    `answers` are the brokers' last answers."""
    ends, committed = offsets_in(answers, "ends"), offsets_in(answers, "commits")
    last = {(row["topic"], row["partition"]): row for row in sorted(rows, key=lambda row: row["sampled_ms"])}
    for place, offset in sorted(committed.items()):
        row = last.get(place)
        if row is None or row["lag"] is None:
            tally.add(what, NOT_KNOWN)
            continue
        found, true = (row["committed_offset"], row["lag"]), (offset, ends[place] - offset)
        tally.add(what, RIGHT if found == true else WRONG, f"{place}: {found}, Admin has {true}")


def judge_positions(tally: Tally, what: str, answers: Sequence[Row], rows: Iterable[Row]) -> None:
    """Judges the rows of `share_partitions` of the last pass, when nothing moved any more."""
    last = {(row["topic"], row["partition"]): row for row in sorted(rows, key=lambda row: row["sampled_ms"])}
    for place, true in sorted(positions_in(answers).items()):
        row = last.get(place)
        if row is None:
            tally.add(what, NOT_KNOWN)
            continue
        found = (row["start_offset"], row["lag"])
        tally.add(what, RIGHT if found == true else WRONG, f"{place}: {found}, Admin has {true}")


# Departures


def judge_departure(tally: Tally, truth: Truth, row: Row) -> None:
    """Judges the cause that the ledger gives for the end of a tenure. If the play did not end the member, the only true
    cause is an expired session, and only if a broker logged that."""
    cause = row["leave_cause"]
    if row["left_ms"] is None or cause in words_of(LeaveCause):
        return
    if cause in (None, UNKNOWN.name):
        tally.add("causes of departures", NOT_KNOWN)
        return
    true = true_cause(truth, row)
    about = f"{row['group_id']}: {row['client_id']} ({row['member_id']}) at {row['left_ms']}"
    confidence = row["leave_cause_confidence"]
    tally.add(
        "causes of departures",
        RIGHT if cause == true else WRONG,
        f"{about}: {cause} ({confidence}), in truth {true or 'nothing was done to it'}",
    )


def true_cause(truth: Truth, row: Row) -> str | None:
    life = truth.life(row["client_id"])
    if life is not None and life["ended"] is not None and row["left_ms"] >= life["ended_ms"] - 1_000:
        return LEFT.name if life["ended"] == "closed" and not life["is_static"] else SESSION_EXPIRED.name
    if abs(truth.left.get(row["member_id"], 0) - row["left_ms"]) <= 1_000:  # one whose session had expired before
        return LEFT.name
    return SESSION_EXPIRED.name if has_expired(truth, row["member_id"], row["left_ms"]) else None


def has_expired(truth: Truth, member_id: str | None, at_ms: int) -> bool:
    """Returns whether a broker logged, within `LINE_MS` of `at_ms`, that the member's session had expired."""
    return any(abs(logged_ms - at_ms) <= LINE_MS for logged_ms in truth.expired.get(member_id or "", ()))


# Incidents


def judge_incident(tally: Tally, truth: Truth, row: Row) -> None:
    """Judges an incident of a group above severity info: whether the play did something to the client that it blames.
    One that names no cause blames nobody. If it is an observed removal, also judges whether the member is absent from
    the brokers' descriptions afterwards."""
    if row["severity"] == Severity.INFO or row["kind"] in OF_BROKERS or row["group_id"] is None:
        return
    about = f"{row['kind']} ({row['evidence']}) of {row['group_id']} {row['client_id']} at {row['first_seen_ms']}"
    if row["kind"] in OF_REMOVALS and row["evidence"] == Evidence.OBSERVED:
        seen_ms = row["last_seen_ms"]
        is_there = truth.stayed(row["group_id"], row["member_id"], seen_ms - 5_000, seen_ms + LINE_MS)
        tally.add("removals observed", WRONG if is_there else RIGHT, f"{about}: the member stayed")
    fault = fault_at(truth, row["first_seen_ms"])
    if fault is None and has_expired(truth, row["member_id"], row["first_seen_ms"]):
        return  # by the machine's own slowness: a client that was played to be well was not
    mistaken = NOT_KNOWN if row["probable_root"] == roots.UNKNOWN.name else WRONG
    tally.add(
        "incidents of groups",
        RIGHT if is_played(truth, row["group_id"], row["client_id"], row["first_seen_ms"]) else mistaken,
        f"{about}: {'nothing was done then' if fault is None else f'{fault} blamed on clients'}: {row['explanation']}",
    )


def is_played(truth: Truth, group_id: str, client_id: str | None, at_ms: int) -> bool:
    """Returns whether the play had ended the client shortly before `at_ms`, or, if `client_id` is None, any client of
    the group."""
    of_group = [name for name, life in truth.lives.items() if life["group_id"] == group_id]
    clients = of_group if client_id is None else [client_id]
    return any(truth.is_ended(name, at_ms, ENDED_WITHIN_MS) for name in clients)


def fault_at(truth: Truth, at_ms: int) -> Fault | None:
    return next((each for each in truth.faults if each.holds(at_ms)), None)


def judge_episodes(tally: Tally, truth: Truth, rows: Iterable[Row]) -> None:
    """Judges the episodes of failed coordinators: there may be one for each death, freeze or move of a broker, and no
    other. It is right if there is one, and not known if a death or a freeze has none. A move needs none. If the
    controller took a broker for dead that was only slow, the episode does not count."""
    failures = sorted((row for row in rows if row["kind"] == COORDINATOR_FAILED.name), key=itemgetter("first_seen_ms"))
    began = {row["episode_id"]: row["first_seen_ms"] for row in reversed(failures)}
    for fault, later in zip(truth.faults, [*truth.faults[1:], None], strict=True):
        found = {row["episode_id"] for row in failures if _meets(row, fault)}
        # An episode begins `DETECTION_MS` before the first new coordinator, and may go on during the next fault.
        ends_ms = math.inf if later is None else later.from_ms
        its_own = [each for each in found if fault.from_ms <= began[each] + DETECTION_MS < ends_ms]
        if len(its_own) > 1:
            tally.add("episodes of brokers", WRONG, f"{fault}: {len(its_own)} episodes")
        elif found or not fault.is_move:
            tally.add("episodes of brokers", RIGHT if found else NOT_KNOWN)
    for row in failures:
        if not any(_meets(row, fault) for fault in truth.faults) and not _is_of_slow_broker(row, truth):
            tally.add("episodes of brokers", WRONG, f"nothing was done at {row['first_seen_ms']}: {row['explanation']}")


def _meets(row: Row, fault: Fault) -> bool:
    return int(row["first_seen_ms"]) <= fault.until_ms + NOTICED_MS and int(row["last_seen_ms"]) >= fault.from_ms


def _is_of_slow_broker(row: Row, truth: Truth) -> bool:
    return any(row["first_seen_ms"] - NOTICED_MS <= at_ms <= row["last_seen_ms"] + NOTICED_MS for at_ms in truth.fenced)


def judge_why(tally: Tally, truth: Truth, fault: Fault, group_id: str, diagnosis: Sequence[Row]) -> None:
    """Judges the answer of `why` for the time of a broker's fault: it may not blame any client that the play left
    alone."""
    blaming = [
        each
        for each in diagnosis
        if each["severity"] != Severity.INFO
        and each["fault"] in (None, WhoseFault.CLIENT)
        and (each["fault"] is not None or each["client_id"] is not None)
        and not is_played(truth, group_id, each["client_id"], fault.until_ms + AFTER_WHY_MS)
    ]
    said = "; ".join(f"{each['cause'] or 'one of several causes'} of {each['client_id']}" for each in blaming)
    tally.add("why in a broker's fault", WRONG if blaming else RIGHT, f"{group_id} in {fault}: {said}")
