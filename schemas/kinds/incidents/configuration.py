"""Refusals because of settings or rights: the client does not work until these are changed."""

from __future__ import annotations

from groupledger.schemas.kafka.api_keys import EPOCH_HEARTBEATS, ApiKey
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kinds import roots, rows_of
from groupledger.schemas.kinds.clauses import Clause, Fact
from groupledger.schemas.kinds.incidents.kind import COMMITS, JOINS, OF_CONSUMERS, OF_STREAMS, IncidentKind
from groupledger.schemas.words import Severity

_EPOCH_HEARTBEATS = tuple(api.name for api in EPOCH_HEARTBEATS)
_OF_MEMBERS = (*JOINS, ApiKey.HEARTBEAT.name, ApiKey.LEAVE_GROUP.name, *_EPOCH_HEARTBEATS, *COMMITS)
UNSUPPORTED_ASSIGNOR = IncidentKind(
    name="unsupported_assignor",
    meaning="A member can't join: it asks for an assignor that the broker does not have (KIP-848).",
    happened=(
        "{who} was refused {times} with UNSUPPORTED_ASSIGNOR: the broker does not have its group.remote.assignor",
        Clause(" ({detail})", needs=(Fact.ASSIGNOR_NAMED,)),
        ".",
    ),
    advice="It does not work until that is changed: leave group.remote.assignor empty, or name one of the brokers'"
    " group.consumer.assignors.",
    settings=("group.remote.assignor", "group.consumer.assignors"),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.UNSUPPORTED_ASSIGNOR.value,
    apis=OF_CONSUMERS,
)
INVALID_REGEX = IncidentKind(
    name="invalid_regex",
    meaning="A member can't subscribe: its pattern is not a valid RE2 expression (KIP-848).",
    happened="{who} was refused {times} with INVALID_REGULAR_EXPRESSION: its subscription pattern is not valid in RE2.",
    advice="It does not work until that is changed: the broker evaluates patterns in RE2 syntax, which lacks some of"
    " Java's.",
    settings=("subscription pattern",),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.INVALID_REGULAR_EXPRESSION.value,
    apis=OF_CONSUMERS,
)
STREAMS_INVALID_TOPOLOGY = IncidentKind(
    name="streams_invalid_topology",
    meaning="A streams member can't join: the broker finds its topology invalid.",
    happened="{who} was refused {times} with STREAMS_INVALID_TOPOLOGY: its topology names topics that are internal to"
    " Kafka, or invalid topic names.",
    advice="It does not work until its topology is changed.",
    settings=("topology",),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.STREAMS_INVALID_TOPOLOGY.value,
    apis=OF_STREAMS,
)
STREAMS_INVALID_TOPOLOGY_EPOCH = IncidentKind(
    name="streams_invalid_topology_epoch",
    meaning="A streams member can't join: its topology's epoch does not follow its group's.",
    happened="{who} was refused {times} with STREAMS_INVALID_TOPOLOGY_EPOCH: its topology's epoch does not follow"
    " the group's.",
    advice="It does not work until that is changed: roll out one topology after the other.",
    settings=("topology",),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.STREAMS_INVALID_TOPOLOGY_EPOCH.value,
    apis=OF_STREAMS,
)
STREAMS_TOPOLOGY_FENCED = IncidentKind(
    name="streams_topology_fenced",
    meaning="A streams member has an older topology than its group.",
    happened="{who} was refused {times} with STREAMS_TOPOLOGY_FENCED: its group has a newer topology.",
    advice="It does not work until it is started with the group's topology: finish the roll-out.",
    settings=("topology",),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.STREAMS_TOPOLOGY_FENCED.value,
    apis=OF_STREAMS,
)
STREAMS_TOPOLOGY_CHANGED = IncidentKind(
    name="streams_topology_changed",
    meaning="A streams member can't join: its topology differs from its group's, and the broker accepts no other.",
    happened="{who} was refused {times} with INVALID_REQUEST, as brokers up to 4.2 refuse a topology that differs from"
    " the group's.",
    advice="It does not work until it has the group's topology: stop all members and delete the group, or give the new"
    " topology its own application.id.",
    settings=("application.id",),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.INVALID_REQUEST.value,
    apis=OF_STREAMS,
)
OFFSET_METADATA_TOO_LARGE = IncidentKind(
    name="offset_metadata_too_large",
    meaning="A commit has more metadata than the broker stores.",
    happened="{who} sent more metadata with its commit than the broker stores, and was refused {times} with"
    " OFFSET_METADATA_TOO_LARGE.",
    advice="No progress is stored for these partitions, so a restart reads the records since then again{duplicates}."
    " Store less with the offsets, or raise offset.metadata.max.bytes on the brokers.",
    settings=("offset.metadata.max.bytes",),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.OFFSET_METADATA_TOO_LARGE.value,
    apis=COMMITS,
)
INCONSISTENT_PROTOCOL = IncidentKind(
    name="inconsistent_protocol",
    meaning="A member can't join: it shares no assignor or protocol type with the group's members.",
    happened="{who} was refused {times} with INCONSISTENT_GROUP_PROTOCOL: it offers no assignor that all members have,"
    " or has another protocol type.",
    advice="It does not work until they agree: give all members one common partition.assignment.strategy; a rolling"
    " change of the assignor takes two rounds. Give each kind of application its own group.id.",
    settings=("partition.assignment.strategy", "group.id"),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.INCONSISTENT_GROUP_PROTOCOL.value,
    apis=JOINS,
)
INVALID_SESSION_TIMEOUT = IncidentKind(
    name="invalid_session_timeout",
    meaning="A member can't join: the broker does not allow its session timeout.",
    happened="{who} was refused {times} with INVALID_SESSION_TIMEOUT: its session.timeout.ms is outside the range that"
    " the broker allows.",
    advice="It does not work until that is changed: set session.timeout.ms between group.min.session.timeout.ms and"
    " group.max.session.timeout.ms of the brokers.",
    settings=("session.timeout.ms", "group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.INVALID_SESSION_TIMEOUT.value,
    apis=(ApiKey.JOIN_GROUP.name,),
)
TOPIC_NOT_AUTHORIZED = IncidentKind(
    name="topic_not_authorized",
    meaning="A client committed for a topic that it is not authorized to read.",
    happened="{who} committed for {count} partitions that it is not authorized to read, and was refused {times} with"
    " TOPIC_AUTHORIZATION_FAILED.",
    advice="No progress is stored for them, so a restart reads the records since then again{duplicates}. Give its"
    " principal the ACL to READ the topic.",
    settings=("ACL: READ of the topic",),
    root=roots.NOT_AUTHORIZED,
    severity=Severity.ERROR,
    error_code=Error.TOPIC_AUTHORIZATION_FAILED.value,
    apis=COMMITS,
)
GROUP_NOT_AUTHORIZED = IncidentKind(
    name="group_not_authorized",
    meaning="A client is not authorized to join the group or to commit for it.",
    happened="{who} was refused {times} with GROUP_AUTHORIZATION_FAILED: it is not authorized to read as this group.",
    advice="It does not work, or its progress is not stored: give its principal the ACL to READ the group.",
    settings=("ACL: READ of the group",),
    root=roots.NOT_AUTHORIZED,
    severity=Severity.ERROR,
    error_code=Error.GROUP_AUTHORIZATION_FAILED.value,
    # Without the right a consumer is refused as it looks for its coordinator, and never joins.
    apis=(ApiKey.FIND_COORDINATOR.name, *_OF_MEMBERS),
)
GROUP_FULL = IncidentKind(
    name="group_full",
    meaning="A member can't join: the group has as many members as the broker allows.",
    happened="{who} was refused {times} with GROUP_MAX_SIZE_REACHED: the group has as many members as the broker"
    " allows.",
    advice="It does not work, and the others do its share. Start fewer members, or raise group.max.size on the"
    " brokers.",
    settings=("group.max.size",),
    root=roots.CONFIGURATION,
    severity=Severity.ERROR,
    error_code=Error.GROUP_MAX_SIZE_REACHED.value,
    apis=(ApiKey.JOIN_GROUP.name, *_EPOCH_HEARTBEATS),
)

KINDS = rows_of(globals(), IncidentKind)
