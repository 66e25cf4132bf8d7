"""Finds the names of the topics that the records of `consumer` and share groups name by id, before they are folded.

A name may be known already, or be in the samples of watermarks, or in a commit that carries the id. A share group's own
record of the partitions that can be shared names its topics, before any of them is assigned to a member; in a compacted
log that record may come later. If none of these has the name, the history is written with the id in its place. As soon
as a later batch or sample has the name, the rows of `assignments`, `share_assignments` and `member_epochs` are written
again with it. The pauses in `rebalances` come from commits, which name their topics; so the first pauses of such a
topic are missing until the next rebuild.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from groupledger.jobs.warehouse.tables import is_among
from groupledger.jobs.warehouse.topic_names import known_names, learn, set_awaited
from groupledger.jobs.warehouse.upsert import upsert_arrow
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.member_epochs import MEMBER_EPOCHS
from groupledger.schemas.tables.share_assignments import SHARE_ASSIGNMENTS
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.schemas.wire.share_group import SHARE_GROUP_STATE_PARTITION_METADATA

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger

# The lists in a share group's record that name topics, including topics that are no longer shared.
_LISTS_OF_TOPICS = ("initializing_topics", "initialized_topics", "deleting_topics")
_NAMED_TOPICS = ", ".join(f"{name} array<struct<topic_id string, topic_name string>>" for name in _LISTS_OF_TOPICS)
# A topic that has no name yet, and exists, is in the next sample.
NEW_SAMPLES = timedelta(days=1)


def topic_names_of(ledger: Ledger, records: DataFrame, mentioned: Collection[str], into: Ledger) -> dict[str, str]:
    """Returns all known topic names by id, and writes newly learned ones into `topic_names`. `mentioned` are the topic
    ids in the batch's `records`; the columns `topic_id` and `topic` of these are those of commits. `into` is the
    ledger, or has the tables aside that a rebuild writes."""
    names, awaited = known_names(ledger)
    unnamed = {*mentioned} - names.keys()
    learned = {topic_id: names[topic_id] for topic_id in awaited & names.keys()}
    open_ids = sorted(unnamed | awaited - names.keys())
    if open_ids:
        found = _names_in_share_groups(records, open_ids) | _names_in_commits(records, open_ids)
        is_all_new = bool(unnamed - awaited)
        found |= _names_in_samples(ledger, [each for each in open_ids if each not in found], is_all=is_all_new)
        learn(ledger, found)
        set_awaited(ledger, unnamed - found.keys() - awaited, is_awaited=True)
        names |= found
        learned |= {topic_id: found[topic_id] for topic_id in awaited & found.keys()}
    if learned:
        _rename(ledger, learned)
        if into is not ledger:
            _rename(into, learned)
        set_awaited(ledger, learned, is_awaited=False)
    return names


def _names_in_commits(records: DataFrame, topic_ids: Collection[str]) -> dict[str, str]:
    names = records.where(F.col("topic_id").isin([*topic_ids])).groupBy("topic_id").agg(F.max("topic"))
    return dict(names.collect())


def _names_in_share_groups(records: DataFrame, topic_ids: Collection[str]) -> dict[str, str]:
    of_state = F.col("record_type") == SHARE_GROUP_STATE_PARTITION_METADATA.record_type
    named = F.from_json("record_json", _NAMED_TOPICS)
    topics = F.concat(*(F.coalesce(named[name], F.array()) for name in _LISTS_OF_TOPICS))
    named_topics = (
        records.where(of_state)
        .select(F.explode(topics).alias("topic"))
        .where(F.col("topic.topic_id").isin([*topic_ids]))
    )
    return dict(named_topics.groupBy("topic.topic_id").agg(F.max("topic.topic_name")).collect())


def _names_in_samples(ledger: Ledger, topic_ids: Collection[str], *, is_all: bool) -> dict[str, str]:
    """Returns topic names by id from the samples of watermarks: from all samples, or from those of the last day."""
    if not topic_ids or not ledger.exists(WATERMARKS):
        return {}
    is_asked = is_among("topic_id", topic_ids)
    if not is_all:
        is_asked &= pc.field("sample_date") >= datetime.now(timezone.utc).date() - NEW_SAMPLES
    found = ledger.arrow(WATERMARKS, is_asked, ["topic_id", "topic"])
    return dict(zip(found["topic_id"].to_pylist(), found["topic"].to_pylist(), strict=True))


def _rename(ledger: Ledger, names: dict[str, str]) -> None:
    """Writes rows with the names first, and then removes the rows with the ids: if a run is killed in between, the next
    one repeats it."""
    groups: set[str] = set()
    for table in (ASSIGNMENTS, SHARE_ASSIGNMENTS):
        owned = ledger.arrow(table, is_among("topic", names))
        rows = owned.to_pylist()
        if rows:
            named = [row | {"topic": names[row["topic"]]} for row in rows]
            upsert_arrow(ledger, table, pa.Table.from_pylist(named, owned.schema))
            # An id is base64 for URLs, and so nothing that SQL would read as more than text.
            listed = ", ".join(f"'{topic_id}'" for topic_id in sorted(names))
            ledger.commits.delete(table, f"cluster = '{ledger.cluster}' AND topic IN ({listed})")
            groups |= {row["group_id"] for row in rows}
    if not groups:
        return
    steps = ledger.arrow(MEMBER_EPOCHS, is_among("group_id", groups))
    renamed = [_named_step(row, names) for row in steps.to_pylist()]
    upsert_arrow(ledger, MEMBER_EPOCHS, pa.Table.from_pylist(renamed, steps.schema))


def _named_step(row: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    def named(column: str, *order: str) -> list[dict[str, Any]]:
        found = [each | {"topic": names.get(each["topic"], each["topic"])} for each in row[column]]
        return sorted(found, key=itemgetter(*order))

    by_topic = {column: named(column, "topic") for column in ("assigned", "pending_revocation", "target")}
    return row | by_topic | {"waits_for": named("waits_for", "topic", "partition")}
