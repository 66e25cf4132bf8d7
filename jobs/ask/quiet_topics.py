"""Finds the topics of a group that got records, and have had no new ones since: their producers stopped, which is no
trouble of the group.

Only the group's own rows of `lag` are read, which have the ends of its topics' logs. Nothing is claimed of a topic if
an end is missing, or if rounds are further apart than APART_MAX. A topic that gets records rarely is quiet only after
RHYTHMS of its own longest interval.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from groupledger.jobs.ask.answers import within
from groupledger.jobs.ask.rounds import last_round
from groupledger.schemas.words import LagFlag

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer

QUIET_MIN = timedelta(minutes=2)
APART_MAX = timedelta(minutes=1)
RHYTHMS = 3
COLUMNS = ("topic", "sampled_at", "high_watermark", "flags")
# A row for each topic whose ends are known in all rounds. In its first round `records` is null.
QUERY = """
WITH ends AS MATERIALIZED (
    SELECT
        topic, sampled_at, sum(high_watermark) AS log_end, count(*) AS partitions,
        bool_and(high_watermark IS NOT NULL AND NOT coalesce(list_contains(flags, $stale), false)) AS is_known
    FROM lag
    WHERE NOT coalesce(list_contains(flags, $unsubscribed), false)
    GROUP BY topic, sampled_at
),
steps AS (
    SELECT
        *, log_end - lag(log_end) OVER of_topic AS records,
        epoch_ms(sampled_at) - epoch_ms(lag(sampled_at) OVER of_topic) AS apart_ms
    FROM ends
    WINDOW of_topic AS (PARTITION BY topic ORDER BY sampled_at)
),
moves AS (
    SELECT topic, epoch_ms(sampled_at) - epoch_ms(lag(sampled_at) OVER of_topic) AS waited_ms
    FROM steps
    WHERE records IS DISTINCT FROM 0
    WINDOW of_topic AS (PARTITION BY topic ORDER BY sampled_at)
)
SELECT topic, moved_at, last_at, apart_ms, waited_ms
FROM (
    SELECT
        topic, max(sampled_at) FILTER (records > 0) AS moved_at, max(sampled_at) AS last_at, max(apart_ms) AS apart_ms
    FROM steps
    GROUP BY topic
    HAVING bool_and(is_known) AND min(partitions) = max(partitions) AND coalesce(min(records), 0) >= 0
)
JOIN (SELECT topic, max(waited_ms) AS waited_ms FROM moves GROUP BY topic) USING (topic)
WHERE moved_at IS NOT NULL
ORDER BY topic
"""


def quiet_topics(tables: ClusterRows, name: str, since: datetime, until: datetime | None) -> list[Answer]:
    """Returns the topics that the group `name` reads and that got records in [since, until), each with the round since
    which it has had no new ones (`no_records_since`), by name."""
    last = last_round(tables, "lag", until) if tables.exists("lag") else None
    if last is None:
        return []
    filters: list[Filter] = [("sample_date", ">=", since.date()), ("group_id", "=", name)]
    rows = tables.scan("lag", *filters, *within("sampled_at", since, until), columns=COLUMNS)
    found = tables.query(QUERY, {"stale": LagFlag.STALE_SAMPLE, "unsubscribed": LagFlag.UNSUBSCRIBED}, lag=rows)
    return [
        {"topic": row["topic"], "no_records_since": row["moved_at"]}
        for row in found
        if max(timedelta(milliseconds=row["apart_ms"]), last - row["last_at"]) <= APART_MAX
        and last - row["moved_at"] >= max(QUIET_MIN, RHYTHMS * timedelta(milliseconds=row["waited_ms"]))
    ]
