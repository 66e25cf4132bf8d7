"""Judges the causes of an episode: the one that is proved, or the rivals that are left.

A cause is ruled out if a sign against it is known, or if a sign that it needs is not even possible. It is proved if all
signs of one of its proofs are known, and all that it needs, and no sign against it is possible. If several causes are
proved, the first of them in the table of causes is the cause, and the others accompany it. A cause that is neither
proved nor ruled out is a rival; those whose needs are all known come before those whose needs are only possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.schemas.kinds.causes import CAUSES

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from groupledger.schemas.kinds.causes.cause import Cause
    from groupledger.schemas.kinds.signs import Sign
    from groupledger.schemas.kinds.symptoms import Symptom
    from groupledger.transforms.incidents.diagnosis.evidence import Seen


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """Holds the judgement of an episode's causes. `proof` are the signs that prove `cause`, `beside` are further proved
    causes, and `rivals` are the causes that are left if none is proved."""

    cause: Cause | None = None
    proof: tuple[Sign, ...] = ()
    beside: tuple[Cause, ...] = ()
    rivals: tuple[Cause, ...] = ()


def judged(symptoms: Sequence[Symptom], seen: Seen) -> Judgement:
    """Returns the judgement of the causes that show one of these symptoms, by the signs that were seen."""
    causes = [cause for cause in CAUSES if any(symptom in cause.symptoms for symptom in symptoms)]
    causes = [cause for cause in causes if not _is_against(cause, seen.known)]
    undoubted = [cause for cause in causes if not _is_against(cause, seen.possible)]
    proofs = {cause.name: proof for cause in undoubted if (proof := proof_of(cause, seen)) is not None}
    if not proofs:
        rivals = [cause for cause in causes if _is_suspected(cause, seen)]
        return Judgement(rivals=tuple(sorted(rivals, key=lambda cause: not _is_seen(cause, seen))))
    first, *others = (cause for cause in causes if cause.name in proofs)
    return Judgement(cause=first, proof=proofs[first.name], beside=tuple(others))


def proof_of(cause: Cause, seen: Seen) -> tuple[Sign, ...] | None:
    """Returns the signs that prove the cause; None if none of its proofs is complete. If several proofs are complete,
    one with a sign from a log is preferred."""
    if not all(sign.name in seen.known for sign in cause.needs):
        return None
    held = [proof for proof in cause.proved_by if all(sign.name in seen.known for sign in proof)]
    if not held:
        return None
    best = max(held, key=lambda proof: any(sign.name in seen.logged for sign in proof))
    return tuple(dict.fromkeys((*best, *cause.needs)))


def _is_against(cause: Cause, names: Container[str]) -> bool:
    return any(sign.name in names for sign in cause.against)


def _is_seen(cause: Cause, seen: Seen) -> bool:
    return all(sign.name in seen.known for sign in cause.needs)


def _is_suspected(cause: Cause, seen: Seen) -> bool:
    there = seen.known.keys() | seen.possible
    is_needed = all(sign.name in there for sign in cause.needs)
    by_any = any(sign.name in there for sign in cause.suspected_by)
    return is_needed and (by_any or (bool(cause.needs) and not cause.suspected_by))
