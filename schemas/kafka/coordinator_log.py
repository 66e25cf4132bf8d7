"""Lists the lines of group coordinators in the server log: a template for each text, the kind of the event before the
colon.

The first texts of a kind are those of a 4.2 broker. The reference coordinator writes the first of them for which the
event has all names. The texts after these are of other versions and of the Scala coordinator. A placeholder is a column
of `coordinator_events`, or else a field of its column `details`. The first template that fits counts, so a template
comes before a more general one that fits the same lines. A line that no template fits gets the kind `other`, so lines
of unknown versions are not lost.

Source: GroupMetadataManager, ClassicGroup, OffsetMetadataManager and GroupCoordinatorShard of 4.2 and 4.4;
GroupCoordinator, GroupMetadataManager and GroupMetadata (Scala) of the releases from 0.10.0 to 3.8, and of 3.9; and
logs of real brokers of 4.2 and 4.4, to which tests hold the table. Before 2.1 the coordinator gave no reason for a
rebalance.
"""

import re

from groupledger.schemas.kafka.log_template import read_templates
from groupledger.schemas.kafka.names import OFFSETS_TOPIC

# The last is that of the Scala coordinator before 0.11.
LOGGERS = ("org.apache.kafka.coordinator.group.", "kafka.coordinator.group.", "kafka.coordinator.Group")
# Also about partitions of the offsets topic, where a line has the coordinator's prefix.
RUNTIME_LOGGER = "org.apache.kafka.coordinator.common.runtime."
# Before the text; the Scala coordinator gave its broker's id alone.
BEGIN = "[GroupCoordinator "
PREFIX = re.compile(
    r"\[Group(?:Coordinator|MetadataManager| Metadata Manager on Broker) (?:(?:id|brokerId)=)?(?P<broker_id>\d+)"
    rf"(?: topic={OFFSETS_TOPIC} partition=(?P<kafka_partition>\d+))?\]:? "
)


def prefix(broker_id: int, partition: int) -> str:
    """Returns the text that a 4.2 broker writes before each line about a group."""
    return f"{BEGIN}id={broker_id} topic={OFFSETS_TOPIC} partition={partition}] "


