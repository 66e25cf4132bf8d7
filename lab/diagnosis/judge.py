"""Compares the ledger's diagnoses of a group with what was played in it. Pure: no files, no clock.

A diagnosis claims one cause, or lists several rivals that remain. The result for each true cause is

    right     a diagnosis claims it, under its own name or one with the same meaning
    rivals    no diagnosis claims it, but one lists it among its rivals
    wrong     no diagnosis names it, and one claims another cause
    silent    no diagnosis names it, and none claims another cause

In addition, a claim of a cause that was not played is a false claim. A client that a diagnosis blames, although no
cause concerns it, is a healthy client that is blamed. A diagnosis of severity info claims nothing: it is normal
operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.schemas.words import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lab.diagnosis.truth import Cause, Played

RIGHT, RIVALS, WRONG, SILENT = "right", "rivals", "wrong", "silent"
OUTCOMES = (RIGHT, RIVALS, WRONG, SILENT)


@dataclass(frozen=True, slots=True)
class Said:
    """One diagnosis in an answer. `causes` has one proved cause, or the remaining rivals (perhaps only one). `who` are
    the client ids that it blames."""

    causes: tuple[str, ...]
    who: tuple[str, ...] = ()
    severity: str = Severity.WARNING
    is_proved: bool = True

    @property
    def claims(self) -> bool:
        return self.is_proved and self.severity != Severity.INFO


@dataclass(frozen=True, slots=True)
class Judged:
    """The judgement of an answer. `outcomes` has, in the order of the true causes, the name and the result of each.
    `false_claims` are causes that were claimed but not played, and `blamed` are the healthy clients that were
    blamed."""

    outcomes: tuple[tuple[str, str], ...]
    false_claims: tuple[str, ...]
    blamed: tuple[str, ...]


def names_of(cause: Cause) -> set[str]:
    return {cause.name, *cause.also}


def judged(played: Played, said: Sequence[Said]) -> Judged:
    true = {name for cause in played.causes for name in (*names_of(cause), *cause.beside)}
    false = tuple(sorted({each.causes[0] for each in said if each.claims and each.causes[0] not in true}))
    outcomes = tuple((cause.name, _outcome(names_of(cause), said, has_false=bool(false))) for cause in played.causes)
    return Judged(outcomes, false, tuple(sorted(set(_blamed(played, said)))))


def _outcome(names: set[str], said: Iterable[Said], *, has_false: bool) -> str:
    found = [each for each in said if names & set(each.causes)]
    if any(each.is_proved for each in found):
        return RIGHT
    if found:
        return RIVALS
    return WRONG if has_false else SILENT


def _blamed(played: Played, said: Iterable[Said]) -> Iterator[str]:
    """Yields the clients that are named though they are well. A cause that is nobody's has no clients."""
    concerned = {client for cause in played.causes for client in cause.who}
    for each in said:
        if each.severity != Severity.INFO:
            yield from (client for client in each.who if client in played.clients and client not in concerned)
