"""All causes of trouble in a group, a row each, by family: one list for a diagnosis, docs and tests.

A new cause is a row in the module of its family. The order of the families matters in one place: of several proved
causes, the first is reported as the cause, and the others as accompanying it. So deeper causes come first: brokers,
assignments that can't be stored, refusals, offsets and transactions, members, and last the pace of processing.
"""

from __future__ import annotations

from groupledger.schemas.kinds.causes import assignment, brokers, members, offsets, progress, refused, shares

FAMILIES = {
    "Brokers": brokers.CAUSES,
    "Refused requests": refused.CAUSES,
    "Offsets, transactions and topics": offsets.CAUSES,
    "Members": members.CAUSES,
    "Share groups": shares.CAUSES,
    "Assignment": assignment.CAUSES,
    "Pace": progress.CAUSES,
}
CAUSES = tuple(cause for family in FAMILIES.values() for cause in family)
CAUSE_NAMED = {cause.name: cause for cause in CAUSES}
