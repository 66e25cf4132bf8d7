"""Parses lines of request logs into rows of `requests`, and finds names for topic ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.schemas.tables.requests import REQUESTS
from groupledger.transforms.logs.imported_lines import ROW, TOO_LONG, TOPIC_NAME, parsed, parsed_schema, quarantined
from groupledger.transforms.logs.rules.request_log import is_of_another_api, parse_request_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column, DataFrame

    from groupledger.transforms.logs.imported_lines import Line, Parsed
    from groupledger.transforms.privacy import Privacy

PARSED_REQUESTS = parsed_schema(REQUESTS)


def parse_requests(lines: Iterable[Line], time_zone: str, privacy: Privacy) -> Iterator[Parsed]:
    """Yields rows of `PARSED_REQUESTS`: one for each request about a group or line in quarantine, and one for the name
    of each topic id."""
    named: set[str] = set()
    for line in lines:
        if not line.is_whole:
            if not is_of_another_api(line.text):
                yield quarantined(line, TOO_LONG, privacy)
            continue
        found = parse_request_line(line.text, time_zone, privacy, line.evidence)
        if found.row is not None:
            yield parsed(ROW, {"source_file": line.source_file, "line_number": line.line_number, **found.row})
        elif found.quarantine_reason is not None:
            yield quarantined(line, found.quarantine_reason, privacy)
        for topic_id, topic in (found.topic_names or {}).items():
            if topic_id not in named:
                named.add(topic_id)
                yield parsed(TOPIC_NAME, {"topic_id": topic_id, "topic": topic})


def with_topic_names(requests: DataFrame, names: DataFrame) -> DataFrame:
    """Returns `requests` with names for the topics that a request gives by id only; `names` has `topic_id` and `topic`.
    An unknown name stays null."""
    by_id = names.groupBy("topic_id").agg(F.max("topic").alias("topic"))
    known = by_id.agg(F.map_from_entries(F.collect_list(F.struct("topic_id", "topic"))).alias("topic_name_by_id"))

    def named(partition: Column) -> Column:
        name = F.try_element_at("topic_name_by_id", partition["topic_id"])
        return partition.withField("topic", F.coalesce(partition["topic"], name))

    rows = requests.crossJoin(F.broadcast(known))
    return rows.withColumn("partitions", F.transform("partitions", named)).drop("topic_name_by_id")


def unnamed_topic_ids(requests: DataFrame) -> DataFrame:
    """Returns each topic id in `requests` that has no name, once."""
    partition = requests.select(F.explode("partitions").alias("partition")).select("partition.*")
    return partition.where(F.col("topic").isNull() & F.col("topic_id").isNotNull()).select("topic_id").distinct()
