"""`coordinator_events`: one row for each line of a group coordinator about a group in the broker's server log.

Both coordinators are known: Scala's (0.10 to 3.x, `kafka.coordinator.group`) and Java's (3.7 on,
`org.apache.kafka.coordinator.group`); the same event has the same `kind`. The log is text, and group ids, member ids
and reasons are in it as their clients wrote them. If a line could be split in several ways, `is_certain` is false, and
the row shows the likeliest reading. A line that a client forges by a line break in a name can't be
distinguished from a true one. `message` is always the whole text.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.requests import IS_TIME_AMBIGUOUS, LINE_NUMBER, SOURCE_FILE
from groupledger.schemas.tables.table import CLUSTER, Table, column, struct

COORDINATOR_EVENTS = Table(
    name="coordinator_events",
    comment="One row for each event of a group that the brokers' group coordinators logged.",
    written_by="import-logs",
    key=("cluster", "source_file", "line_number"),
    partition_columns=("cluster", "logged_date"),
    statistics_columns=("cluster", "source_file", "line_number", "logged_at", "group_id", "kind"),
    schema=struct(
        CLUSTER,
        SOURCE_FILE,
        LINE_NUMBER,
        column("line_count", T.IntegerType(), "Lines of the message; more than 1 if a name in it has line breaks."),
        column("logged_at", T.TimestampType(), "Time of the line. Whole milliseconds."),
        column("is_time_ambiguous", T.BooleanType(), IS_TIME_AMBIGUOUS),
        column("level", T.StringType(), "INFO, WARN, ERROR or DEBUG."),
        column("logger", T.StringType(), "The logger's name."),
        column("broker_id", T.IntegerType(), "The broker; null where the line does not say."),
        column("kafka_partition", T.IntegerType(), "Partition of __consumer_offsets; null where it is not said."),
        column("kind", T.StringType(), "What happened; schemas.kafka.coordinator_log has the kinds."),
        column("group_id", T.StringType(), "The group; null if the event is about several, or none."),
        column(
            "group_ids",
            T.ArrayType(T.StringType()),
            "Of groups_deleted: the groups, split at commas; a name may hold one.",
        ),
        column("generation", T.IntegerType(), "The generation, or group epoch, that the event made or speaks of."),
        column(
            "previous_generation",
            T.IntegerType(),
            "Of preparing_rebalance: the generation that comes to its end. The next one may be any later one.",
        ),
        column(
            "member_id",
            T.StringType(),
            "The member; in leader_replaced and member_fenced the old one.",
        ),
        column("member_ids", T.ArrayType(T.StringType()), "The members, where an event is about several."),
        column("previous_member_id", T.StringType(), "The member in whose place it is, or who fences it."),
        column("group_instance_id", T.StringType(), "The member's instance id; null if it has none."),
        column("member_count", T.IntegerType(), "Members of the group then."),
        column("state", T.StringType(), "The group's state as the line has it."),
        column("reason", T.StringType(), "Why, in the coordinator's words."),
        column("client_reason", T.StringType(), "Why, in the client's words; null if it gave none."),
        column(
            "trigger",
            T.StringType(),
            "Of preparing_rebalance: the reason in the words of rebalances.trigger; unknown for one not known, null if"
            " the broker gave none (before 2.1).",
        ),
        column("details", T.MapType(T.StringType(), T.StringType()), "What else the line names, by name."),
        column("is_certain", T.BooleanType(), "The line can be split into its names in one way only."),
        column("message", T.StringType(), "The whole message."),
        column("logged_date", T.DateType(), "UTC date of logged_at."),
    ),
)
