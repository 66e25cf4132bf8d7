"""Compares a ledger's rows with the rows that a ledger can know of the simulator's truth.

Rows are compared as multisets: a surplus row is as wrong as a missing one. The truth is translated as follows:

- A generation is in force from its record (`recorded_at_ms`), not from the end of its join phase. It ends with the next
  record of its incarnation, or with the group's tombstone. A generation without a record only leaves a gap in the
  numbers.
- Intervals of ownership are compared unchanged, because truth and ledger both count from record to record. An open
  interval has no last generation yet.
- A tenure goes from the first record with the member to the first one without it. So it begins at or after the truth's
  tenure (the end of the join phase), and ends at or after the removal. A ledger does not know a member that is in no
  record.
- If a rebalance is a hole, only its two generations are compared, because the ledger can't know the rest.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import Ownership
from groupledger.transforms.logs.rules.triggers import triggers as triggers_by_log

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.coordinator.simulator.truth import TrueCause, TrueGeneration
    from lab.truth.simulated import Group, Ledger, Row

RecordPosition = tuple[int, int]
"""(incarnation, generation)."""


@dataclass(frozen=True)
class Score:
    """Counts the guesses about one trigger or cause: how often it was true, how often the ledger names it, and how
    often both agree."""

    truth_count: int
    guess_count: int
    right_count: int

    @property
    def precision(self) -> float | None:
        return self.right_count / self.guess_count if self.guess_count else None

    @property
    def recall(self) -> float | None:
        return self.right_count / self.truth_count if self.truth_count else None


@dataclass(frozen=True)
class Guessed:
    """A guess about the trigger of a rebalance or the cause of a member's leave: the true one, the inferred one, and
    the confidence of the ledger."""

    truth: str
    guess: str
    confidence: float


def differences(group: Group, ledger: Ledger) -> dict[str, list[str]]:
    """Returns, for each table, the missing and the surplus rows of a ledger that read every record."""
    expected = {
        "generations": _expected_generations(group),
        "assignments": _expected_intervals(group),
        "members": _expected_members(group),
        "rebalances": _expected_rebalances(group),
    }
    found: dict[str, Iterable[tuple[Any, ...]]] = {
        "generations": map(_generation, ledger.rows["generations"]),
        "assignments": map(_interval, ledger.rows["assignments"]),
        "members": map(_tenure, ledger.rows["members"]),
        "rebalances": map(_rebalance, ledger.rows["rebalances"]),
    }
    return {table: _difference(rows, found[table]) for table, rows in expected.items()}


def _difference(expected: Iterable[tuple[Any, ...]], found: Iterable[tuple[Any, ...]]) -> list[str]:
    wanted, had = Counter(expected), Counter(found)
    missing = [f"missing {row}" for row in (wanted - had).elements()]
    return missing + [f"too many {row}" for row in (had - wanted).elements()]


def _milliseconds(instant: int | None) -> int | None:
    return None if instant is None else instant // 1_000


# Generations


def recorded(group: Group) -> list[TrueGeneration]:
    """Returns the generations that have a record in the capture, in the order of the log."""
    return [
        row for row in group.truth.generations if row.kafka_offset is not None and row.kafka_offset < group.end_offset
    ]


def _incarnations(group: Group) -> list[list[TrueGeneration]]:
    return [list(rows) for _, rows in groupby(recorded(group), attrgetter("incarnation"))]


def _end_of_incarnation_ms(group: Group, incarnation: int) -> int | None:
    """Returns the time of the incarnation's tombstone, or None if there is none."""
    ends = [row.ended_at_ms for row in group.truth.generations if row.incarnation == incarnation]
    return None if None in ends else max(end for end in ends if end is not None)


def _expected_generations(group: Group) -> Iterable[tuple[Any, ...]]:
    for rows in _incarnations(group):
        gap, last = 0, None
        for row, following in zip(rows, [*rows[1:], None], strict=True):
            if not row.revision:
                gap = row.generation - (last.generation if last else 0) - 1 if row.generation else 0
            last = row
            ended_at_ms = following.recorded_at_ms if following else _end_of_incarnation_ms(group, row.incarnation)
            ended_by = "generation" if following else None if ended_at_ms is None else "tombstone"
            if following is not None and following.revision:
                ended_by = "revision"
            stated = (row.protocol_type, row.protocol, row.leader, len(row.member_ids))
            key = (row.incarnation, row.generation, row.revision, row.kafka_partition, row.kafka_offset)
            yield (*key, *stated, row.recorded_at_ms, ended_at_ms, ended_by, gap)


