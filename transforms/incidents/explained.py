"""Divides the explanation of an incident, which is one text in a row of `incidents`, into what happened and what to do.

The clauses of its kind say where the first part ends. Names in the text come from clients, so nothing here searches it
more than once for each clause.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from groupledger.schemas.kinds.clauses import PARTITIONS, clauses_of
from groupledger.schemas.kinds.incidents import INCIDENT_KINDS

if TYPE_CHECKING:
    from groupledger.schemas.kinds.clauses import Clause

_KINDS = {kind.name: kind for kind in INCIDENT_KINDS}
_PLACE = re.compile(r"\{\w+\}")


def divided(kind: str, explanation: str) -> tuple[str, str | None]:
    """Returns what happened and what to do, by the explanation of an incident of this kind; None if the explanation has
    no advice, or is in the words of another release."""
    clauses = clauses_of(_KINDS[kind].happened) if kind in _KINDS else ()
    singular = [(clause, clause.text.replace(PARTITIONS, PARTITIONS[:-1])) for clause in clauses]
    for texts in ([(clause, clause.text) for clause in clauses], singular):
        end = _end(explanation, texts)
        if end:
            return explanation[:end], explanation[end:].strip() or None
    return explanation, None


def _end(explanation: str, texts: list[tuple[Clause, str]]) -> int | None:
    """Returns where the clauses end in an explanation; None if one is missing that each explanation has."""
    at = 0
    for clause, text in texts:
        is_optional = bool(clause.needs or clause.excludes)
        pieces = _PLACE.split(text)
        end = None if is_optional and not explanation.startswith(pieces[0], at) else _after(explanation, at, pieces)
        if end is None and not is_optional:
            return None
        at = at if end is None else end
    return at


def _after(explanation: str, at: int, pieces: list[str]) -> int | None:
    """Returns where a clause ends that begins at `at` or, if that lies within a name, later; None if it does not come.
    `pieces` is its text between the places for names."""
    for piece in pieces:
        found = explanation.find(piece, at)
        if found < 0:
            return None
        at = found + len(piece)
    return at
