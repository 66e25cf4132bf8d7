"""Keeps what the search for coordinators' faults needs of the past, so that each row is read only for some hours.

A small file, `_groupledger/<cluster>/coordinator_faults.json`, has this (`transforms.incidents.settled_faults`), with
the versions of the tables that were read. Each pass writes it, up to an instant that lies `SETTLED_AFTER_MS` before the
end of the history. It is not used if it is of another release, if a table was made again or restored, or if rows of
that time have changed since: a log was imported later, the history was rebuilt differently, or old rows were removed.
Then all rows are read again, and so they are every `incidents.all_groups_interval_h` hours: if these rules miss
something, the faults are wrong for no longer than that.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.jobs.derive.troubles import RELEASE
from groupledger.jobs.process.outside import of_the_table
from groupledger.jobs.warehouse.changed_rows import are_same, changed_since, rows_of
from groupledger.jobs.warehouse.delta_log import table_uri
from groupledger.jobs.warehouse.progress import note_path
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.kinds.triggers import LEFT_LINES, REMOVED_LINES
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.transforms.incidents.coordinator_faults import (
    BUCKET_MS,
    MEMBER_COLUMNS,
    RECORD_COLUMNS,
    STATED_WITHIN_MS,
)
from groupledger.transforms.incidents.rules.coordinator_faults import GIVEN_UP, LOADED
from groupledger.transforms.incidents.settled_faults import Settled, as_values, of_values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table

    Places = Mapping[str, Sequence[Any]]

NAME = "coordinator_faults"
SETTLED_AFTER_MS = 2 * STATED_WITHIN_MS  # lines of a log may be imported for so long
LINE_COLUMNS = (
    *("kind", "kafka_partition", "group_id", "member_id", "broker_id"),
    *("logged_at", "source_file", "line_number", "details"),
)


def settled_until_ms(history_ms: int) -> int:
    """Returns until when everything is settled if the history is known until `history_ms`."""
    return (history_ms - SETTLED_AFTER_MS) // BUCKET_MS * BUCKET_MS


def note_settled(ledger: Ledger, kept: Settled, places: Places) -> None:
    text = json.dumps({"release": RELEASE, "places": dict(places), "settled": as_values(kept)})
    ledger.storage.write(note_path(ledger.cluster, NAME), text)


def read_settled(ledger: Ledger, places: Places) -> Settled:
    """Returns what is kept; nothing if it can't be used. `places` are the versions of the tables now."""
    try:
        noted = json.loads(ledger.storage.read(note_path(ledger.cluster, NAME)) or "{}")
        before, kept = dict(noted["places"]), of_values(noted["settled"])
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return Settled()  # all rows are read again
    is_usable = noted.get("release") == RELEASE and all(
        _is_unchanged(ledger, table, before.get(table.name), places.get(table.name), columns, of_past)
        for table, columns, of_past in _past_of_tables(kept)
    )
    return kept if is_usable else Settled()


def _past_of_tables(kept: Settled) -> list[tuple[Table, Sequence[str], Callable[[pa.Table], pa.Table]]]:
    """Returns the tables that were read, the columns, and a function that takes out of rows what was settled."""
    until = pa.scalar(instant_of_ms(kept.until_ms + STATED_WITHIN_MS), pa.timestamp("us", "UTC"))

    def of_members(rows: pa.Table) -> pa.Table:
        old = rows.filter((pc.field("joined_at") < until) | (pc.field("left_at") < until))
        has_left = pc.fill_null(pc.less(old["left_at"], until), False)
        for name in ("left_at", "leave_cause"):  # a member that has left since was there at that time
            value = pc.if_else(has_left, old[name], pa.scalar(None, old[name].type))
            old = old.set_column(old.schema.get_field_index(name), name, value)
        return old

    def of_lines(rows: pa.Table) -> pa.Table:
        return rows.filter((pc.field("logged_at") < until) & is_needed_line())

    def of_records(rows: pa.Table) -> pa.Table:
        at, found = pc.field("kafka_timestamp"), pc.scalar(value=False)
        for begin_ms, end_ms in kept.silences:
            found |= (at >= instant_of_ms(begin_ms)) & (at < instant_of_ms(end_ms))
        return rows.filter(found)

    found: list[tuple[Table, Sequence[str], Callable[[pa.Table], pa.Table]]] = [
        (MEMBERS, MEMBER_COLUMNS, of_members),
        (COORDINATOR_EVENTS, LINE_COLUMNS, of_lines),
    ]
    # Most rows are records. They count only where they showed, or could have shown, a silence.
    return [*found, (COORDINATOR_RECORDS, RECORD_COLUMNS, of_records)] if kept.silences else found


def is_needed_line() -> pc.Expression:
    """Returns the condition for lines about partitions of `__consumer_offsets`, and for those in which members left or
    were removed."""
    kind = pc.field("kind")
    is_line = kind.isin([LOADED, *GIVEN_UP]) & pc.field("kafka_partition").is_valid()
    is_leave = kind.isin(sorted(LEFT_LINES | REMOVED_LINES)) & pc.field("member_id").is_valid()
    return is_line | is_leave


def _is_unchanged(
    ledger: Ledger,
    table: Table,
    before: Sequence[Any] | None,
    now: Sequence[Any] | None,
    columns: Sequence[str],
    of_past: Callable[[pa.Table], pa.Table],
) -> bool:
    files = changed_since(ledger, table, before, now)
    if files is None:
        return False
    with of_the_table(table_uri(ledger.warehouse, table)):
        added, removed = (rows_of(ledger, table, paths, columns) for paths in (files.added, files.removed))
    return added is not None and removed is not None and are_same(of_past(added), of_past(removed))