# Classic groups. The coordinator makes the ids of their members.
CLASSIC = read_templates("""
member_id_required: Dynamic member with unknown member id joins group {group_id} in {state:word} state. Created a new
    member id {member_id} and requesting the member to rejoin with this id.
member_id_required: Dynamic member with unknown member id joins group {group_id} in {state:word} state. Created a new
    member id {member_id} and request the member to rejoin with this id.
member_id_required: Dynamic member with unknown member id rejoins group {group_id} in {state:word} state. Created a
    new member id {member_id} and request the member to rejoin with this id.
dynamic_member_added: Dynamic member with unknown member id joins group {group_id} in state {state:word}. Created a
    new member id {member_id} and added the member to the group.
dynamic_member_added: Dynamic Member with unknown member id joins group {group_id} in {state:word} state. Created a
    new member id {member_id} for this member and add to the group.
dynamic_member_added: Dynamic member with unknown member id rejoins group {group_id} in {state:word} state. Created a
    new member id {member_id} for this member and add to the group.
pending_member_joins: Pending dynamic member with id {member_id} joins group {group_id} in {state:word} state. Adding
    to the group now.
pending_member_joins: Dynamic Member with specific member id {member_id} joins group {group_id} in {state:word} state.
    Adding to the group now.
static_member_added: Static member with groupInstanceId={group_instance_id} and unknown member id joins group
    {group_id} in {state:word} state. Created a new member id {member_id} for this member and added to the group.
static_member_added: Static member with groupInstanceId={group_instance_id} and unknown member id joins group
    {group_id} in {state:word} state. Created a new member id {member_id} for this member and add to the group.
static_member_added: Static Member with unknown member id joins group {group_id} in {state:word} state. Created a new
    member id {member_id} for this member and add to the group.
static_member_added: Adding new static member {group_instance_id} to group {group_id} with member id {member_id}.
static_member_replaced: Static member with groupInstanceId={group_instance_id} and unknown member id joins group
    {group_id} in {state:word} state. Replacing previously mapped member {previous_member_id} with this
    groupInstanceId.
static_member_replaced: Static member {group_instance_id} of group {group_id} with unknown member id rejoins,
    assigning new member id {member_id}, while old member id {previous_member_id} will be removed.
static_member_replaced: Static member {group_instance_id} with unknown member id rejoins, assigning new member id
    {member_id}, while old member {previous_member_id} will be removed.
static_member_keeps_protocol: Static member which joins during Stable stage and doesn't affect the selected protocol
    will not trigger a rebalance.
static_member_keeps_protocol: Static member which joins during Stable stage and doesn't affect selectProtocol will not
    trigger rebalance.
static_member_keeps_protocol: Static member joins during {state:word} stage will not trigger rebalance.
static_member_not_persisted: Failed to persist metadata for group {group_id} static member {member_id} with group
    instance id {group_instance_id} due to {error}. Reverting to old member id {previous_member_id}.
static_member_not_persisted: Failed to persist metadata for group {group_id}: {error}
rejoin_in_unexpected_state: Attempt to add rejoining member {member_id} of group {group_id} in unexpected group state
    {state:word}
preparing_rebalance: Preparing to rebalance group {group_id} in state {state:word} with old generation
    {previous_generation:int} (reason: {reason}).
preparing_rebalance: Preparing to rebalance group {group_id} in state {state:word} with old generation
    {previous_generation:int} (__consumer_offsets-{kafka_partition:int}) (reason: {reason})
preparing_rebalance: Preparing to rebalance group {group_id} with old generation {previous_generation:int}
    (__consumer_offsets-{kafka_partition:int})
preparing_rebalance: Preparing to restabilize group {group_id} with old generation {previous_generation:int}
dynamic_members_removed: Group {group_id} removed dynamic members who haven't joined: {member_ids}
dynamic_members_removed: Group {group_id} remove dynamic members who haven't joined: {member_ids}
sync_missing: Group {group_id} removed members who haven't sent their sync requests: {member_ids}
sync_missing: Group {group_id} removed members who haven't sent their sync request: {member_ids}
group_is_dead: Group {group_id} is dead, skipping rebalance stage.
group_is_dead: Group {group_id} is dead, skipping rebalance stage
no_members_rejoined: Group {group_id} could not complete rebalance because no members rejoined.
no_members_rejoined: Group {group_id} could not complete rebalance because no members rejoined
stabilized: Stabilized group {group_id} generation {generation:int} with {member_count:int} members.
stabilized: Stabilized group {group_id} generation {generation:int} (__consumer_offsets-{kafka_partition:int}) with
    {member_count:int} members
stabilized: Stabilized group {group_id} generation {generation:int} (__consumer_offsets-{kafka_partition:int})
stabilized: Stabilized group {group_id} generation {generation:int}
group_now_empty: Group {group_id} with generation {generation:int} is now empty.
group_now_empty: Group {group_id} with generation {generation:int} is now empty
    (__consumer_offsets-{kafka_partition:int})
group_now_empty: Group {group_id} with generation {generation:int} is now empty
empty_metadata_not_written: Failed to write empty metadata for group {group_id}: {error}
assignment_received: Assignment received from leader {member_id} for group {group_id} for generation {generation:int}.
    The group has {member_count:int} members, {static_member_count:int} of which are static.
assignment_received: Assignment received from leader for group {group_id} for generation {generation:int}. The group
    has {member_count:int} members, {static_member_count:int} of which are static.
assignment_received: Assignment received from leader for group {group_id} for generation {generation:int}
empty_assignments_set: Setting empty assignments for members {members} of {group_id} for generation
    {generation:int}.
empty_assignments_set: Setting empty assignments for members {members} of {group_id} for generation
    {generation:int}
empty_assignment_sent: Sending empty assignment to member {member_id} of {group_id} for generation {generation:int}
    with no errors
leader_replaced: Group leader [memberId: {member_id}, groupInstanceId: {group_instance_id}] failed to join before the
    rebalance timeout. Member {new_leader} was elected as the new leader.
leader_replaced: Group leader [member.id: {member_id}, group.instance.id: {group_instance_id}] failed to join before
    rebalance timeout, while new leader {new_leader} was elected.
no_leader_elected: Group leader [memberId: {member_id}, groupInstanceId: {group_instance_id}] failed to join before
    the rebalance timeout and the group couldn't proceed to the next generation because no member joined.
no_leader_elected: Group leader [member.id: {member_id}, group.instance.id: {group_instance_id}] failed to join before
    rebalance timeout, and the group couldn't proceed to next generationbecause no member joined.
member_failed: Member {member_id} in group {group_id} has failed, removing it from the group.
member_failed: Member {member_id} in group {group_id} has failed, removing it from the group
pending_member_expired: Pending member {member_id} in group {group_id} has been removed after session timeout
    expiration.
member_left: [Group {group_id}] Member {member_id} has left group through explicit `LeaveGroup` request; client
    reason: {client_reason}
pending_member_left: [Group {group_id}] Pending member {member_id} has left group through explicit `LeaveGroup`
    request; client reason: {client_reason}
member_left: Member MemberMetadata(memberId={member_id}, groupInstanceId={group_instance_id},
    clientId={member_metadata}) has left group {group_id} through explicit `LeaveGroup`; client reason:
    {client_reason}
member_left: Member MemberMetadata(memberId={member_id}, groupInstanceId={group_instance_id},
    clientId={member_metadata}) has left group {group_id} through explicit `LeaveGroup` request
member_left: Member[group.instance.id {group_instance_id}, member.id {member_id}] in group {group_id} has left,
    removing it from the group
member_left: Member {member_id} in group {group_id} has left, removing it from the group
pending_member_left: Pending member with memberId={member_id} has left group {group_id} through explicit `LeaveGroup`
    request
pending_member_left: Pending member {member_id} is leaving group {group_id}.
member_fenced: Request memberId={member_id} for static member with groupInstanceId={group_instance_id} is fenced by
    existing memberId={previous_member_id} during operation {operation}
member_fenced: Request memberId={member_id} for static member with groupInstanceId={group_instance_id} is fenced by
    current memberId={previous_member_id} during operation {operation}
late_heartbeat_expiration: Received notification of heartbeat expiration for member {member_id} after group {group_id}
    had already been unloaded or deleted.
late_heartbeat_expiration: Received notification of heartbeat expiration for member {member_id} after group {group_id}
    had already been deleted or upgraded.
late_sync_expiration: Received unexpected notification of sync expiration for {group_id} with an old generation
    {previous_generation:int} while the group has {generation:int}.
late_sync_expiration: Received unexpected notification of sync expiration after group {group_id} already transitioned
    to {state:word} state.
late_sync_expiration: Received unexpected notification of sync expiration after group {group_id} already transitioned
    to the {state:word} state.
""")

