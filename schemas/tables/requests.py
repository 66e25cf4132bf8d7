"""`requests`: one row for each line of a broker's request log that is about consumer groups, or about a fetch that the
broker throttled.

The request log (`kafka.request.logger` at DEBUG, JSON since 2.8, KIP-673) is the only witness of refused requests, of
heartbeats and of which member committed. A row is one request with its answer, whole in `request_json` and
`response_json`; the columns beside them are what most questions need. A request about several groups (OffsetFetch since
version 8, DescribeGroups, DeleteGroups) is one row all the same: `groups` has an element for each, and `group_id` is
null if there is more than one. The same holds for several members (LeaveGroup since version 3), with `members` and
`member_id`. A Fetch names no group: `groups` is empty, and the client's name and host say whose it is.

Order of arrival is (`happened_at`, `source_file`, `line_number`): a line is written when the answer has been sent, so a
parked join comes after the requests that followed it. Equal times within a broker are a tie that nothing breaks.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import CLUSTER, PARTITION, Table, column, struct

# What every row from a log begins with.
SOURCE_FILE = column("source_file", T.StringType(), "The file, by its own first line, not by its name: see log_files.")
LINE_NUMBER = column("line_number", T.LongType(), "The line of the file, counted from 1.")

IS_TIME_AMBIGUOUS = (
    "The line's time has no zone, and could be an hour later, or is in the hour that the clocks left out: logged_at is"
    " the likelier reading. Null in rows of older releases."
)

_ERROR_CODE = column("error_code", T.IntegerType(), "Kafka's error code, 0 for success; null if the answer has none.")
_ERROR = column("error", T.StringType(), "Kafka's name of the error, NONE for 0; null for a code that is unknown.")

REQUEST_GROUP = struct(
    column("group_id", T.StringType(), "The group."),
    column("member_id", T.StringType(), "The member that OffsetFetch speaks for; null from version 8 down, or none."),
    column("member_epoch", T.IntegerType(), "Its epoch."),
    _ERROR_CODE,
    _ERROR,
)

REQUEST_MEMBER = struct(
    column("member_id", T.StringType(), "The member that leaves; empty if it is named by its instance id alone."),
    column("group_instance_id", T.StringType(), "Its instance id."),
    column("reason", T.StringType(), "The reason that the client gave."),
    _ERROR_CODE,
    _ERROR,
)

REQUEST_PARTITION = struct(
    column("group_id", T.StringType(), "The group."),
    column("topic", T.StringType(), "The topic; null if the request names it by an id whose name is not known."),
    column("topic_id", T.StringType(), "The topic's id, if the request names it so (OffsetCommit since version 10)."),
    PARTITION,
    column("committed_offset", T.LongType(), "The offset to commit, or the one that was fetched."),
    column("leader_epoch", T.IntegerType(), "The leader epoch with it; null or -1 without one."),
    _ERROR_CODE,
    _ERROR,
)

REQUESTS = Table(
    name="requests",
    comment="One row for each line of the brokers' request logs about consumer groups, or about a throttled fetch.",
    written_by="import-logs",
    key=("cluster", "source_file", "line_number"),
    partition_columns=("cluster", "happened_date"),
    statistics_columns=("cluster", "source_file", "line_number", "happened_at", "group_id", "api_key", "error_code"),
    schema=struct(
        CLUSTER,
        SOURCE_FILE,
        LINE_NUMBER,
        column("happened_at", T.TimestampType(), "When the broker got the request: log time minus total time."),
        column("logged_at", T.TimestampType(), "Time of the line: the answer had been sent. Whole milliseconds."),
        column("is_time_ambiguous", T.BooleanType(), IS_TIME_AMBIGUOUS),
        column("total_time_us", T.LongType(), "From the request's arrival to the end of sending the answer."),
        column("api_key", T.IntegerType(), "Kafka's number of the API."),
        column("api_version", T.IntegerType(), "Version of the request."),
        column("api", T.StringType(), "Kafka's name of the API, as OFFSET_COMMIT."),
        column(
            "error_code",
            T.IntegerType(),
            "The answer's own error; if that is 0, the first of groups, members, partitions; null: no answer.",
        ),
        column("error", T.StringType(), "Kafka's name of error_code, as ILLEGAL_GENERATION."),
        column(
            "error_scope", T.StringType(), "Where error_code was found: request, group, member, partition; or null."
        ),
        column("group_id", T.StringType(), "The group; null if the request names several or none."),
        column("groups", T.ArrayType(REQUEST_GROUP), "Every group that the request names."),
        column("member_id", T.StringType(), "The member that asks; null if it names several, empty if it has no id."),
        column("members", T.ArrayType(REQUEST_MEMBER), "LeaveGroup: every member that leaves."),
        column("group_instance_id", T.StringType(), "The member's instance id."),
        column("generation", T.IntegerType(), "The generation, or member epoch, that the request claims."),
        column("response_member_id", T.StringType(), "The member id that the answer gives (JoinGroup, heartbeats)."),
        column("response_generation", T.IntegerType(), "The generation, or member epoch, that the answer gives."),
        column("reason", T.StringType(), "Why, in the client's words (JoinGroup and LeaveGroup)."),
        column("throttle_time_ms", T.IntegerType(), "How long a quota made the client wait; null in rows of 0.1."),
        column(
            "partitions",
            T.ArrayType(REQUEST_PARTITION),
            "Offsets committed, fetched, deleted, or acknowledged.",
        ),
        column("client_id", T.StringType(), "The client's own name."),
        column("client_host", T.StringType(), "The address that the request came from, if the settings keep it."),
        column("client_software_name", T.StringType(), "The client library."),
        column("client_software_version", T.StringType(), "Its version."),
        column("principal", T.StringType(), "Who the client was authenticated as, if the settings keep it."),
        column("connection_id", T.StringType(), "The connection; hashed or left out as client_host is."),
        column("security_protocol", T.StringType(), "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."),
        column("listener", T.StringType(), "The broker's listener."),
        column("correlation_id", T.IntegerType(), "The client's number for the request within its connection."),
        column("is_forwarded", T.BooleanType(), "A broker passed the request on to the controller."),
        column("request_json", T.StringType(), "The request's body as the log has it."),
        column("response_json", T.StringType(), "The answer's body; null if the log has none."),
        column("happened_date", T.DateType(), "UTC date of happened_at."),
    ),
)
