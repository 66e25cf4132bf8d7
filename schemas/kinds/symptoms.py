"""What somebody sees of a group that is in trouble: the symptoms that a diagnosis begins with.

A symptom says nothing of its cause. `kinds` are the incidents that show it; what shows it without an incident, in lag,
rebalances and offset events, is found by `transforms.incidents.diagnosis.episodes`.
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
    meaning="A group, or a partition of it, is behind the end of a topic, and does not catch up.",
)
NO_PROGRESS = Symptom(
    name="no_progress",
    meaning="Records wait, and the group's committed offsets stand still.",
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
    meaning="Nobody owns partitions that the group should read.",
    kinds=(incidents.GROUP_WITHOUT_MEMBERS.name, incidents.ASSIGNMENT_NOT_STORED.name),
)
REBALANCES_GO_ON = Symptom(
    name="rebalances_go_on",
    meaning="A group rebalances again and again, or hangs in a rebalance.",
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
    meaning="The coordinator refused requests of a member, or of somebody who is none.",
    kinds=(incidents.COMMIT_FROM_OUTSIDE.name, *(kind.name for kind in incidents.INCIDENT_KINDS if kind.error_code)),
)
OFFSET_MOVED = Symptom(
    name="offset_moved",
    meaning="A committed offset moved other than by going on, or is gone.",
    kinds=(incidents.OFFSET_REWIND.name, incidents.OFFSET_SKIP.name, incidents.OFFSETS_EXPIRE_SOON.name),
)
READ_TWICE_OR_NEVER = Symptom(
    name="read_twice_or_never",
    meaning="Records were processed twice, or never.",
    kinds=(
        incidents.OFFSETS_EXPIRED.name,
        incidents.LOST_TO_RETENTION.name,
        incidents.OFFSET_OF_FORMER_TOPIC.name,
        incidents.ZOMBIE_COMMIT_SUSPECTED.name,
        incidents.PARTITION_NOT_READ.name,
    ),
)
MEMBER_COMES_AND_GOES = Symptom(
    name="member_comes_and_goes",
    meaning="A member leaves, drops out, or comes and goes.",
    kinds=(
        incidents.MEMBER_FLAPPING.name,
        incidents.SESSION_EXPIRED.name,
        incidents.POLL_TIMEOUT.name,
        incidents.FAILED_TO_REJOIN.name,
        incidents.REBALANCE_TIMEOUT_FENCED.name,
    ),
)
GROUP_GONE = Symptom(name="group_gone", meaning="The group, or all that it had committed, is gone.")

SYMPTOMS = rows_of(globals(), Symptom)


def symptom_of_kind(kind: str) -> Symptom | None:
    """Returns the symptom that an incident of a kind shows; of a refusal that another row lists, too, that of the
    other row."""
    found = [symptom for symptom in SYMPTOMS if kind in symptom.kinds]
    return min(found, key=lambda symptom: symptom == REQUEST_REFUSED, default=None)
