"""Committed offsets that jumped, were lost or are about to be lost, or point at no record."""

from __future__ import annotations

from groupledger.schemas.kinds import roots, rows_of
from groupledger.schemas.kinds.incidents.kind import IncidentKind
from groupledger.schemas.words import Severity

OFFSET_REWIND = IncidentKind(
    name="offset_rewind",
    meaning="Committed offsets went back.",
    happened="Committed offsets of {count} partitions went back.",
    settings=(),
    confidence=0.95,
)
TWO_COMMITTERS = IncidentKind(
    name="two_committers",
    meaning="Two committers take turns: a committed offset goes back and forth between two positions.",
    happened="Committed offsets of {count} partitions went back {detail} times within {seconds} s, as happens when two"
    " processes commit for the same partitions.",
    advice="One of them does not own these partitions, or no longer owns them: find a member that continues after it"
    " has lost them, or a process outside the group that commits under its name. The next consumer starts where the"
    " last of them committed{duplicates}.",
    settings=("group.id",),
    root=roots.COMMITS_BESIDE_MEMBERS,
    confidence=0.9,
)
OFFSET_SKIP = IncidentKind(
    name="offset_skip",
    meaning="Somebody who is not a member moved the group's committed offsets forward.",
    happened="Committed offsets of {count} partitions were moved forward while the group had no members, past at most"
    " {detail} records that it had not read.",
    settings=(),
    root=roots.ADMIN_SKIP,
    confidence=0.95,
)
OFFSETS_EXPIRED = IncidentKind(
    name="offsets_expired",
    meaning="A group lost its offsets to offsets.retention.minutes and came back: it rereads or skips records.",
    happened="Kafka expired the committed offsets of {count} partitions, and the group came back without them:"
    " {detail}.",
    root=roots.OFFSETS_RETENTION,
    severity=Severity.ERROR,
    confidence=0.8,
)
LOST_TO_RETENTION = IncidentKind(
    name="lost_to_retention",
    meaning="Retention removed records of a topic that a group had not committed yet.",
    happened="The logs of {count} partitions begin after the group's committed offsets: at most {detail}.",
    root=roots.LOG_RETENTION,
    confidence=0.95,
)
RETENTION_OVERTAKES = IncidentKind(
    name="retention_overtakes",
    meaning="Retention is about to remove records that a group has not committed yet.",
    happened="At the present pace, retention overtakes the group's committed offsets of {count} partitions {detail}.",
    advice="The group would never read the records in between. Keep records for longer until it has caught up, or make"
    " it faster. `groupledger forecast` says when, at the earliest and at the latest.",
    root=roots.LOG_RETENTION,
    confidence=0.95,
)
OFFSET_OF_FORMER_TOPIC = IncidentKind(
    name="offset_of_former_topic",
    meaning="A group's offsets are from a deleted topic, and a new topic with the same name has grown past them.",
    happened="The offsets of {count} partitions are from a deleted topic, and the new topic with its name has reached"
    " them: from there on, the group skips at most {detail} records.",
    advice="Reset the group on this topic to the earliest offset before it continues. Delete a group's offsets"
    " together with the topic. Another group can read the records that this one has skipped.",
    settings=(),
    root=roots.TOPIC_RECREATED,
    confidence=0.8,
)
OFFSETS_EXPIRE_SOON = IncidentKind(
    name="offsets_expire_soon",
    meaning="Kafka is about to expire committed offsets. Without them, the group would read records again or skip"
    " them.",
    happened="Kafka expires the committed offsets of {count} partitions {detail}.",
    advice="The group would then start where auto.offset.reset says. Let it commit before, or raise"
    " offsets.retention.minutes. `groupledger offsets` exports the offsets for a later reset.",
    root=roots.OFFSETS_RETENTION,
    confidence=0.95,
)
COMMIT_AHEAD_OF_END = IncidentKind(
    name="commit_ahead_of_end",
    meaning="A group's committed offset lies beyond the end of its partition's log.",
    happened="The group's offsets of {count} partitions lie beyond the ends of their logs, by {detail} in total, and"
    " have done so for {seconds} s.",
    advice="A consumer that starts there gets OFFSET_OUT_OF_RANGE and starts where auto.offset.reset says. Once the"
    " log has grown that far, it never reads the records before. Reset these offsets to where the group should"
    " continue (kafka-consumer-groups.sh --reset-offsets).",
    settings=(),
    root=roots.OFFSET_BEYOND_END,
    confidence=0.95,
)
PARTITION_NOT_READ = IncidentKind(
    name="partition_not_read",
    meaning="A new partition had records before a group's consumers noticed it, and the group's first commit lies"
    " after them.",
    happened="{count} new partitions had up to {detail} records before a member of the group took them, and its first"
    " commits lie after them: with auto.offset.reset=latest these were never read.",
    advice="A consumer notices a new partition after up to metadata.max.age.ms, and latest then skips the records that"
    " were written before. Set auto.offset.reset to earliest, and reset the group on these partitions if it needs"
    " their first records.",
    root=roots.AUTO_OFFSET_RESET,
    severity=Severity.INFO,
    confidence=0.5,
)

KINDS = rows_of(globals(), IncidentKind)