# Everything else: the lifetime of a group, offsets, the groups of KIP-848, and a coordinator's own comings and goings.
OTHERS = read_templates("""
group_loaded: Loaded {group_type:word} group {group_id} with {member_count:int} members.
group_loaded: Loading group metadata for {group_id} with generation {generation:int}
group_unloaded: [GroupId={group_id}] Unloading group metadata for generation {generation:int}.
modern_group_unloaded: [GroupId={group_id}] Unloaded group metadata for group epoch {generation:int}.
group_unloaded: Unloading group metadata for {group_id} with generation {generation:int}
group_dead: Group {group_id} transitioned to Dead in generation {generation:int}
group_dead: Group {group_id} generation {generation:int} is dead and removed
simple_group_created: [GroupId {group_id}] Creating a simple consumer group via manual offset commit.
simple_group_created: Creating simple consumer group {group_id} via manual offset commit.
tombstones_generated: Generated {tombstone_count:int} tombstone records while cleaning up group metadata in
    {duration_ms:int} milliseconds.
partitions_deleted: Generated {tombstone_count:int} tombstone records in {duration_ms:int} milliseconds while deleting
    offsets for partitions {partitions}.
partitions_deleted: Generated {tombstone_count:int} tombstone records in {duration_ms:int} milliseconds while deleting
    offsets for topics {topics}.
partitions_deleted: Removed {offset_count:int} offsets associated with deleted partitions: {partitions}.
partitions_not_deleted: Could not delete offsets for deleted partitions {partitions} due to: {error}.
partitions_not_deleted: Could not delete offsets for deleted topics {topics} due to: {error}.
share_state_cleaned: Generated {tombstone_count:int} records in {duration_ms:int} milliseconds while cleaning share
    group state for topics {topics}.
offsets_expired: Removed {offset_count:int} expired offsets in {duration_ms:int} milliseconds.
groups_deleted: The following groups were deleted: {group_ids}. A total of {offset_count:int} offsets were removed.
offsets_deleted: The following offsets of the group {group_id} were deleted: {partitions}. A total of
    {offset_count:int} offsets were removed.
consumer_member_joined: [GroupId {group_id}] Member {member_id} joins the consumer group using the {protocol:word}
    protocol.
consumer_static_member_joined: [GroupId {group_id}] Static member {member_id} with instance id {group_instance_id}
    joins the consumer group using the {protocol:word} protocol.
consumer_static_member_replaced: [GroupId {group_id}] Static member with instance id {group_instance_id} re-joins the
    consumer group using the {protocol:word} protocol. Created a new member {member_id} to replace the existing member
    {previous_member_id}.
member_id_required: [GroupId {group_id}] Dynamic member with unknown member id joins the consumer group. Created a new
    member id {member_id} and requesting the member to rejoin with this id.
consumer_member_left: [GroupId {group_id}] Dynamic member {member_id} has left group through explicit `LeaveGroup`
    request; client reason: {client_reason}
consumer_static_member_left: [GroupId {group_id}] Static member {member_id} with instance id {group_instance_id} has
    left group through explicit `LeaveGroup` request; client reason: {client_reason}
consumer_static_member_paused: [GroupId {group_id}] Static member {member_id} with instance id {group_instance_id}
    temporarily left the consumer group.
consumer_static_member_left: [GroupId {group_id}] Static member {member_id} with instance id {group_instance_id} left
    the consumer group.
consumer_member_left: [GroupId {group_id}] Member {member_id} left the consumer group.
consumer_member_not_revoking: [GroupId {group_id}] Member {member_id} fenced from the group because it failed to
    transition from epoch {generation:int} within {timeout_ms:int}ms.
consumer_member_fenced: [GroupId {group_id}] Member {member_id} fenced from the group because {reason}.
instance_id_owned: [GroupId {group_id}] Static member {member_id} with instance id {group_instance_id} cannot join the
    group because the instance id is owned by member {previous_member_id}.
instance_id_fenced: [GroupId {group_id}] Static member {member_id} with instance id {group_instance_id} is fenced by
    existing member {previous_member_id}.
group_epoch_bumped: [GroupId {group_id}] Bumped group epoch to {generation:int} with metadata hash
    {metadata_hash:int}.
target_assignment_computed: [GroupId {group_id}] Computed a new target assignment for epoch {generation:int} with
    '{assignor}' assignor in {duration_ms:int}ms.
target_assignment_computed: [GroupId {group_id}] Computed a new target assignment for epoch {generation:int} with
    '{assignor}' assignor in {duration_ms:int}ms: {assignment}.
topics_subscribed: [GroupId {group_id}] Member {member_id} updated its subscribed topics to: {topics}.
regexes_resolved: [GroupId {group_id}] Scanned {topic_count:int} topics to refresh regular expressions {regexes} in
    {duration_ms:int}ms.
metadata_hash_computed: [GroupId {group_id}] Computed new metadata hash: {metadata_hash:int}.
metadata_hash_computed: [GroupId {group_id}][MemberId {member_id}] Computed new metadata hash: {metadata_hash:int}.
regex_subscribed: [GroupId {group_id}] Member {member_id} updated its subscribed regex to: {regex}.
group_converted: [GroupId {group_id}] Converted the {previous_group_type:word} group to a {group_type:word} group.
empty_group_converted: [GroupId {group_id}] Converted the empty {previous_group_type:word} group to a
    {group_type:word} group.
upgrade_refused: Cannot upgrade classic group {group_id} to consumer group because {reason}.
upgrade_refused: Cannot upgrade classic group {group_id} to consumer group: {reason}.
downgrade_refused: Cannot downgrade consumer group {group_id} to classic group because {reason}.
downgrade_refused: Cannot downgrade the consumer group {group_id}: {reason}.
classic_member_refused: Cannot join the consumer group {group_id} with the classic protocol because {reason}.
assignment_epochs_not_fitting: [GroupId {group_id}] Size of assignment epochs {epoch_count:int} is not equal to
    partitions {partition_count:int} for topic {topic_id:word}. Using default epoch {generation:int} for all partitions.
assignment_epochs_not_fitting: [GroupId {group_id}] Size of assignment epochs {epoch_count:int} is not equal to
    partitions {partition_count:int} for subtopology {subtopology}. Using default epoch {generation:int} for all
    partitions.
share_member_joined: [GroupId {group_id}] Member {member_id} joins the share group using the share protocol.
share_member_left: [GroupId {group_id}] Member {member_id} left the share group.
streams_member_joined: [GroupId {group_id}][MemberId {member_id}] Member joins the streams group.
streams_static_member_replaced: [GroupId {group_id}][MemberId {member_id}] Static member with instance id
    {group_instance_id} re-joins the streams group using the streams protocol. Created a new member {new_member_id} to
    replace the existing member {previous_member_id}.
streams_static_member_joined: [GroupId {group_id}][MemberId {member_id}] Static member {joined_member_id} with instance
    id {group_instance_id} joins the streams group.
streams_static_member_paused: [GroupId {group_id}][MemberId {member_id}] Static member {left_member_id} with instance id
    {group_instance_id} temporarily left the streams group.
streams_static_member_left: [GroupId {group_id}][MemberId {member_id}] Static member {left_member_id} with instance id
    {group_instance_id} left the streams group.
streams_member_updated: [GroupId {group_id}][MemberId {member_id}] Member updated its member metdata to
    {member_metadata}.
streams_member_updated: [GroupId {group_id}][MemberId {member_id}] Member updated its member metadata to
    {member_metadata}.
streams_member_left: [GroupId {group_id}][MemberId {member_id}] Member {left_member_id} left the streams group.
streams_member_fenced: [GroupId {group_id}] Streams member {member_id} fenced from the group because {reason}.
streams_topology_initialized: [GroupId {group_id}][MemberId {member_id}] Member initialized the topology with epoch
    {topology_epoch:int}
streams_topology_configured: [GroupId {group_id}][MemberId {member_id}] Valid topic configuration found in
    {duration_ms:int}ms, topology epoch {topology_epoch:int} is now initialized.
streams_internal_topics_missing: [GroupId {group_id}][MemberId {member_id}] Valid topic configuration found in
    {duration_ms:int}ms, but internal topics are missing for topology epoch {topology_epoch:int}: {missing_topics}
streams_assignor_missing: [GroupId {group_id}] The configured task assignor '{assignor}' is not available; falling back
    to the default assignor '{default_assignor}'.
streams_topology_description_requested: [GroupId {group_id}] Requested topology description push at topology epoch
    {topology_epoch:int}.
streams_topology_not_configured: [GroupId {group_id}][MemberId {member_id}] Topic configuration failed for topology
    epoch {topology_epoch:int} in {duration_ms:int}ms: {reason}
group_epoch_bumped: [GroupId {group_id}][MemberId {member_id}] Bumped streams group epoch to {generation:int} with
    metadata hash {metadata_hash:int} and validated topic epoch {topology_epoch:int}.
coordinator_starting: Starting up.
coordinator_started: Startup complete.
coordinator_stopping: Shutting down.
coordinator_stopped: Shutdown complete.
partition_elected: Elected as the group coordinator for partition {kafka_partition:int} in epoch
    {coordinator_epoch:int}
partition_resigned: Resigned as the group coordinator for partition {kafka_partition:int} in epoch {coordinator_epoch}
partition_loading: Scheduling loading of metadata from __consumer_offsets-{kafka_partition:int} with epoch
    {coordinator_epoch:int}
partition_loading: Scheduling loading of offsets and group metadata from __consumer_offsets-{kafka_partition:int} for
    epoch {coordinator_epoch:int}
partition_loading: Scheduling loading of offsets and group metadata from __consumer_offsets-{kafka_partition:int}
partition_loading: Loading offsets and group metadata from __consumer_offsets-{kafka_partition:int}
partition_loaded: Finished loading of metadata from __consumer_offsets-{kafka_partition:int} with epoch
    {coordinator_epoch:int} in {loading}
partition_loaded: Finished loading offsets and group metadata from __consumer_offsets-{kafka_partition:int} in
    {duration_ms:int} milliseconds for epoch {coordinator_epoch:int}, of which {loading}
partition_loaded: Finished loading offsets and group metadata from __consumer_offsets-{kafka_partition:int} in
    {duration_ms:int} milliseconds, of which {loading}
partition_loaded: Finished loading offsets and group metadata from __consumer_offsets-{kafka_partition:int} in
    {duration_ms:int} milliseconds.
partition_loaded: Finished loading offsets from __consumer_offsets-{kafka_partition:int} in {duration_ms:int}
    milliseconds.
partition_unloading: Scheduling unloading of metadata for __consumer_offsets-{kafka_partition:int} with epoch
    {coordinator_epoch}
partition_unloading: Scheduling unloading of offsets and group metadata from __consumer_offsets-{kafka_partition:int}
partition_unloading: Started unloading metadata for __consumer_offsets-{kafka_partition:int} with epoch
    {coordinator_epoch}.
partition_unloaded: Finished unloading metadata for __consumer_offsets-{kafka_partition:int} with epoch
    {coordinator_epoch}.
partition_unloaded: Finished unloading __consumer_offsets-{kafka_partition:int} for coordinator epoch {unloading}
partition_unloaded: Finished unloading __consumer_offsets-{kafka_partition:int}. Removed {unloading}
""")

