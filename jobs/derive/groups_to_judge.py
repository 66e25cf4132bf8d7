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
from groupledger.jobs.warehouse.tables import is_among
from groupledger.schemas.instants import LATEST_MS, instant_of_ms
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


def digests_of_faults(disturbances: FaultsFound | None) -> list[list[Any]]:
    """Returns until when each fault of coordinators lasted, and a digest of it. A fault may change the incidents of any
    group, and so may a line about who coordinated a group; the last digest is of all these."""
    if disturbances is None:
        return []
    hit = sorted(disturbances.hit["group_id"].to_pylist())
    of_lines = digest(sorted(disturbances.coordinators.loads.items()), hit)
    return [*([fault.until_ms, digest(fault)] for fault in disturbances.faults), [LATEST_MS, of_lines]]


def _late_ms(before: Judged, rules: Rules) -> int:
    """Returns the instant before which a new row is from long ago. What a row changes may lie on both sides of it."""
    return max(before.until_ms - rules.final_after_ms // 2, 0)


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
    faults: list[list[Any]]
    places: dict[str, list[Any]]
    coverage: str
    changing: ChangingFacts

    def groups_to_judge(self, ledger: Ledger, before: Judged, rules: Rules) -> ToJudge:
        if self.fingerprint != before.fingerprint:
            return ToJudge()
        looked = Looked(ledger, before, self.places, rules)
        if not looked.is_known or self._has_other_old_faults(before, rules):
            return ToJudge()
        whole = looked.late | {row["group_id"] for row in open_troubles(ledger, TroubledStep.INCIDENTS)}
        whole |= {*before.asked} if self.coverage != before.coverage else set()
        if len(whole) > GROUPS_MAX:
            return ToJudge()
        back = looked.back | {*before.back}
        found = looked.new | self.changing.new(before) | self.changing.by_time(before) | before.waiting.keys()
        found |= whole | back
        is_all = len(found) > GROUPS_MAX or self.faults != before.faults
        return ToJudge(None if is_all else found, whole, back)

    def _has_other_old_faults(self, before: Judged, rules: Rules) -> bool:
        """Returns whether a fault is another one that ended long ago: it may change incidents that are final."""
        late_ms = _late_ms(before, rules)
        other = {*map(tuple, self.faults)} ^ {*map(tuple, before.faults)}
        return any(until_ms < late_ms for until_ms, _ in other)


class Looked:
    """Compares the tables with those of the last pass. If `is_known`, `new` are the groups that have other rows, `late`
    those with a new row from long ago, and `back` those with a commit of a partition whose offset they had lost."""

    def __init__(self, ledger: Ledger, before: Judged, now: Mapping[str, Sequence[Any]], rules: Rules) -> None:
        self._ledger, self._before = ledger, before
        self._gap_intervals = rules.commit_gap_intervals
        self._late = instant_of_ms(_late_ms(before, rules))
        self._final = instant_of_ms(max(before.until_ms - rules.final_after_ms, 0))
        self.new: set[str] = set()
        self.late: set[str] = set()
        self.back: set[str] = set()
        files = {
            table: changed_since(ledger, table, before.places.get(table.name), now.get(table.name)) for table in READ
        }
        of_table: dict[Table, ChangedFiles] = {table: each for table, each in files.items() if each is not None}
        self.is_known = len(of_table) == len(READ) and self._look(of_table)

    def _look(self, files: Mapping[Table, ChangedFiles]) -> bool:
        """Returns False if it can't be known which groups have other rows, or if a line from long ago is about all
        groups."""
        if self._has_other_incidents(files[INCIDENTS]):
            return False
        for table, columns in BY_ROW:
            if not self._add(table, self._by_row(table, files[table], columns)):
                return False
        if files[COORDINATOR_RECORDS].removed or files[WATERMARKS].removed:
            self.new |= {*self._before.asked}
        return (
            self._add(REQUESTS, self._of_requests(files[REQUESTS]))
            and self._add(COMMIT_STEPS, self._of_steps(files[COMMIT_STEPS]))
            and self._add_records(files[COORDINATOR_RECORDS])
        )

    def _add(self, table: Table, rows: Changed | None) -> bool:
        """Adds the groups of rows of a table. Returns False if it can't be known which groups have other rows."""
        if rows is None:
            return False
        added, removed = rows
        name = time_column(table)
        of_long_ago = added.slice(0, 0) if name is None else added.filter(pc.field(name) < self._late)
        self.new |= groups_in(added) | groups_in(removed)
        self.late |= groups_in(of_long_ago)
        return table != COORDINATOR_EVENTS or not of_long_ago["group_id"].null_count

    def _has_other_incidents(self, files: ChangedFiles) -> bool:
        """Returns whether somebody else changed incidents that are not final. A maintenance removes old ones."""
        found = changed_rows(self._ledger, INCIDENTS, files, kept=["last_seen_at"])
        is_recent = pc.field("last_seen_at") >= self._final
        return found is None or any(rows.filter(is_recent).num_rows for rows in found)

    def _by_row(self, table: Table, files: ChangedFiles, columns: Sequence[str] | None) -> Changed | None:
        name = time_column(table)
        return changed_rows(self._ledger, table, files, columns, ["group_id", *([name] if name is not None else [])])

    def _of_requests(self, files: ChangedFiles) -> Changed | None:
        """Returns the requests that `wanted_requests` may take. These are all requests of a group with a refused commit
        or a request without an answer, which `asked` has."""
        added = rows_of(self._ledger, REQUESTS, files.added, REQUEST_COLUMNS)
        removed = rows_of(self._ledger, REQUESTS, files.removed, ("group_id",))
        if added is None or removed is None:
            return None
        api, code = pc.field("api"), pc.field("error_code")
        is_wanted = code.is_null() | code.isin([*INCIDENT_ERRORS]) | api.isin([*NO_HEARTBEATS])
        is_wanted |= api.isin([*EPOCH_HEARTBEAT_NAMES]) & (pc.field("generation") <= JOINING_EPOCH)
        is_wanted |= is_among("group_id", self._before.asked)
        return added.filter(is_wanted), removed

    def _add_records(self, files: ChangedFiles) -> bool:
        """Adds the groups with records other than commits, those whose incidents any commit may change, and those that
        came back for an offset."""
        away = {(name, *place) for name, lost in self._before.away.items() for *place, _ in lost}
        columns = ("group_id", "record_type", *(("offset_commit",) if away else ()))
        added = rows_of(self._ledger, COORDINATOR_RECORDS, files.added, columns)
        if added is None:
            return False
        is_commit = pc.field("record_type") == "offset_commit"
        is_telling = ~is_commit | is_among("group_id", self._before.by_commits)
        self.new |= groups_in(added.filter(is_telling))
        if away:
            commits = added.filter(is_commit & is_among("group_id", self._before.away))
            places = [pc.struct_field(commits["offset_commit"], name) for name in ("topic", "partition")]
            committed = pa.table([commits["group_id"], *places], ["group_id", "topic", "partition"])
            found = committed.group_by(committed.column_names).aggregate([]).to_pylist()
            self.back = {row["group_id"] for row in found if tuple(row.values()) in away}
        return True

    def _of_steps(self, files: ChangedFiles) -> Changed | None:
        """Returns the steps that were written into the table since, if they count. A maintenance may remove old
        ones."""
        added, removed = (
            {path: values for path, values in some.items() if values.get("is_open") == "0"}
            for some in (files.added, files.removed)
        )
        changed = changed_rows(self._ledger, COMMIT_STEPS, ChangedFiles(removed, added), kept=STEP_COLUMNS)
        if changed is None or changed[1].filter(pc.field("next_at") >= self._final).num_rows:
            return None
        rows = changed[0]
        at_ms, next_ms = (rows[name].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()) for name in STEP_COLUMNS[:2])
        usual_ms = pc.multiply(rows["interval_ms"].cast(pa.float64()), self._gap_intervals)
        is_long = pc.fill_null(pc.greater_equal(pc.subtract(next_ms, at_ms), usual_ms), False)
        is_telling = pc.and_(is_long, pc.is_in(rows["group_id"], pa.array(self._before.met, pa.string())))
        return rows.filter(pc.or_(pc.equal(rows["is_suspect"], 1), is_telling)), rows.slice(0, 0)
