"""Lists the reasons that a coordinator logs for a rebalance, `(reason: ...)`, and the clients' reasons in them.

A template for each text, with the kind of the reason before the colon. The texts are those of the Java coordinator
(4.x), which come first, and of the Scala one (since 2.1, the first that gives a reason). The first template that fits
counts.
"""

from groupledger.schemas.kafka.log_template import read_templates

# The coordinator's text for a missing reason, and the reasons of Java's clients.
NOT_PROVIDED = "not provided"
POLL_TIMEOUT_REASON = "consumer poll timeout has expired."
# Of a worker of Kafka Connect, since 3.8, which has rebalance.timeout.ms for it.
WORKER_POLL_TIMEOUT_REASON = "worker poll timeout has expired."
POLL_TIMEOUT_REASONS = (POLL_TIMEOUT_REASON, WORKER_POLL_TIMEOUT_REASON)
REMOVED_BY_ADMIN_REASON = "member was removed by an admin"

# Why a coordinator fences a member of a consumer (KIP-848), share or streams group; the last goes on with the epoch.
SESSION_EXPIRED_FENCE = "the member session expired"
CLASSIC_NOT_SYNCED_FENCE = "the member failed to sync within timeout"
CLASSIC_NOT_JOINED_FENCE = "the classic member failed to join within the rebalance timeout"
NOT_REVOKED_FENCE = "it failed to transition from epoch "

# Since 3.2 the reason that the client gave follows.
_OF_CLIENTS = read_templates("""
new_member: Adding new member {member_id} with group instance id {group_instance_id}
member_joining: Member {member_id} is joining group during {state:word}
member_joining: Member {member_id} joining group during {state:word}
metadata_changed: Updating metadata for member {member_id} during {state:word}
leader_rejoined: Leader {member_id} re-joining group during {state:word}
leader_rejoined: leader {member_id} re-joining group during {state:word}
static_member_replaced: Updating metadata for static member {member_id} with instance id {group_instance_id}
static_member_changes_protocol: Group's selectedProtocol will change because static member {member_id} with instance id
    {group_instance_id} joined with change of protocol
member_left: Removing member {member_id} on LeaveGroup
""")
# "assignmentduring", without a blank, is the broker's.
_OF_THE_COORDINATOR = read_templates("""
members_left: explicit `LeaveGroup` request for ({member_ids}) members.
member_left: removing member {member_id} on LeaveGroup
session_expired: removing member {member_id} on heartbeat expiration.
session_expired: removing member {member_id} on heartbeat expiration
sync_expired: Removing {member_ids} on pending sync request expiration
assignment_not_stored: Error {error} when storing group assignmentduring SyncGroup (member: {member_id}).
assignment_not_stored: Error {error} when storing group assignment during SyncGroup (member: {member_id})
assignment_not_stored: Error when storing group assignment during SyncGroup (member: {member_id})
assignment_not_stored: error when storing group assignment during SyncGroup (member: {member_id})
over_capacity: Freshly-loaded group {group_id} (size {member_count:int}) is over capacity {group_max_size:int}.
    Rebalancing in order to give a chance for consumers to commit offsets
over_capacity: Freshly-loaded group is over capacity ({group_max_size}). Rebalancing in order to give a chance for
    consumers to commit offsets
over_capacity: Freshly-loaded group is over capacity ({group_max_size}). Rebalacing in order to give a chance for
    consumers to commit offsets
group_downgraded: Downgrade group {group_id} from consumer to classic for member leaving.
group_downgraded_by_replacement: Downgrade group {group_id} from consumer to classic for static member replacement with
    different subscription.
group_downgraded_with_old_target: Downgrade group {group_id} from consumer to classic with stale assignment.
""")
# Before 2.5 and 2.6. The last then stood for a leader that joins again, too.
_OF_OLDER_COORDINATORS = read_templates("""
new_member: Adding new member {member_id} with group instanceid {group_instance_id}
new_member: Adding new member {member_id}
rejoined: Updating metadata for member {member_id}
""")
REASONS = (
    *((kind, text + "; client reason: {client_reason}") for kind, text in _OF_CLIENTS),
    *_OF_CLIENTS,
    *_OF_THE_COORDINATOR,
    *_OF_OLDER_COORDINATORS,
)