# Of the texts that a 4.2 broker writes: those that are no INFO, and those that GroupMetadataManager does not write.
LEVELS = {
    "no_members_rejoined": "ERROR",
    "static_member_not_persisted": "WARN",
    "rejoin_in_unexpected_state": "WARN",
    "empty_metadata_not_written": "WARN",
    "empty_assignments_set": "WARN",
    "empty_assignment_sent": "WARN",
    "streams_topology_not_configured": "WARN",
    "streams_assignor_missing": "WARN",
    "assignment_epochs_not_fitting": "ERROR",
    "partitions_not_deleted": "ERROR",
}
CLASSES = {
    "member_fenced": "classic.ClassicGroup",
    "leader_replaced": "classic.ClassicGroup",
    "no_leader_elected": "classic.ClassicGroup",
    "simple_group_created": "OffsetMetadataManager",
    "tombstones_generated": "GroupCoordinatorShard",
    "partitions_deleted": "GroupCoordinatorShard",
    "share_state_cleaned": "GroupCoordinatorShard",
    "partitions_not_deleted": "GroupCoordinatorService",
    "assignment_epochs_not_fitting": "Utils",
    "groups_deleted": "GroupCoordinatorShard",
    "streams_topology_configured": "streams.topics.InternalTopicManager",
    "streams_internal_topics_missing": "streams.topics.InternalTopicManager",
    "streams_topology_description_requested": "streams.StreamsGroupTopologyDescriptionManager",
    "streams_topology_not_configured": "streams.topics.InternalTopicManager",
}