def _generation(row: Row) -> tuple[Any, ...]:
    return (
        *(row[name] for name in ("incarnation", "generation", "revision", "kafka_partition", "kafka_offset")),
        *(row[name] for name in ("protocol_type", "protocol", "leader", "member_count")),
        _milliseconds(row["started_at"]),
        _milliseconds(row["ended_at"]),
        row["ended_by"],
        row["generation_gap"],
    )


# Ownership


def _expected_intervals(group: Group) -> Iterable[tuple[Any, ...]]:
    for row in group.truth.owners:
        if row.from_kafka_offset < group.end_offset:
            is_open = row.to_kafka_offset is None or row.to_kafka_offset >= group.end_offset
            end = (None, None, None) if is_open else (row.to_generation, row.to_kafka_offset, row.valid_to_ms)
            key = (row.incarnation, row.topic, row.partition, row.member_id, row.client_id)
            yield (*key, row.from_generation, row.from_kafka_offset, row.valid_from_ms, *end)


def _interval(row: Row) -> tuple[Any, ...]:
    return (
        *(row[name] for name in ("incarnation", "topic", "partition")),
        *(row["member_id"], *row["other_member_ids"]),
        *(row[name] for name in ("client_id", "from_generation", "from_offset")),
        _milliseconds(row["valid_from"]),
        *(row[name] for name in ("to_generation", "to_offset")),
        _milliseconds(row["valid_to"]),
    )


def owners_at(group: Group, at_ms: int) -> dict[tuple[str, int], str]:
    """Returns the true owners by (topic, partition), as the records up to `at_ms` have them. A partition without an
    owner is left out."""
    return {
        (row.topic, row.partition): row.member_id
        for row in group.truth.owners
        if row.valid_from_ms <= at_ms and (row.valid_to_ms is None or at_ms < row.valid_to_ms)
        if row.from_kafka_offset < group.end_offset
    }


@dataclass(frozen=True)
class OwnerAnswers:
    """Counts the ledger's answers about the owners of all partitions of a group at an instant: definite ones, and
    unknown ones. `wrong` has a sentence for each wrong one."""

    definite: int
    unknown: int
    wrong: list[str]


def owner_answers(group: Group, ledger: Ledger, at_ms: int) -> OwnerAnswers:
    owners = owners_at(group, at_ms)
    answers = {unit: ledger.owner(*unit, at_ms) for unit in {(row.topic, row.partition) for row in group.truth.owners}}
    definite = {unit: answer for unit, answer in answers.items() if answer.status != "unknown"}
    wrong = []
    for unit, answer in sorted(definite.items()):
        is_right = answer.status == Ownership.OWNED if unit in owners else Ownership.is_nobodys(answer.status)
        expected = (owners[unit],) if unit in owners else ()
        if not is_right or answer.member_ids != expected:
            wrong.append(f"{unit} at {at_ms}: {answer}, not {expected or 'nobody'}")
    return OwnerAnswers(len(definite), len(answers) - len(definite), wrong)


# Members


def _expected_members(group: Group) -> Iterable[tuple[Any, ...]]:
    tenures = {(row.incarnation, row.member_id): row for row in group.truth.members}
    for rows in _incarnations(group):
        for member_id in {member_id: None for row in rows for member_id in row.member_ids}:
            held = [row for row in rows if member_id in row.member_ids]
            following = next(iter(rows[rows.index(held[-1]) + 1 :]), None)
            end: tuple[Any, ...] = (None, None, None)
            if following is not None:
                end = (held[-1].generation, following.kafka_offset, following.recorded_at_ms)
            facts = tenures[rows[0].incarnation, member_id]
            yield (
                *(facts.incarnation, member_id, facts.group_instance_id, facts.client_id, facts.client_host),
                *(facts.session_timeout_ms, facts.rebalance_timeout_ms),
                *(held[0].generation, held[0].kafka_offset, held[0].recorded_at_ms),
                *end,
            )


