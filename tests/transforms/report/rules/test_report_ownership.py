"""Goal: the report draws, at every instant, the owners that `groupledger owner` answers."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.transforms.history.rules.ownership_answer import owner_at
from groupledger.transforms.report.rules.report_ownership import Bar, Span, bars, spans
from lab.truth.histories import Log, member, stretch
from lab.truth.simulated import groups_of, ledger_of, thinned
from tests.jobs.report.report_pages import START, START_MS, history_of, of_fold

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from groupledger.jobs.ask.owners import GroupHistory


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def drawn(rows: GroupHistory, since: datetime, until: datetime) -> tuple[list[Span], list[Bar]]:
    of_group = spans(rows.group, rows.generations, rows.coverage, since, until)
    return of_group, bars(rows.assignments, of_group, rows.coverage)


def answer(of_group: Sequence[Span], found: Sequence[Bar], unit: tuple[str, int], when: datetime) -> tuple[Any, ...]:
    (span,) = [each for each in of_group if each.begin <= when < each.end]
    if span.is_whole_group:
        return (span.status,)
    (bar,) = [each for each in found if each.unit == unit and each.begin <= when < each.end]
    return (bar.status,) if bar.interval is None else (bar.interval["member_id"],)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["leader-loss", "group-reborn"])
@pytest.mark.parametrize("is_thinned", [False, True])
def test_agrees_with_owner(scenario: str, is_thinned: bool) -> None:
    """Goal: at random instants, and at those where something changes, each partition has the answer of `owner`."""
    random = Random(5)
    (group,) = groups_of(scenario, 7, 1, is_leisurely=True)
    ledger = ledger_of(thinned(group, random) if is_thinned else group)
    rows = of_fold(ledger.rows, ledger.coverage)
    begins = [row["started_at"] for row in rows.generations]
    since, until = min(begins) - timedelta(minutes=1), max(begins) + timedelta(minutes=20)
    of_group, found = drawn(rows, since, until)
    edges = [row[name] for row in rows.assignments for name in ("valid_from", "valid_to") if row[name] is not None]
    instants = [each for each in (*edges, *begins) if since <= each < until]
    instants += [since + random.random() * (until - since) for _ in range(100)]
    answers = set()
    for unit in {(row["topic"], row["partition"]) for row in rows.assignments}:
        for when in instants:
            expected = owner_at(rows.group, rows.generations, rows.assignments, rows.coverage, *unit, when)
            assert answer(of_group, found, unit, when) == (expected.member_ids[:1] or (expected.status,))
            answers.add(expected.status)
    assert len(answers) > 1


def test_unowned_and_unknown() -> None:
    """Goal: a partition that a generation gives to nobody is unowned; an assignment that can't be read is unknown; an
    empty generation and a hole are reported for the whole group."""
    log = (
        Log()
        .wait(START_MS)
        .record(1, member("a", 0, 1))
        .record(2, member("a", 0))
        .record(3, member("a", is_readable=False))
    )
    log.record(4).wait(10_000)
    coverage = [stretch(0, 100, (START_MS, START_MS + 6_000), "complete")]
    of_group, found = drawn(history_of("g", log.entries, coverage), START, at(8))
    assert [(span.begin, span.end, span.status, span.is_whole_group) for span in of_group] == [
        (at(0), at(1), "not_born", True),
        (at(1), at(3), "unowned", False),
        (at(3), at(4), "unknown", True),
        (at(4), at(6), "unowned", True),
        (at(6), at(8), "unknown", True),
    ]
    assert [(bar.unit[1], bar.begin, bar.end, bar.status) for bar in found] == [
        (0, at(1), at(3), "owned"),
        (1, at(1), at(2), "owned"),
        (1, at(2), at(3), "unowned"),
    ]
