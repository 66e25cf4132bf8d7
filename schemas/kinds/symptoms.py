"""Lists the symptoms of a group in trouble, with which a diagnosis begins.

A symptom says nothing about its cause. `kinds` are the kinds of incidents that show the symptom. If there is no
incident, `transforms.incidents.diagnosis.episodes` finds it in lag, rebalances and offset events.
"""

from __future__ import annotations

from dataclasses import dataclass

from groupledger.schemas.kinds import incidents, rows_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Symptom:
    name: str
    meaning: str
    kinds: tuple[str, ...] = ()


BEHIND = Symptom(
    name="behind",
    meaning="A group does not catch up with the end of a topic.",
)
NO_PROGRESS = Symptom(
    name="no_progress",
    meaning="Records wait, but the group's committed offsets do not advance.",
    kinds=(
        incidents.COMMIT_GAP.name,
        incidents.STALLED_TRANSACTION.name,
        incidents.UNSTABLE_OFFSETS.name,
        incidents.OPEN_TRANSACTION_IN_TOPIC.name,
        incidents.COMMIT_AHEAD_OF_END.name,
    ),
)
NOBODY_HAS_PARTITIONS = Symptom(
    name="nobody_has_partitions",
    meaning="Nobody owns some partitions that the group should read.",
    kinds=(incidents.GROUP_WITHOUT_MEMBERS.name, incidents.ASSIGNMENT_NOT_STORED.name),
)
REBALANCES_GO_ON = Symptom(
    name="rebalances_go_on",
    meaning="The group keeps rebalancing, or a rebalance does not end.",
    kinds=(
        incidents.REBALANCE_STORM.name,
        incidents.REBALANCE_STUCK.name,
        incidents.RECONCILIATION_STUCK.name,
        incidents.LEADER_NEVER_SYNCED.name,
        incidents.STATIC_SUBSCRIPTION_IGNORED.name,
    ),
)
REQUEST_REFUSED = Symptom(
    name="request_refused",
    meaning="The coordinator refused requests from a member or from a client outside the group.",
    kinds=(incidents.COMMIT_FROM_OUTSIDE.name, *(kind.name for kind in incidents.INCIDENT_KINDS if kind.error_code)),
)
OFFSET_MOVED = Symptom(
    name="offset_moved",
    meaning="A committed offset jumped, went back or was removed.",
    kinds=(
        incidents.OFFSET_REWIND.name,
        incidents.TWO_COMMITTERS.name,
        incidents.OFFSET_SKIP.name,
        incidents.OFFSETS_EXPIRE_SOON.name,
    ),
)
READ_TWICE_OR_NEVER = Symptom(
    name="read_twice_or_never",
    meaning="Records were processed twice, were never processed, or never will be.",
    kinds=(
        incidents.OFFSETS_EXPIRED.name,
        incidents.LOST_TO_RETENTION.name,
        incidents.RETENTION_OVERTAKES.name,
        incidents.OFFSET_OF_FORMER_TOPIC.name,
        incidents.ZOMBIE_COMMIT_SUSPECTED.name,
        incidents.PARTITION_NOT_READ.name,
    ),
)
MEMBER_COMES_AND_GOES = Symptom(
    name="member_comes_and_goes",
    meaning="A member left, dropped out, or keeps coming and going.",
    kinds=(
        incidents.MEMBER_FLAPPING.name,
        incidents.SESSION_EXPIRED.name,
        incidents.POLL_TIMEOUT.name,
        incidents.FAILED_TO_REJOIN.name,
        incidents.REBALANCE_TIMEOUT_FENCED.name,
        incidents.ZOMBIE_COORDINATOR.name,
        incidents.COORDINATOR_FAILED.name,
    ),
)
GROUP_GONE = Symptom(name="group_gone", meaning="The group, or everything that it had committed, is gone.")

SYMPTOMS = rows_of(globals(), Symptom)


def symptom_of_kind(kind: str) -> Symptom | None:
    """Returns the symptom that an incident of this kind shows; None if no symptom lists the kind. If several list it,
    returns one that is more specific than REQUEST_REFUSED."""
    found = [symptom for symptom in SYMPTOMS if kind in symptom.kinds]
    return min(found, key=lambda symptom: symptom == REQUEST_REFUSED, default=None)