def _tenure(row: Row) -> tuple[Any, ...]:
    return (
        *(row[name] for name in ("incarnation", "member_id", "group_instance_id", "client_id", "client_host")),
        *(row[name] for name in ("session_timeout_ms", "rebalance_timeout_ms", "from_generation", "from_offset")),
        _milliseconds(row["joined_at"]),
        *(row[name] for name in ("to_generation", "to_offset")),
        _milliseconds(row["left_at"]),
    )


def untimely_tenures(group: Group, ledger: Ledger) -> list[str]:
    """Returns a sentence for each tenure of the ledger that begins before a generation counted the member, ends before
    the member was removed, or is open although a later record lacks the member."""
    wrong = []
    last_recorded_ms = max((row.recorded_at_ms or 0 for row in recorded(group)), default=0)
    for row in ledger.rows["members"]:
        place = (row["incarnation"], row["member_id"])
        truth = [each for each in group.truth.members if (each.incarnation, each.member_id) == place]
        left_at_ms = _milliseconds(row["left_at"])
        is_right = any(
            each.joined_at_ms * 1_000 <= row["joined_at"]
            and (
                (each.left_at_ms is None or each.left_at_ms >= last_recorded_ms)
                if left_at_ms is None
                else each.left_at_ms is not None and each.left_at_ms <= left_at_ms
            )
            for each in truth
        )
        if not is_right:
            wrong.append(f"{group.group_id} {place}: joined {row['joined_at']}, left {row['left_at']}, not {truth}")
    return wrong


# Rebalances


def causes(group: Group) -> dict[RecordPosition, TrueCause]:
    """Returns the true causes of the rebalances whose generation has a record, by (incarnation, generation). If a
    failover undid a generation, its number comes again, and only the second one has a record."""
    return {(row.incarnation, row.to_generation): row for row in group.truth.causes if row.changes is not None}


def _expected_rebalances(group: Group) -> Iterable[tuple[Any, ...]]:
    by_place = causes(group)
    for rows in _incarnations(group):
        last = 0
        for row in rows:
            if row.generation and not row.revision:
                cause = by_place[row.incarnation, row.generation]
                lost = set(range(last + 1, row.generation))
                kinds = None if lost else cause.changes
                numbers = (row.incarnation, cause.from_generation or 0, row.generation)
                yield (*numbers, row.kafka_offset, row.recorded_at_ms, bool(lost), len(lost), kinds)
            last = row.generation


def _rebalance(row: Row) -> tuple[Any, ...]:
    return (
        *(row[name] for name in ("incarnation", "from_generation", "to_generation", "kafka_offset")),
        _milliseconds(row["happened_at"]),
        row["is_hole"],
        row["generation_gap"],
        _kinds(row),
    )


def _kinds(row: Row) -> tuple[str, ...] | None:
    return None if row["changes"] is None else tuple(sorted({change["kind"] for change in row["changes"]}))


def lost_generations(group: Group) -> set[RecordPosition]:
    """Returns the positions of the true generations that have no record, though a later generation of their incarnation
    has one."""
    last = {rows[-1].incarnation: rows[-1].generation for rows in _incarnations(group)}
    stated = {(row.incarnation, row.generation) for row in recorded(group)}
    begun = {(row.incarnation, row.generation) for row in group.truth.generations}
    return {place for place in begun - stated if place[1] < last.get(place[0], 0)}


def holes(ledger: Ledger) -> set[RecordPosition]:
    return {
        (row["incarnation"], number)
        for row in ledger.rows["rebalances"]
        for number in range(row["to_generation"] - row["generation_gap"], row["to_generation"])
    }


def triggers(group: Group, ledger: Ledger) -> list[Guessed]:
    """Returns the true and the inferred trigger of every rebalance that is not a hole."""
    by_place = causes(group)
    return [
        Guessed(
            by_place[row["incarnation"], row["to_generation"]].trigger,
            row["inferred_trigger"],
            row["inferred_trigger_confidence"],
        )
        for row in ledger.rows["rebalances"]
        if not row["is_hole"]
    ]


