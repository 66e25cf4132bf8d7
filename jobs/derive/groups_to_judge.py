"""Finds the groups that may have other incidents than in the last pass (`jobs.derive.judged_groups`)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.jobs.derive.reach import ToJudge, time_column
from groupledger.jobs.derive.troubles import RELEASE, open_troubles
from groupledger.jobs.warehouse.changed_rows import ChangedFiles, changed_rows, changed_since, groups_in, rows_of
from groupledger.jobs.warehouse.delta_log import open_table
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.kafka.api_keys import JOINING_EPOCH
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.commit_steps import COMMIT_STEPS
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.member_epochs import MEMBER_EPOCHS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.offset_events import OFFSET_EVENTS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.tables.requests import REQUESTS
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.schemas.words import TroubledStep
from groupledger.transforms.incidents.log_facts import INCIDENT_ERRORS, NO_HEARTBEATS
from groupledger.transforms.incidents.rules.facts import EPOCH_HEARTBEAT_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from groupledger.jobs.derive.changing_facts import ChangingFacts
    from groupledger.jobs.derive.coordinator_faults import FaultsFound
    from groupledger.jobs.derive.judged_groups import Judged
    from groupledger.jobs.warehouse.changed_rows import Changed
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table
    from groupledger.transforms.incidents.rules import Rules

BY_ROW: tuple[tuple[Table, Sequence[str] | None], ...] = (
    *((table, None) for table in (GENERATIONS, REBALANCES, MEMBERS, ASSIGNMENTS, MEMBER_EPOCHS, OFFSET_EVENTS)),
    (COORDINATOR_EVENTS, None),
    # Its other columns change with each commit, and no rule reads them but for offsets that are about to expire.
    (GROUPS, ("group_id", "kafka_partition", "group_type")),
)
"""The tables in which any changed row of a group counts, and the columns that count; None stands for all columns."""
READ = (*(table for table, _ in BY_ROW), REQUESTS, COORDINATOR_RECORDS, WATERMARKS, COMMIT_STEPS, INCIDENTS)
STEP_COLUMNS = ("committed_at", "next_at", "group_id", "is_suspect", "interval_ms")
REQUEST_COLUMNS = ("group_id", "happened_at", "api", "error_code", "generation")
GROUPS_MAX = 10_000
"""If more groups have changed, all are judged: each thousand of names is a query of its own."""


def digest(*values: Any) -> str:
    return blake2b(repr(values).encode(), digest_size=16).hexdigest()


def fingerprint(rules: Rules) -> str:
    """Returns a digest of what decides about all of every group's past."""
    return digest(RELEASE, asdict(rules))


def digest_of_faults(disturbances: FaultsFound | None) -> str:
    """Returns a digest of the faults of coordinators, which may change the incidents of any group."""
    if disturbances is None:
        return digest()
    hit = sorted(disturbances.hit["group_id"].to_pylist())
    return digest(disturbances.faults, sorted(disturbances.coordinators.loads.items()), hit)


def places(ledger: Ledger, tables: Iterable[Table] = READ) -> dict[str, list[Any]]:
    """Returns the id and the version of each table now."""
    found = {table: open_table(ledger.warehouse, table) for table in tables if ledger.exists(table)}
    return {table.name: [str(delta.metadata().id), delta.version()] for table, delta in found.items()}


def coverage_digest(ledger: Ledger) -> str:
    """Returns a digest of where records are known to be complete, which does not change as these stretches grow."""
    columns = ("kafka_partition", "from_offset", "completeness", "is_state_lost")
    rows = ledger.arrow(COVERAGE, columns=columns).to_pylist() if ledger.exists(COVERAGE) else []
    return digest(sorted(tuple(map(str, row.values())) for row in rows))


@dataclass(frozen=True)
class Present:
    """What a pass finds before it judges anybody."""

    fingerprint: str
    faults: str
    places: dict[str, list[Any]]
    coverage: str
    changing: ChangingFacts

    def groups_to_judge(self, ledger: Ledger, before: Judged, rules: Rules) -> ToJudge:
        if self.fingerprint != before.fingerprint:
            return ToJudge()
        changed = Looked(ledger, before, self.places, rules).changed()
        if changed is None:
            return ToJudge()
        found, whole = changed
        whole |= {row["group_id"] for row in open_troubles(ledger, TroubledStep.INCIDENTS)}
        whole |= {*before.asked} if self.coverage != before.coverage else set()
        found |= self.changing.new(before) | self.changing.by_time(before) | before.waiting.keys() | whole
        if len(whole) > GROUPS_MAX:
            return ToJudge()
        is_all = len(found) > GROUPS_MAX or self.faults != before.faults
        return ToJudge(None if is_all else found, whole)


