"""Writes each sampling round into `watermarks` and `group_states` exactly once.

A round is a numbered batch of its table, and the number is its `sampled_at`, so that a round which is written again is
skipped. A new round that is not later than the table's last one would be skipped as well: if the clock has gone back,
the round gets a time right after the last one.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from groupledger.jobs.kafka.brokers import connect
from groupledger.jobs.kafka.markers import Markers
from groupledger.jobs.kafka.offsets_topic import offsets_topic_identity
from groupledger.jobs.kafka.sampling import sample_ends, take_round
from groupledger.jobs.process.clock import DAY_MS, now_ms
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.warehouse.commits import NumberedBatch
from groupledger.jobs.warehouse.delta_log import last_transaction
from groupledger.jobs.warehouse.ledger import records_since
from groupledger.jobs.warehouse.source import KAFKA, check_same_source, read_source
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.tables.group_states import GROUP_STATES
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.lag_seeds import LAG_SEEDS
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.schemas.words import LagSeedKind
from groupledger.transforms.lag.rules.resting import Place, resting_places
from groupledger.transforms.offsets.offset_commits import commit_log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from groupledger.jobs.kafka.sampling import SampledRound
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.kafka.topic_partition import TopicPartition
    from groupledger.schemas.tables.table import Table
    from groupledger.transforms.lag.rules.resting import Resting

SAMPLE_TABLES = (GROUP_STATES, WATERMARKS)
NAMES_SHOWN = 5


def sample(ledger: Ledger, bootstrap_servers: str) -> SampledRound:
    """Samples one round, writes it into the tables, and returns it. Raises InputError if the ledger is fed from another
    cluster."""
    check_sampled_cluster(ledger, bootstrap_servers)
    ledger.create(*SAMPLE_TABLES)
    topics = sampled_topics(ledger)
    with connect(bootstrap_servers, ledger.settings) as brokers:
        at_ms = next_round_ms(now_ms(), last_round_ms(ledger))
        shard = ledger.settings.kafka.own
        ends = sample_ends(brokers, ledger.settings.sampling, shard)
        sampled = take_round(brokers, ledger.settings.sampling, topics, at_ms, ends, shard)
        sampled = Markers().add_to(sampled, _resting(ledger), brokers, ledger.settings.sampling)
    check_sampled_cluster(ledger, bootstrap_servers)
    append_round(ledger, sampled)
    say_round(ledger, sampled)
    return sampled


def _resting(ledger: Ledger) -> dict[TopicPartition, Resting]:
    """Returns the places where groups rested in the last round whose lag is computed, with perhaps only markers left to
    read."""
    if not ledger.exists(LAG):
        return {}
    last_ms = last_sampled_at_ms(ledger, LAG)
    is_last = (pc.field("sample_date") == instant_of_ms(last_ms).date()) & (
        pc.field("sampled_at") == pa.scalar(last_ms * 1_000, pa.timestamp("us", "UTC"))
    )
    return resting_places(Place(**row) for row in ledger.arrow(LAG, is_last, Place._fields).to_pylist())


def check_sampled_cluster(ledger: Ledger, bootstrap_servers: str) -> None:
    """Raises InputError if the address belongs to another cluster than the one that the ledger is fed from, and
    OutsideError if no broker answers."""
    source = read_source(ledger.storage, ledger.cluster)
    identity = offsets_topic_identity(bootstrap_servers, ledger.settings.kafka)
    if source is not None:
        check_same_source(source, KAFKA, identity, ledger.cluster)


def last_round_ms(ledger: Ledger) -> int:
    return max(last_sampled_at_ms(ledger, table) for table in SAMPLE_TABLES)


def next_round_ms(at_ms: int, last_ms: int) -> int:
    return max(at_ms, last_ms + 1)


def say_round(ledger: Ledger, sampled: SampledRound) -> None:
    ledger.say(
        f"sampled {len(sampled.watermarks):,} partitions and {len(sampled.group_states):,} groups"
        + (f", {sampled.errors():,} of them without an answer" if sampled.errors() else "")
    )
    for what, reasons in (("topics", sampled.unseen_topics), ("brokers", sampled.silent_brokers)):
        for reason in sorted(set(reasons.values())):
            names = sorted(printable(str(name)) for name, why in reasons.items() if why == reason)
            shown = ", ".join(names[:NAMES_SHOWN]) + (" ..." if len(names) > NAMES_SHOWN else "")
            ledger.warn(f"{len(names):,} {what} could not be sampled ({reason}): {shown}")


def append_round(ledger: Ledger, sampled: SampledRound) -> None:
    """Appends a round to both tables, `watermarks` last: other jobs treat a round with watermarks as complete."""
    for table, rows in ((GROUP_STATES, sampled.group_states), (WATERMARKS, sampled.watermarks)):
        append_rows(ledger, table, columns_of(rows), sampled.sampled_at_ms)


def columns_of(rows: Sequence[Any]) -> dict[str, list[Any]]:
    """Returns the columns of rows that are dataclasses, all of the same type; an empty dict if there are no rows."""
    return {field.name: [getattr(row, field.name) for row in rows] for field in fields(rows[0])} if rows else {}


def append_rows(ledger: Ledger, table: Table, columns: Mapping[str, Sequence[Any]], sampled_at_ms: int) -> None:
    """Appends the rows of one round. Columns of the table that are not in `columns` are null. If there are no rows, no
    commit is made."""
    count = len(next(iter(columns.values()), ()))
    if not count:
        return
    constants = {
        "cluster": ledger.cluster,
        "sampled_at": sampled_at_ms * 1000,
        "sample_date": sampled_at_ms // DAY_MS,
    }
    arrow_types = arrow_schema(table.schema)
    given = {**{name: [value] * count for name, value in constants.items()}, **columns}
    arrays = [pa.array(given.get(field.name, [None] * count), field.type) for field in arrow_types]
    rows = pa.Table.from_arrays(arrays, schema=arrow_types)
    ledger.commits.append(table, rows, batch_of(ledger, table, sampled_at_ms))


def batch_of(ledger: Ledger, table: Table, last_sampled_at_ms: int) -> NumberedBatch:
    """Returns what identifies the batch of rounds that a table gets next: its number is the time of its last round,
    `last_sampled_at_ms`."""
    return NumberedBatch(application_id(ledger, table), last_sampled_at_ms)


def last_sampled_at_ms(ledger: Ledger, table: Table) -> int:
    """Returns the number of the last batch that this ledger wrote into a table: for tables of rounds the time of the
    last round, in milliseconds since the epoch. Returns 0 before the first batch."""
    return last_transaction(ledger.warehouse, table, application_id(ledger, table)) or 0


def application_id(ledger: Ledger, table: Table) -> str:
    return f"groupledger {ledger.cluster} {table.name}"


def sampled_topics(ledger: Ledger) -> set[str] | None:
    """Returns the topics to sample: those with commits, and those that groups were subscribed to in the last round.
    Returns None, for all topics, while the ledger has no commit."""
    seeds = ledger.rows_if_any(LAG_SEEDS)
    kept = seeds.where((F.col("kind") == LagSeedKind.COMMIT) & F.col("committed_offset").isNotNull())
    ingested = seeds.where(F.col("kind") == LagSeedKind.INGESTED).select("at_ms").collect()
    new = commit_log(records_since(ledger, ingested[0].at_ms if ingested else None)).where("NOT is_tombstone")
    committed = {row.topic for row in kept.select("topic").union(new.select("topic")).distinct().collect()}
    last_ms = last_sampled_at_ms(ledger, GROUP_STATES)
    states = ledger.rows_if_any(GROUP_STATES).where(F.col("sampled_at") == F.timestamp_millis(F.lit(last_ms)))
    states = states.where(F.col("sample_date") == F.date_from_unix_date(F.lit(last_ms // DAY_MS).cast("int")))
    subscribed = {row[0] for row in states.select(F.explode("subscribed_topics")).distinct().collect()}
    return (committed | subscribed) - {OFFSETS_TOPIC} if committed else None
