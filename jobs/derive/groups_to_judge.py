"""Finds the groups that may have other incidents than in the last pass (`jobs.derive.judged_groups`)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.jobs.derive.troubles import RELEASE, open_troubles
from groupledger.jobs.warehouse.changed_rows import ChangedFiles, changed_groups, changed_since, groups_in, rows_of
from groupledger.jobs.warehouse.delta_log import open_table
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
REQUEST_COLUMNS = ("group_id", "api", "error_code", "generation")
GROUPS_MAX = 10_000
"""If more groups have changed, all are judged: each thousand of names is a query of its own."""


def digest(*values: Any) -> str:
    return blake2b(repr(values).encode(), digest_size=16).hexdigest()


def fingerprint(rules: Rules, disturbances: FaultsFound | None) -> str:
    """Returns a digest of what decides about every group."""
    if disturbances is None:
        return digest(RELEASE, asdict(rules))
    hit = sorted(disturbances.hit["group_id"].to_pylist())
    return digest(RELEASE, asdict(rules), disturbances.faults, sorted(disturbances.coordinators.loads.items()), hit)


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
    places: dict[str, list[Any]]
    coverage: str
    changing: ChangingFacts

    def groups_to_judge(self, ledger: Ledger, before: Judged, rules: Rules) -> list[str] | None:
        """Returns the names of the groups to judge; None for all groups."""
        if self.fingerprint != before.fingerprint:
            return None
        found = Looked(ledger, before, self.places, rules.commit_gap_intervals).changed()
        if found is None:
            return None
        found |= self.changing.new(before) | self.changing.by_time(before) | before.waiting.keys()
        found |= {row["group_id"] for row in open_troubles(ledger, TroubledStep.INCIDENTS)}
        found |= {*before.asked} if self.coverage != before.coverage else set()
        return None if len(found) > GROUPS_MAX else sorted(found)


class Looked:
    """Compares the tables with those of the last pass."""

    def __init__(self, ledger: Ledger, before: Judged, now: Mapping[str, Sequence[Any]], gap_intervals: float) -> None:
        self._ledger, self._before, self._now, self._gap_intervals = ledger, before, now, gap_intervals

    def changed(self) -> set[str] | None:
        """Returns the groups that have other rows in a table; None if that is not known."""
        before, now = self._before.places, self._now
        files = {
            table: changed_since(self._ledger, table, before.get(table.name), now.get(table.name)) for table in READ
        }
        of_table: dict[Table, ChangedFiles] = {table: each for table, each in files.items() if each is not None}
        incidents = of_table.get(INCIDENTS)
        if len(of_table) < len(READ) or incidents is None or incidents.added or incidents.removed:
            return None
        new: set[str] = set()
        for table, columns in BY_ROW:
            found = changed_groups(self._ledger, table, of_table[table], columns)
            if found is None:
                return None
            new |= found
        for found in (
            self._of_requests(of_table[REQUESTS]),
            self._of_records(of_table[COORDINATOR_RECORDS]),
            self._of_steps(of_table[COMMIT_STEPS]),
        ):
            if found is None:
                return None
            new |= found
        if of_table[COORDINATOR_RECORDS].removed or of_table[WATERMARKS].removed:
            new |= {*self._before.asked}
        return new

    def _of_requests(self, files: ChangedFiles) -> set[str] | None:
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
        return groups_in(added.filter(is_wanted)) | groups_in(removed)

    def _of_records(self, files: ChangedFiles) -> set[str] | None:
        """Returns the groups with records other than commits, and those whose incidents any commit may change."""
        added = rows_of(self._ledger, COORDINATOR_RECORDS, files.added, ("group_id", "record_type"))
        if added is None:
            return None
        is_commit = pc.field("record_type") == "offset_commit"
        is_telling = ~is_commit | pc.field("group_id").isin(_texts(self._before.by_commits))
        return groups_in(added.filter(is_telling))

    def _of_steps(self, files: ChangedFiles) -> set[str] | None:
        """Returns the groups with steps that were written into the table since, if they count."""
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
        return groups_in(rows.filter(pc.or_(pc.equal(rows["is_suspect"], 1), is_telling)))


def _texts(names: Iterable[str]) -> pa.Array:
    return pa.array([*names], pa.string())
