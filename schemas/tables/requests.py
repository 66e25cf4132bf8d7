"""`requests`: one row for each line of a broker's request log that is about consumer groups.

The request log (`kafka.request.logger` at DEBUG, JSON since 2.8, KIP-673) is the only witness of refused requests, of
heartbeats and of which member committed. A row is one request with its answer, whole in `request_json` and
`response_json`; the columns beside them are what most questions need. A request about several groups (OffsetFetch since
version 8, DescribeGroups, DeleteGroups) is one row all the same: `groups` has an element for each, and `group_id` is
null if there is more than one. So with several members (LeaveGroup since version 3): `members`, and `member_id`.

Order of arrival is (`happened_at`, `source_file`, `line_number`): a line is written when the answer has been sent, so a
join that was parked stands behind what came after it. Equal times within a broker are a tie that nothing breaks.
"""

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from groupledger.schemas.tables.table import CLUSTER, Table, column

# What every row from a log begins with.
SOURCE_FILE = column("source_file", StringType(), "The file, by its own first line, not by its name: see log_files.")
LINE_NUMBER = column("line_number", LongType(), "The line of the file, counted from 1.")

_ERROR_CODE = column("error_code", IntegerType(), "Kafka's error code, 0 is none; null if the answer has none here.")
_ERROR = column("error", StringType(), "Kafka's name of the error, NONE for 0; null for a code that is unknown.")

REQUEST_GROUP = StructType(
    [
        column("group_id", StringType(), "The group."),
        column("member_id", StringType(), "The member that OffsetFetch speaks for; null from version 8 down, or none."),
        column("member_epoch", IntegerType(), "Its epoch."),
        _ERROR_CODE,
        _ERROR,
    ]
)

REQUEST_MEMBER = StructType(
    [
        column("member_id", StringType(), "The member that leaves; empty if it is named by its instance id alone."),
        column("group_instance_id", StringType(), "Its instance id."),
        column("reason", StringType(), "What the client gave as its reason."),
        _ERROR_CODE,
        _ERROR,
    ]
)

REQUEST_PARTITION = StructType(
    [
        column("group_id", StringType(), "The group."),
        column("topic", StringType(), "The topic; null if the request names it by an id whose name is not known."),
        column("topic_id", StringType(), "The topic's id, if the request names it so (OffsetCommit since version 10)."),
        column("partition", IntegerType(), "Partition of the topic."),
        column("committed_offset", LongType(), "The offset to commit, or the one that was fetched."),
        column("leader_epoch", IntegerType(), "The leader epoch with it; null or -1 if there is none."),
        _ERROR_CODE,
        _ERROR,
    ]
)

REQUESTS = Table(
    name="requests",
    comment="One row for each line of the brokers' request logs that is about consumer groups.",
    written_by="import-logs",
    key=("cluster", "source_file", "line_number"),
    partition_columns=("happened_date",),
    statistics_columns=("cluster", "source_file", "line_number", "happened_at", "group_id", "api_key", "error_code"),
    schema=StructType(
        [
            CLUSTER,
            SOURCE_FILE,
            LINE_NUMBER,
            column("happened_at", TimestampType(), "When the broker got the request: log time minus total time."),
            column("logged_at", TimestampType(), "Time of the line: the answer had been sent. Whole milliseconds."),
            column("total_time_us", LongType(), "From the request's arrival to the end of sending the answer."),
            column("api_key", IntegerType(), "Kafka's number of the API."),
            column("api_version", IntegerType(), "Version of the request."),
            column("api", StringType(), "Kafka's name of the API, as OFFSET_COMMIT."),
            column(
                "error_code",
                IntegerType(),
                "The answer's own error; if that is 0, the first of groups, members, partitions; null: no answer.",
            ),
            column("error", StringType(), "Kafka's name of error_code, as ILLEGAL_GENERATION."),
            column(
                "error_scope", StringType(), "Where error_code was found: request, group, member, partition; or null."
            ),
            column("group_id", StringType(), "The group; null if the request names several or none."),
            column("groups", ArrayType(REQUEST_GROUP), "Every group that the request names."),
            column("member_id", StringType(), "The member that asks; null if it names several, empty if it has no id."),
            column("members", ArrayType(REQUEST_MEMBER), "LeaveGroup: every member that leaves."),
            column("group_instance_id", StringType(), "The member's instance id."),
            column("generation", IntegerType(), "The generation, or member epoch, that the request claims."),
            column("response_member_id", StringType(), "The member id that the answer gives (JoinGroup, heartbeats)."),
            column("response_generation", IntegerType(), "The generation, or member epoch, that the answer gives."),
            column("reason", StringType(), "Why, in the client's words (JoinGroup and LeaveGroup)."),
            column("partitions", ArrayType(REQUEST_PARTITION), "Offsets committed, fetched or deleted."),
            column("client_id", StringType(), "The client's own name."),
            column("client_host", StringType(), "The address that the request came from, if the settings keep it."),
            column("client_software_name", StringType(), "The client library."),
            column("client_software_version", StringType(), "Its version."),
            column("principal", StringType(), "Who the client was authenticated as, if the settings keep it."),
            column("connection_id", StringType(), "The connection; hashed or left out as client_host is."),
            column("security_protocol", StringType(), "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."),
            column("listener", StringType(), "The broker's listener."),
            column("correlation_id", IntegerType(), "The client's number for the request within its connection."),
            column("is_forwarded", BooleanType(), "A broker passed the request on to the controller."),
            column("request_json", StringType(), "The request's body as the log has it."),
            column("response_json", StringType(), "The answer's body; null if the log has none."),
            column("happened_date", DateType(), "UTC date of happened_at."),
        ]
    ),
)
