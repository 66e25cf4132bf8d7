"""`incidents`: one row for each kind of thing that went wrong within an episode.

An episode is a first incident and all that followed from it: `episode_id` holds its rows together. Repeats are folded
into one row. A row rests on one kind of evidence only, the strongest that there is for its kind in its episode:

    observed   a line of a log: the request log's error, or a coordinator's line that records confirm
    logged     one broker's server log says so, and no record confirms it
    replayed   the reference coordinator refuses a request whose answer the log lacks
    inferred   the records of __consumer_offsets alone; refused commits are not among them, so what is said of
               duplicates is an exposure, and no count

Ids are hashes of what the rows are about, so that a later run gives the same ones.
"""

from pyspark.sql import types as T

from groupledger.schemas.kinds.incidents import INCIDENT_KINDS
from groupledger.schemas.kinds.roots import ROOTS
from groupledger.schemas.tables.table import CLUSTER, INCARNATION, OF_STATE, PARTITION, Table, column, struct
from groupledger.schemas.words import Evidence, Severity, one_of, words_of

INCIDENT_PARTITION = struct(
    column("topic", T.StringType(), "Topic; its id where no name is known."),
    PARTITION,
    column("refused_offset", T.LongType(), "The highest offset that was refused, or went lost; null if none was."),
    column("last_accepted_offset", T.LongType(), "The offset that was committed before it; null if not known."),
    column("owner_member_id", T.StringType(), "Who owns the partition now, as far as the ledger has read."),
    column("owner_client_id", T.StringType(), "That member's client id."),
)

PROOF = struct(
    column("table_name", T.StringType(), "A table of the ledger."),
    column("row_key", T.StringType(), "The row's key after the cluster, its parts joined by a slash."),
)

INCIDENTS = Table(
    name="incidents",
    comment="One row for each kind of fault within an episode: who, since when, why, and what to expect.",
    written_by="pipeline",
    key=("cluster", "incident_id"),
    statistics_columns=("cluster", "incident_id", "group_id", "kind", "first_seen_at", "last_seen_at"),
    retention=OF_STATE,
    schema=struct(
        CLUSTER,
        column("incident_id", T.StringType(), "Hash of episode and kind."),
        column("episode_id", T.StringType(), "The episode: all rows that one cause brought about have the same."),
        column("kind", T.StringType(), f"What it is: {one_of([kind.name for kind in INCIDENT_KINDS])}."),
        column("severity", T.StringType(), f"{one_of(words_of(Severity))}."),
        column("evidence", T.StringType(), f"{one_of(words_of(Evidence))}."),
        column("confidence", T.DoubleType(), "How often such a row was right where that was measured; 1 if observed."),
        column("is_ambiguous", T.BooleanType(), "Requests arrived at one instant, and their order decides."),
        column("group_id", T.StringType(), "The consumer group; null for an incident of a whole partition of the log."),
        INCARNATION,
        column("claimed_generation", T.IntegerType(), "The generation, or member epoch, that the member believed in."),
        column("current_generation", T.IntegerType(), "The generation, or group epoch, that the group had reached."),
        column("member_id", T.StringType(), "The member concerned; null if the incident concerns the group."),
        column("group_instance_id", T.StringType(), "Its instance id; null for a dynamic member."),
        column("client_id", T.StringType(), "Its client id."),
        column("client_host", T.StringType(), "Its address."),
        column("partitions", T.ArrayType(INCIDENT_PARTITION), "The partitions concerned."),
        column(
            "stale_since_generation",
            T.IntegerType(),
            "to_generation of the rebalance that made the member's generation stale: with group and incarnation a key"
            " of rebalances. Null if no such rebalance is known.",
        ),
        column(
            "probable_root",
            T.StringType(),
            f"What probably began the episode: {one_of([root.name for root in ROOTS])}.",
        ),
        column("duplicates_min", T.LongType(), "So many records were processed twice for certain; null if unknown."),
        column("duplicates_max", T.LongType(), "At most so many records were processed twice; null if unknown."),
        column(
            "never_read_max",
            T.LongType(),
            "At most so many records were never read, or would be; null if none were, or if that is not known.",
        ),
        column("first_seen_at", T.TimestampType(), "When it was first seen."),
        column("last_seen_at", T.TimestampType(), "When it was last seen."),
        column("occurrences", T.LongType(), "How often it was seen."),
        column("is_open", T.BooleanType(), "It was last seen just before the end of the log that the ledger has read."),
        column("explanation", T.StringType(), "What happened and what it means, in two sentences."),
        column("setting_to_change", T.StringType(), "The setting that prevents it; null if none does."),
        column("proofs", T.ArrayType(PROOF), "The first rows of other tables that prove it."),
    ),
)