def logged_triggers(group: Group, ledger: Ledger) -> list[Guessed]:
    """Returns the true trigger of every rebalance, and the one that the server log shows. For a hole it is the trigger
    of the last of its generations."""
    by_place = causes(group)
    rows = sorted(ledger.rows["rebalances"], key=itemgetter("kafka_offset"))
    return [
        Guessed(by_place[row["incarnation"], row["to_generation"]].trigger, str(found["trigger"]), 1.0)
        for row, found in zip(rows, triggers_by_log(rows, group.events), strict=True)
    ]


def leaves(group: Group, ledger: Ledger) -> list[Guessed]:
    """Returns the true and the inferred cause of every leave for which the ledger has a cause."""
    causes_by_place = {(row.incarnation, row.member_id): str(row.leave_cause) for row in group.truth.members}
    return [
        Guessed(
            causes_by_place[row["incarnation"], row["member_id"]], row["leave_cause"], row["leave_cause_confidence"]
        )
        for row in ledger.rows["members"]
        if row["leave_cause"] is not None
    ]


def scores(guesses: Iterable[Guessed]) -> dict[str, Score]:
    pairs = Counter((guessed.truth, guessed.guess) for guessed in guesses)
    names = sorted({name for pair in pairs for name in pair})
    return {
        name: Score(
            sum(count for (truth, _), count in pairs.items() if truth == name),
            sum(count for (_, guess), count in pairs.items() if guess == name),
            pairs[name, name],
        )
        for name in names
    }


def by_confidence(guesses: Iterable[Guessed]) -> list[tuple[float, int, int]]:
    """Returns (confidence, number of guesses, number of right guesses) for each step of a tenth in confidence, highest
    first."""
    steps: Counter[tuple[float, bool]] = Counter()
    for guessed in guesses:
        steps[int(guessed.confidence * 10 + 1e-9) / 10, guessed.truth == guessed.guess] += 1
    return [
        (step, steps[step, True] + steps[step, False], steps[step, True])
        for step in sorted({step for step, _ in steps}, reverse=True)
    ]


# After the log cleaner


def wrong_claims(group: Group, ledger: Ledger) -> list[str]:
    """Returns the claims in `generations`, `rebalances` and `assignments` that contradict the truth. The ledger has
    read a log from which the cleaner had removed records: it may say less than the truth, but nothing false."""
    generations = {row.kafka_offset: row for row in recorded(group)}
    wrong = []
    for row in ledger.rows["generations"]:
        true = generations[row["kafka_offset"]]
        stated = (row["generation"], row["protocol_type"], row["protocol"], row["leader"], row["member_count"])
        if stated != (true.generation, true.protocol_type, true.protocol, true.leader, len(true.member_ids)):
            wrong.append(f"{group.group_id}: {stated}, not {true}")
    for row in ledger.rows["rebalances"]:
        true = generations[row["kafka_offset"]]
        claimed = _kinds(row)
        changes = causes(group)[true.incarnation, true.generation].changes or ()
        # The number of partitions is only known to a ledger that has seen all records.
        if claimed is not None and not set(claimed) <= set(changes) <= {*claimed, "partitions_added"}:
            wrong.append(f"{group.group_id} into generation {true.generation}: {claimed}, not {changes}")
        if row["is_hole"] and (row["changes"], row["inferred_trigger"], row["partitions_moved"]) != (None, None, None):
            wrong.append(f"{group.group_id}: a hole that claims {row}")
    return wrong + _wrong_ends(group, ledger)


def _wrong_ends(group: Group, ledger: Ledger) -> list[str]:
    """Returns the intervals with a definite end that is wrong."""
    begins = {(row.topic, row.partition, row.from_kafka_offset, row.member_id) for row in group.truth.owners}
    ends = {(row.topic, row.partition, row.to_kafka_offset, row.member_id) for row in group.truth.owners}
    found = []
    for row in ledger.rows["assignments"]:
        unit = (row["topic"], row["partition"])
        if row["is_start_known"] and (*unit, row["from_offset"], row["member_id"]) not in begins:
            found.append(f"{group.group_id} {unit}: does not begin at {row['from_offset']}")
        if row["is_end_known"] and (*unit, row["to_offset"], row["member_id"]) not in ends:
            found.append(f"{group.group_id} {unit}: does not end at {row['to_offset']}")
    return found
