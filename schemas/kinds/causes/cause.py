"""Defines a cause: a row of the table of causes, and the possible values of its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.schemas.kinds.signs import of_kind
from groupledger.schemas.words import Severity

if TYPE_CHECKING:
    from groupledger.schemas.kinds.clauses import Clause, Text
    from groupledger.schemas.kinds.incidents import IncidentKind
    from groupledger.schemas.kinds.signs import Sign
    from groupledger.schemas.kinds.symptoms import Symptom


class Fault:
    """Who can fix the cause."""

    CLIENT = "client"  # whoever runs the group's processes
    OPERATOR = "operator"  # whoever moves offsets, or sets rights, topics and retention
    PRODUCER = "producer"
    BROKERS = "brokers"  # nothing is to be changed in a client
    NOBODY = "nobody"  # normal operation


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """A cause of trouble.

    symptoms       what it shows as
    needs          signs without which it is out of the question
    suspected_by   signs any of which makes it a rival, beside those that it needs
    against        signs any of which rules it out
    proved_by      sets of signs each of which proves it, together with those that it needs; without one, the
                   cause is never proved, and stays a rival
    happened       what is said of it, in clauses, which may need signs as well as facts
    advice         what to do; none where the brokers are at fault
    settings       what to change, each where it exists
    decided_by     what would prove it or rule it out, where it is a rival
    kind           the kind of an incident that says the same: if there is one, its sentences and settings are said
    severity       where it did harm, or nobody can know; without harm it is `harmless`
    """

    name: str
    symptoms: tuple[Symptom, ...]
    happened: Text
    decided_by: str
    needs: tuple[Sign, ...] = ()
    suspected_by: tuple[Sign, ...] = ()
    against: tuple[Sign, ...] = ()
    proved_by: tuple[tuple[Sign, ...], ...] = ()
    advice: Text = ""
    settings: tuple[str | Clause, ...] = ()
    kind: str | None = None
    fault: str = Fault.CLIENT
    severity: str = Severity.WARNING
    harmless: str = Severity.INFO

    @property
    def signs(self) -> tuple[Sign, ...]:
        """Returns all signs for or against the cause."""
        proofs = (sign for proof in self.proved_by for sign in proof)
        return tuple(dict.fromkeys((*self.needs, *self.suspected_by, *self.against, *proofs)))


def of_incident(
    kind: IncidentKind,
    *symptoms: Symptom,
    decided_by: str = "The request log of that time: it shows each refusal.",
    against: tuple[Sign, ...] = (),
    fault: str = Fault.CLIENT,
) -> Cause:
    """Returns the cause that corresponds to an incident's kind: the incident proves it, and its texts describe it."""
    sign = of_kind(kind.name)
    return Cause(
        name=kind.name,
        symptoms=symptoms,
        happened=kind.meaning,
        decided_by=decided_by,
        needs=(sign,),
        against=against,
        proved_by=((sign,),),
        kind=kind.name,
        fault=fault,
        severity=kind.severity,
        harmless=kind.severity,
    )