class Looked:
    """Compares the tables with those of the last pass."""

    def __init__(self, ledger: Ledger, before: Judged, now: Mapping[str, Sequence[Any]], rules: Rules) -> None:
        self._ledger, self._before, self._now = ledger, before, now
        self._gap_intervals = rules.commit_gap_intervals
        # What a row changes may lie on both sides of it.
        self._late = instant_of_ms(max(before.until_ms - rules.final_after_ms // 2, 0))
        self._final = instant_of_ms(max(before.until_ms - rules.final_after_ms, 0))

    def changed(self) -> tuple[set[str], set[str]] | None:
        """Returns the groups that have other rows in a table, and those with a new row from long ago; None if that is
        not known, or if a line from long ago is about all groups."""
        before, now = self._before.places, self._now
        files = {
            table: changed_since(self._ledger, table, before.get(table.name), now.get(table.name)) for table in READ
        }
        of_table: dict[Table, ChangedFiles] = {table: each for table, each in files.items() if each is not None}
        if len(of_table) < len(READ) or self._has_other_incidents(of_table[INCIDENTS]):
            return None
        new: set[str] = set()
        late: set[str] = set()
        rows = [(table, self._by_row(table, of_table[table], columns)) for table, columns in BY_ROW]
        rows += [
            (REQUESTS, self._of_requests(of_table[REQUESTS])),
            (COMMIT_STEPS, self._of_steps(of_table[COMMIT_STEPS])),
        ]
        for table, found in rows:
            if found is None:
                return None
            added, removed = found
            of_long_ago = self._of_long_ago(table, added)
            if table == COORDINATOR_EVENTS and of_long_ago["group_id"].null_count:
                return None
            new |= groups_in(added) | groups_in(removed)
            late |= groups_in(of_long_ago)
        of_records = self._of_records(of_table[COORDINATOR_RECORDS])
        if of_records is None:
            return None
        new |= of_records
        if of_table[COORDINATOR_RECORDS].removed or of_table[WATERMARKS].removed:
            new |= {*self._before.asked}
        return new, late

    def _has_other_incidents(self, files: ChangedFiles) -> bool:
        """Returns whether somebody else changed incidents that are not final; a maintenance removes old ones."""
        found = changed_rows(self._ledger, INCIDENTS, files, kept=["last_seen_at"])
        is_recent = pc.field("last_seen_at") >= self._final
        return found is None or any(rows.filter(is_recent).num_rows for rows in found)

    def _by_row(self, table: Table, files: ChangedFiles, columns: Sequence[str] | None) -> Changed | None:
        name = time_column(table)
        return changed_rows(self._ledger, table, files, columns, ["group_id", *([name] if name is not None else [])])

    def _of_long_ago(self, table: Table, rows: pa.Table) -> pa.Table:
        name = time_column(table)
        return rows.slice(0, 0) if name is None else rows.filter(pc.field(name) < self._late)

    def _of_requests(self, files: ChangedFiles) -> Changed | None:
        """Returns the groups with requests that `wanted_requests` may take. These are all requests of a group with a
        refused commit or a request without an answer, which `asked` has."""
        added = rows_of(self._ledger, REQUESTS, files.added, REQUEST_COLUMNS)
        removed = rows_of(self._ledger, REQUESTS, files.removed, ("group_id",))
        if added is None or removed is None:
            return None
        api, code = pc.field("api"), pc.field("error_code")
        is_wanted = code.is_null() | code.isin([*INCIDENT_ERRORS]) | api.isin([*NO_HEARTBEATS])
        is_wanted |= api.isin([*EPOCH_HEARTBEAT_NAMES]) & (pc.field("generation") <= JOINING_EPOCH)
        is_wanted |= pc.field("group_id").isin(_texts(self._before.asked))
        return added.filter(is_wanted), removed

    def _of_records(self, files: ChangedFiles) -> set[str] | None:
        """Returns the groups with records other than commits, and those whose incidents any commit may change."""
        added = rows_of(self._ledger, COORDINATOR_RECORDS, files.added, ("group_id", "record_type"))
        if added is None:
            return None
        is_commit = pc.field("record_type") == "offset_commit"
        is_telling = ~is_commit | pc.field("group_id").isin(_texts(self._before.by_commits))
        return groups_in(added.filter(is_telling))

    def _of_steps(self, files: ChangedFiles) -> Changed | None:
        """Returns the steps that were written into the table since, if they count."""
        of_closed = [path for path, values in files.added.items() if values.get("is_open") == "0"]
        if any(values.get("is_open") == "0" for values in files.removed.values()):
            return None
        rows = rows_of(self._ledger, COMMIT_STEPS, of_closed, STEP_COLUMNS)
        if rows is None:
            return None
        at_ms, next_ms = (rows[name].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()) for name in STEP_COLUMNS[:2])
        usual_ms = pc.multiply(rows["interval_ms"].cast(pa.float64()), self._gap_intervals)
        is_long = pc.fill_null(pc.greater_equal(pc.subtract(next_ms, at_ms), usual_ms), False)
        is_telling = pc.and_(is_long, pc.is_in(rows["group_id"], _texts(self._before.met)))
        return rows.filter(pc.or_(pc.equal(rows["is_suspect"], 1), is_telling)), rows.slice(0, 0)


def _texts(names: Iterable[str]) -> pa.Array:
    return pa.array([*names], pa.string())
