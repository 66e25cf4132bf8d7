"""Defines a cause: a row of the table of causes, and the possible values of its columns."""

from __future__ import annotations

import re
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


WHO_CAN_FIX = {
    Fault.CLIENT: "whoever runs the group's consumers",
    Fault.OPERATOR: "whoever operates topics, offsets, rights and deployments",
    Fault.PRODUCER: "whoever runs the producers",
    Fault.BROKERS: "whoever runs the brokers",
    Fault.NOBODY: "nobody has to: this is normal operation",
}
# The group's consumers have all settings that are not here.
_SETTINGS_OF_OTHERS = {
    Fault.OPERATOR: (
        *("retention.ms", "retention.bytes", "offsets.retention.minutes", "sync.group.offsets.enabled"),
        *("consumer_byte_rate", "share.isolation.level"),
    ),
    Fault.PRODUCER: ("transaction.timeout.ms", "partitioner.class"),
    Fault.BROKERS: (
        *("group.consumer.assignors", "group.initial.rebalance.delay.ms", "group.max.session.timeout.ms"),
        *("group.max.size", "group.min.session.timeout.ms", "group.share.delivery.count.limit"),
        *("group.share.partition.max.record.locks", "group.share.record.lock.duration.ms", "min.insync.replicas"),
        *("offset.metadata.max.bytes", "offsets.topic.compression.codec", "unclean.leader.election.enable"),
    ),
}
_OWNER_OF = {name: owner for owner, names in _SETTINGS_OF_OTHERS.items() for name in names}
_OF_OPERATOR = re.compile(r"ACL: .*|.* of (the group|__consumer_offsets)")


def owner_of(setting: str) -> str:
    """Returns the word of `Fault` for whoever can change a setting, as a cause or an incident names it."""
    is_operators = _OF_OPERATOR.fullmatch(setting) is not None
    return Fault.OPERATOR if is_operators else _OWNER_OF.get(setting, Fault.CLIENT)


def who_can_fix(fault: str, change: str | None) -> str:
    """Returns who can fix a cause: the one at fault, and whoever else has a setting to change. `change` is a text with
    these settings (`settings_of`, joined); None if there is none."""
    others: dict[str, list[str]] = {}
    for setting in () if change is None or fault == Fault.NOBODY else change.split(", "):
        others.setdefault(owner_of(setting), []).append(setting)
    others.pop(fault, None)
    return "; ".join([WHO_CAN_FIX[fault], *(f"{', '.join(of)}: {WHO_CAN_FIX[each]}" for each, of in others.items())])


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """A cause of trouble. It is a rival in a diagnosis if it is possible, and neither proved nor ruled out.

    symptoms       the symptoms that the cause can have
    needs          the signs that must be known, or at least possible; otherwise the cause is ruled out
    suspected_by   if there are any, at least one of these signs must be known or possible, too, to make it a rival
    against        the signs each of which rules the cause out if known, and prevents a proof if possible
    proved_by      sets of signs; each set proves the cause, together with `needs`. If there is no set, the cause is
                   never proved, and can only be a rival
    happened       the sentences about it, in clauses, which may need signs as well as facts
    by             who did it, in clauses that need signs. They follow the sentences of an incident, too, and then
                   `advice` is shown with them
    advice         what to do; empty if the brokers are at fault
    settings       the settings to change, one in a clause only if the clause holds
    decided_by     what would prove the cause or rule it out while it is a rival
    kind           the kind of incident that means the same. If an incident of the kind is there, its sentences and
                   settings are shown instead
    explains       the kinds of incidents that follow from the cause: where it has one, this is no diagnosis of its own
    severity       the severity if the cause did harm, or if nobody can know
    harmless       the severity if it did no harm
    """

    name: str
    symptoms: tuple[Symptom, ...]
    happened: Text
    decided_by: str
    needs: tuple[Sign, ...] = ()
    suspected_by: tuple[Sign, ...] = ()
    against: tuple[Sign, ...] = ()
    proved_by: tuple[tuple[Sign, ...], ...] = ()
    by: Text = ""
    advice: Text = ""
    settings: tuple[str | Clause, ...] = ()
    kind: str | None = None
    explains: tuple[str, ...] = ()
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
    """Returns the cause that means the same as a kind of incident. An incident of the kind proves it, and the texts of
    the kind describe it."""
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
