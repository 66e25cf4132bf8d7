"""Computes `incidents` from the history and the logs, and writes those that differ in one Delta commit.

An incident's row depends on what the ledger knows about its group: a log that is imported later replaces a guess by an
observation. So all rows of a group that are not final are computed together (`jobs.derive.reach`), whenever the group
has new rows, or time may change its incidents (`jobs.derive.judged_groups`); all other rows stay. Facts from commits
and samples,
which are most of all rows, are stored from run to run (`jobs.derive.commit_steps`, `jobs.derive.lag_stretches`,
`jobs.derive.rebalance_stretches`, `jobs.derive.open_transactions`), and so is what shows the faults of coordinators
(`jobs.derive.settled_faults`).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.jobs.derive.changing_facts import changing_facts
from groupledger.jobs.derive.commit_steps import commit_steps_until
from groupledger.jobs.derive.coordinator_faults import coordinator_faults
from groupledger.jobs.derive.groups_to_judge import (
    Present,
    coverage_digest,
    digest,
    digests_of_faults,
    fingerprint,
    places,
)
from groupledger.jobs.derive.incident_tables import AskedTables, incident_tables
from groupledger.jobs.derive.judged_groups import Judged, groups_after, note_judged_groups, read_judged
from groupledger.jobs.derive.lag_rounds import rounds_before_retention
from groupledger.jobs.derive.lag_stretches import stretches_of_lag
from groupledger.jobs.derive.open_transactions import sampled_transactions
from groupledger.jobs.derive.reach import Piece, Plan
from groupledger.jobs.derive.rebalance_stretches import stuck_rebalances
from groupledger.jobs.derive.troubles import gathering, look_for_anybody, note_troubles
from groupledger.jobs.ingest.samples import last_sampled_at_ms
from groupledger.jobs.process.chunks import chunks
from groupledger.jobs.process.clock import HOUR_MS
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.settings import rules_from
from groupledger.jobs.warehouse.first_fold import is_history_made
from groupledger.jobs.warehouse.judged_logs import note_judged
from groupledger.jobs.warehouse.known_until import note_until, noted_until
from groupledger.jobs.warehouse.tables import NAMED_MAX, frame_of, is_among
from groupledger.jobs.warehouse.topic_until import topic_until_ms
from groupledger.jobs.warehouse.upsert import replace_changed
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.instants import ms_if_known
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.commit_steps import COMMIT_STEPS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.group_states import GROUP_STATES
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.log_files import LOG_FILES
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.schemas.words import Source, TroubledStep
from groupledger.transforms.incidents.incidents import facts_of
from groupledger.transforms.incidents.judging import (
    OF_TABLE,
    WORD,
    OfCluster,
    incidents_of_cluster,
    incidents_of_partitions,
    judged,
)
from groupledger.transforms.incidents.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from groupledger.jobs.derive.commit_steps import CommitSteps
    from groupledger.jobs.derive.coordinator_faults import FaultsFound
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.transforms.troubles import Trouble

NEEDED = (COVERAGE, GENERATIONS, REBALANCES, MEMBERS, COORDINATOR_RECORDS, ASSIGNMENTS)


def update_incidents(ledger: Ledger) -> int:
    """Replaces the incidents of the groups that may have others, and returns the number of all. Raises InputError if
    the ledger has no history yet."""
    settings = ledger.settings
    rules = rules_from(Rules, settings.incidents, settings.history, settings.offsets)
    if not is_history_made(ledger.storage, ledger.cluster):
        raise InputError("The first history is not finished: run `groupledger history` first.")
    for table in NEEDED:
        ledger.require(table)
    log_rows = _imported_log_rows(ledger)  # before they are read: more may be imported meanwhile
    topic_ms = topic_until_ms(ledger)
    as_of_ms = _known_until_ms(ledger, topic_ms)
    history_ms = _history_ms(ledger, topic_ms)
    # Who has no later record was silent until the topic was last read, however long samples and logs have gone on.
    silent_ms = as_of_ms if history_ms is None else min(as_of_ms, history_ms)
    ledger.create(INCIDENTS)
    with _keeping() as keep:
        at_first = places(ledger)  # rows that come later are looked at once more
        steps = commit_steps_until(ledger, silent_ms, rules, keep)
        disturbances = coordinator_faults(ledger, at_first, history_ms)
        known = _known(ledger, rules, keep, history_ms)
        present = Present(
            fingerprint=fingerprint(rules),
            faults=digests_of_faults(disturbances),
            places=at_first | places(ledger, [COMMIT_STEPS]),
            coverage=coverage_digest(ledger),
            changing=changing_facts(ledger, steps, known, rules, silent_ms),
        )
        if disturbances is not None and disturbances.hit.num_rows:
            known["disturbed"] = frame_of(ledger.spark, disturbances.hit)
        run = Judging(ledger, steps, rules, silent_ms, as_of_ms, _shared(disturbances, history_ms), keep)
        noted = _judge(run, present, known, read_judged(ledger) or Judged())
    look_for_anybody(ledger, TroubledStep.INCIDENTS, lambda: {*noted.met} | run.troubles.keys())
    note_judged(ledger.storage, ledger.cluster, log_rows)
    note_until(ledger.storage, ledger.cluster, Source.INCIDENTS, history_ms)
    note_judged_groups(ledger, noted)
    count = ledger.row_count(INCIDENTS)
    ledger.say(f"incidents: {count:,}")
    return count


def _judge(run: Judging, present: Present, known: Mapping[str, DataFrame], before: Judged) -> Judged:
    """Judges the groups that may have other incidents than before, writes these, and returns what to note."""
    ledger = run.ledger
    interval_ms = ledger.settings.incidents.all_groups_interval_h * HOUR_MS
    groups = present.groups_to_judge(ledger, before, run.rules)
    if run.silent_ms - before.all_at_ms >= interval_ms:
        groups = replace(groups, names=None)
    names = groups.names
    plan = Plan(ledger, groups, before, run.rules.final_after_ms)
    for piece in plan.pieces():
        run.judge(known, piece, plan)
    ledger.give_way()
    of_cluster = run.of_cluster(_transactions(ledger, run.rules))
    of_cluster_digest = digest(of_cluster.to_pylist())
    run.write(of_cluster, is_other=names is None or of_cluster_digest != before.of_cluster)
    note_troubles(ledger, TroubledStep.INCIDENTS, run.troubles, names)
    return Judged(
        fingerprint=present.fingerprint,
        faults=present.faults,
        until_ms=run.silent_ms,
        all_at_ms=run.silent_ms if names is None else before.all_at_ms,
        places=present.places | places(ledger, [INCIDENTS]),
        coverage=present.coverage,
        of_cluster=of_cluster_digest,
        words=present.changing.words,
        asked=sorted(run.asked | (set() if names is None else {*before.asked} - {*names})),
        **groups_after(before, run.words, names, run.silent_ms, run.since_ms, groups.back),
    )


@contextmanager
def _keeping() -> Iterator[Callable[[DataFrame], DataFrame]]:
    """Yields a function that persists rows which are read several times, until the end of the block."""
    kept: list[DataFrame] = []

    def keep(rows: DataFrame) -> DataFrame:
        kept.append(rows.persist())
        return kept[-1]

    try:
        yield keep
    finally:
        for each in kept:
            each.unpersist()


def _known(
    ledger: Ledger, rules: Rules, keep: Callable[[DataFrame], DataFrame], history_ms: int | None
) -> dict[str, DataFrame]:
    """Returns the stretches and rounds of samples, by their names in `IncidentTables`."""
    known: dict[str, DataFrame] = {}
    if ledger.exists(GROUP_STATES):
        stuck = stuck_rebalances(ledger, rules.stuck_rebalance_ms, history_ms)
        known["rebalance_stretches"] = keep(stuck)
    if ledger.exists(LAG):
        known["lag_stretches"] = keep(stretches_of_lag(ledger, rules.commit_gap_ms))
        known["lag_rounds"] = keep(rounds_before_retention(ledger, keep))
    return known


def _transactions(ledger: Ledger, rules: Rules) -> list[dict[str, Any]]:
    if not ledger.exists(WATERMARKS):
        return []
    rows: list[dict[str, Any]] = sampled_transactions(ledger, rules.stalled_transaction_ms).toArrow().to_pylist()
    return rows


def _shared(disturbances: FaultsFound | None, history_ms: int | None) -> OfCluster:
    shared = OfCluster(topic_until_ms=history_ms)
    if disturbances is None:
        return shared
    return replace(shared, faults=disturbances.faults, coordinators=disturbances.coordinators)


@dataclass
class Judging:
    """Judges groups, and has what came of it."""

    ledger: Ledger
    steps: CommitSteps
    rules: Rules
    silent_ms: int
    as_of_ms: int
    shared: OfCluster
    keep: Callable[[DataFrame], DataFrame]
    found: list[pa.Table] = field(default_factory=list)
    replaced: list[pc.Expression] = field(default_factory=list)
    words: list[dict[str, Any]] = field(default_factory=list)
    since_ms: dict[str | None, int] = field(default_factory=dict)  # by group; None stands for all others
    asked: set[str] = field(default_factory=set)
    troubles: dict[str, Trouble] = field(default_factory=dict)

    def judge(self, known: Mapping[str, DataFrame], piece: Piece, plan: Plan) -> None:
        """Judges the groups of a piece. If the piece lacks something of a group, that group is judged by all of its
        past."""
        self.ledger.give_way()
        names, reach = piece.names, piece.reach
        tables = incident_tables(self.ledger, self.steps, known, self.keep, names, reach)
        asking = AskedTables(self.ledger, tables, self.steps, self.keep, reach)
        facts = facts_of(tables, self.rules, self.silent_ms, asking)
        report = gathering(self.ledger)
        shared = replace(self.shared, faults=reach.faults(self.shared.faults))
        every = (
            judged(facts, self.rules, self.as_of_ms, report, shared)
            .toArrow()
            .filter(~is_among("group_id", piece.others))
        )
        again = plan.met_before(reach.judged(_incidents_in(every)), reach)
        is_meant = ~is_among("group_id", {*piece.others, *again})
        words = every.filter(pc.field("incident_id").is_null() & is_meant)
        self.words += words.select(["group_id", *(each.name for each in WORD)]).to_pylist()
        self.found.append(reach.judged(_incidents_in(every.filter(is_meant))))
        is_of_piece = is_meant if names is None else is_among("group_id", names) & is_meant
        self.replaced.append(is_of_piece & reach.replaced(self.found[-1]["incident_id"].to_pylist()))
        self.since_ms |= dict.fromkeys((None,) if names is None else names, reach.since_ms or 0)
        self.asked |= asking.groups
        self.troubles |= {name: each for name, each in report.taken().items() if name not in piece.others}
        for chunk in chunks(sorted(again), NAMED_MAX):
            self.judge(known, Piece(plan.whole, chunk), plan)

    def of_cluster(self, transactions: Sequence[Mapping[str, Any]]) -> pa.Table:
        """Returns the incidents that belong to no group."""
        of_partitions = incidents_of_partitions(transactions, self.rules, self.as_of_ms)
        return pa.concat_tables([incidents_of_cluster(self.shared, self.rules, self.as_of_ms), of_partitions])

    def write(self, of_cluster: pa.Table, *, is_other: bool) -> None:
        """Replaces the incidents of the groups that were judged; also those of no group if they are other ones than
        before (`is_other`)."""
        schema = arrow_schema(INCIDENTS.schema)
        found = [each.cast(pa.schema([schema.field(name) for name in each.schema.names])) for each in self.found]
        replaced = [*self.replaced, pc.field("group_id").is_null()] if is_other else self.replaced
        if not replaced:
            return
        rows = pa.concat_tables([*found, of_cluster] if is_other else found)
        rows = rows.append_column("cluster", pa.array([self.ledger.cluster] * rows.num_rows, pa.string()))
        replace_changed(self.ledger, INCIDENTS, rows, reduce(or_, replaced))


def _incidents_in(rows: pa.Table) -> pa.Table:
    """Returns the incidents among what judging returns."""
    return rows.filter(pc.field("incident_id").is_valid()).select(OF_TABLE.names)


def _imported_log_rows(ledger: Ledger) -> int:
    if not ledger.exists(LOG_FILES):
        return 0
    return pc.sum(ledger.arrow(LOG_FILES, columns=("row_count",))["row_count"]).as_py() or 0


def _history_ms(ledger: Ledger, topic_ms: int | None) -> int | None:
    """Returns until when the history covers the topic; None if that is unknown."""
    folded_ms = ms_if_known(noted_until(ledger.storage, ledger.cluster, Source.HISTORY))
    return topic_ms if folded_ms is None or topic_ms is None else min(folded_ms, topic_ms)


def _known_until_ms(ledger: Ledger, topic_ms: int | None) -> int:
    """Returns the latest instant that the ledger knows of, which decides whether an incident is still open."""
    logged_ms = None
    if ledger.exists(LOG_FILES):  # its times leave out lines that wrong clocks dated in the future
        logged_ms = ms_if_known(pc.max(ledger.arrow(LOG_FILES, columns=("last_logged_at",))["last_logged_at"]).as_py())
    return max(last_sampled_at_ms(ledger, WATERMARKS), topic_ms or 0, logged_ms or 0)
