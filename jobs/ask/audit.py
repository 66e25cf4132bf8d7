"""`groupledger audit`: who reset, moved or removed committed offsets. `jobs.ask.undo` makes the file that undoes it.

Events are rows of `offset_events`, and `transforms.offsets.rules.authors` finds who caused them. From the request log
only requests are read that were in progress in a group when an event happened.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from groupledger.jobs.ask.answers import refuse_unknown, topics_by_id, within
from groupledger.jobs.ask.cluster_rows import as_scan
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.words import LogKind, OffsetEventCause
from groupledger.transforms.offsets.rules.authors import (
    APIS,
    CLOSE,
    DONE_BY_SOMEBODY,
    OF_REQUEST,
    LogSpan,
    acts,
    name_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer

COLUMNS = (
    *("happened_at", "group_id", "what", "partition_count", "records_repeated", "records_skipped", "who", "known_by"),
    "record",
)
OPTIONAL = ("record", "records_skipped", "records_repeated", "known_by")
EVENT_COLUMNS = (
    *("group_id", "topic", "partition", "kind", "happened_at", "kafka_partition", "kafka_offset", "offset_before"),
    *("offset_after", "records_repeated", "records_skipped", "cause"),
)
REQUEST_COLUMNS = (*OF_REQUEST, "logged_at", "api_key", "group_id", "groups", "partitions")
OWNER_COLUMNS = ("group_id", "topic", "partition", "member_id", "client_id", "from_offset", "to_offset")
# A request waits for other replicas at most this long (offsets.commit.timeout.ms is 5 s unless set).
UNDER_WAY = timedelta(minutes=5)
# A group's own instants are few, and so are the requests that these let pass.
UNDER_WAY_THEN = """
SELECT *
FROM requests
WHERE EXISTS (
    SELECT 1 FROM happened
    WHERE happened_at BETWEEN requests.happened_at - $close AND requests.logged_at + $close
      AND (requests.group_id IS NULL OR requests.group_id = happened.group_id)
)
"""
HAPPENED = pa.schema([("group_id", pa.string()), ("happened_at", pa.timestamp("us", "UTC"))])


def audit(
    tables: ClusterRows, name: str | None = None, since: datetime | None = None, until: datetime | None = None
) -> list[Answer]:
    """Returns the acts in [since, until), in one group or in all, in the order of time. An act is one operation of
    somebody on a group's committed offsets, such as a reset; it names its authors if they are known. Raises
    UnknownNameError for an unknown group."""
    of_group: list[Filter] = []
    if name is not None:
        refuse_unknown(tables, name)
        of_group.append(("group_id", "=", name))
    is_done = ("kind", "in", DONE_BY_SOMEBODY)
    events = tables.rows(
        "offset_events", *of_group, is_done, *within("happened_at", since, until), columns=EVENT_COLUMNS
    )
    files = tables.rows_if_any(
        "log_files", ("log", "=", LogKind.REQUEST_LOG), columns=("first_logged_at", "last_logged_at")
    )
    spans = [
        LogSpan(row["first_logged_at"], row["last_logged_at"]) for row in files if row["last_logged_at"] is not None
    ]
    return acts(
        events,
        _requests(tables, events),
        _owners(tables, events),
        spans,
        topics_by_id(tables),
    )


def _requests(tables: ClusterRows, events: Sequence[Answer]) -> list[Answer]:
    """Returns the requests that were under way in a group as something happened to it."""
    if not events or not tables.exists("requests"):
        return []
    times = [row["happened_at"] for row in events]
    lately = within("happened_at", min(times) - UNDER_WAY, max(times) + CLOSE)
    groups = sorted({row["group_id"] for row in events})
    # A request that deletes several groups has no group of its own.
    of_one = [("api_key", "in", [api for api in APIS if api != ApiKey.DELETE_GROUPS]), ("group_id", "in", groups)]
    found = []
    for chosen in (of_one, [("api_key", "=", ApiKey.DELETE_GROUPS)]):
        requests = tables.scan("requests", *chosen, *lately, columns=REQUEST_COLUMNS)
        happened = as_scan([{name: row[name] for name in HAPPENED.names} for row in events], HAPPENED)
        found += tables.query(UNDER_WAY_THEN, {"close": CLOSE}, requests=requests, happened=happened)
    return found


def _owners(tables: ClusterRows, events: Sequence[Answer]) -> list[Answer]:
    """Returns the intervals of ownership, with the members' hosts, of the groups whose members moved their offsets."""
    moved = [row for row in events if row["cause"] == OffsetEventCause.MEMBER]
    if not moved:
        return []
    of_groups = ("group_id", "in", sorted({row["group_id"] for row in moved}))
    topics = ("topic", "in", sorted({row["topic"] for row in moved}))
    until = ("valid_from", "<=", max(row["happened_at"] for row in moved))
    members = tables.rows_if_any("members", of_groups, columns=("group_id", "member_id", "client_host"))
    hosts = {(row["group_id"], row["member_id"]): row["client_host"] for row in members}
    owned = tables.rows_if_any("assignments", of_groups, topics, until, columns=OWNER_COLUMNS)
    return [{**row, "client_host": hosts.get((row["group_id"], row["member_id"]))} for row in owned]


def cells(act: Answer) -> Answer:
    """Returns an act with its columns as texts, for a table on a terminal."""
    skipped = act["records_skipped"]
    return {
        **act,
        "what": ", ".join(act["kinds"]),
        "who": who(act),
        "records_skipped": None if skipped is None else f"at most {skipped:,}",
    }


def who(act: Answer) -> str:
    """Returns the authors of an act as text, or why none is known."""
    return " or ".join(map(name_of, act["authors"])) or f"unknown: {act['reason']}"


def act_of(among: Sequence[Answer], record: str) -> Answer:
    """Returns the act in `among` whose first record is `record`. Raises InputError if there is none."""
    for act in among:
        if act["record"] == record:
            return act
    raise InputError(f"No operation begins with the record {printable(record)}: `groupledger audit` lists them.")
