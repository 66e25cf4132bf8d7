"""Does a monitor's work between its rounds: incidents, the seeds of lag (the stored state of its computation), and the
maintenance of the tables.

Each piece of work has an interval, and takes at most a part of the time: two thirds for the search for incidents, since
somebody waits for its result, and a quarter for all other work. Between two writes it lets a round run first, as the
history does. The numbers of open incidents stay in memory for the metrics. Maintenance is for all clusters of a
process: the thread of one cluster at a time does it for all, under the leases of these clusters. Meanwhile other
processes may write other clusters of the warehouse.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.jobs.ask.one_diagnosis import one_diagnosis
from groupledger.jobs.derive.incidents import update_incidents
from groupledger.jobs.derive.lag_seeds import seeds_at
from groupledger.jobs.derive.troubles import open_troubles
from groupledger.jobs.ingest.samples import last_sampled_at_ms
from groupledger.jobs.monitor.open_diagnoses import OpenDiagnoses
from groupledger.jobs.monitor.rules import WorkPace
from groupledger.jobs.process.clock import DAY_MS, began_ms
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.selection import chosen_incidents
from groupledger.jobs.process.settings import rules_from
from groupledger.jobs.warehouse.maintain import maintain
from groupledger.jobs.warehouse.topic_until import known_until_ms
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.lag import LAG
from groupledger.transforms.lag.rules import LagRules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from groupledger.jobs.process.settings import MonitorSettings
    from groupledger.jobs.warehouse.lease import Lease
    from groupledger.jobs.warehouse.ledger import Ledger

HOUR_S = 3_600
INCIDENTS_REST = 0.5  # times as long as the search before it
KNOWN_FOR = timedelta(days=1)
COLUMNS = (
    *("incident_id", "episode_id", "group_id", "kind", "severity", "evidence", "first_seen_at", "last_seen_at"),
    *("is_open", "partitions"),
)


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last time that a piece of work was done: when it ended, as seconds since the epoch, and how long it took."""

    ended_s: float
    took_s: float


class MaintenanceTurns:
    """Lets the threads of a process take turns at maintaining its clusters, under the leases `held`. One thread at a
    time has the `turn`. The age of files is judged by this host's clock: if the clock was set since the process began,
    nothing is removed."""

    def __init__(self, settings: MonitorSettings) -> None:
        self.held: list[Lease] = []
        self._began_ms = began_ms()
        self.turn = threading.Lock()
        self.pace = WorkPace(settings.maintain_interval_h * HOUR_S)
        self.pace.done(time.monotonic(), time.monotonic())  # not at the start: whoever starts it waits for its numbers

    def was_set_by_days(self) -> int:
        """Returns how many whole days this host's clock was set forward or back since the process began."""
        return abs(began_ms() - self._began_ms) // DAY_MS


class Upkeep:
    """Does the work between the rounds of one cluster's monitor, and holds its results for the metrics.
    `open_incidents` has the numbers of open incidents, by group, kind and severity; `open_diagnoses` those of their
    diagnoses, by group, cause and severity; `incident_counts` those of all incidents since the start, by kind, severity
    and evidence. `steps` has the last run of each step, `known_until_ms` the time up to which each source was read, and
    `troubled_groups` on how many groups each step failed."""

    def __init__(self, ledger: Ledger, maintenance: MaintenanceTurns) -> None:
        self.open_incidents: Mapping[tuple[str, str, str], int] = {}
        self.open_diagnoses: Mapping[tuple[str, str, str], int] = {}
        self.incident_counts: Mapping[tuple[str, str, str], int] = {}
        self.steps: dict[str, LastRun] = {}
        self.known_until_ms: Mapping[str, int] = {}
        self.troubled_groups: Mapping[str, int] = {}
        self._began_at = datetime.now(timezone.utc)
        self._known: set[str] = set()
        self._diagnoses = OpenDiagnoses(lambda *asked: one_diagnosis(ledger.warehouse, ledger.cluster, *asked))
        self._ledger = ledger
        self._maintenance = maintenance
        settings = ledger.settings
        # It is asked after each pass of the history. What is due before the middle of the time to the next is done now;
        # else work with the interval of the history would come with each second pass.
        self._early_s = settings.monitor.history_interval_s / 2
        self._incidents = WorkPace(settings.monitor.incidents_interval_s, INCIDENTS_REST)
        self._seeds = WorkPace(HOUR_S)
        self._seeds.done(time.monotonic(), time.monotonic())  # they were just read

    def work(self, stop: threading.Event) -> None:
        """Does the work that is due, and raises the errors of the jobs. An OutsideError of the maintenance is only
        reported while the lease is held; the maintenance is tried again when it is next due."""
        if not stop.is_set() and self._ledger.exists(GENERATIONS):
            self._when_due(self._incidents, "incidents", self._look_for_incidents)
        self.troubled_groups = Counter(row["step"] for row in open_troubles(self._ledger))
        if not stop.is_set() and self._ledger.exists(LAG):
            self._when_due(self._seeds, "lag_seeds", self._keep_seeds)
        is_wanted = not stop.is_set() and self._ledger.settings.monitor.maintain_interval_h
        if is_wanted and self._maintenance.turn.acquire(blocking=False):
            try:
                self._when_due(self._maintenance.pace, "maintenance", self._maintain)
            finally:
                self._maintenance.turn.release()

    def look_at_sources(self) -> None:
        self.known_until_ms = known_until_ms(self._ledger)

    def timed(self, step: str, work: Callable[[], None]) -> None:
        """Does the work of a step, and records in `steps` when it ended and how long it took."""
        began_s = time.monotonic()
        work()
        self.steps = {**self.steps, step: LastRun(time.time(), time.monotonic() - began_s)}

    def _when_due(self, pace: WorkPace, step: str, work: Callable[[], None]) -> None:
        began_s = time.monotonic()
        if pace.is_due(began_s + self._early_s):
            self.timed(step, work)
            pace.done(began_s, time.monotonic())

    def _look_for_incidents(self) -> None:
        ledger = self._ledger
        update_incidents(ledger)
        # Later incidents of a time that is long ago are not counted, so that few ids have to be known.
        since = max(self._began_at, datetime.now(timezone.utc) - KNOWN_FOR)
        is_new = pc.field("last_seen_at") >= pa.scalar(since, pa.timestamp("us", "UTC"))
        read = ledger.arrow(INCIDENTS, pc.field("is_open") | is_new, COLUMNS).to_pylist()
        rows = chosen_incidents(ledger.settings.selection, read)
        recent = {row["incident_id"]: row for row in rows if row["last_seen_at"] >= since}
        new = [row for incident_id, row in recent.items() if incident_id not in self._known]
        self._known = {*recent}
        found = Counter((row["kind"], row["severity"], row["evidence"]) for row in new)
        self.incident_counts = Counter(self.incident_counts) + found
        is_open = [row for row in rows if row["is_open"]]
        self.open_incidents = Counter((row["group_id"] or "", row["kind"], row["severity"]) for row in is_open)
        ledger.give_way()
        self.open_diagnoses = self._diagnoses.of(is_open)  # which takes a while

    def _keep_seeds(self) -> None:
        """Writes the seeds of lag, so that the next start need not read all earlier rounds."""
        ledger = self._ledger
        last_ms = last_sampled_at_ms(ledger, LAG)
        if last_ms:
            seeds_at(ledger, last_ms, rules_from(LagRules, ledger.settings.lag))

    def _maintain(self) -> None:
        ledger = self._ledger
        days = self._maintenance.was_set_by_days()
        if days:
            ledger.warn(
                f"no maintenance: this host's clock was set by {days:,} days since the monitor began, and the"
                " clock decides what is old: start the monitor again when the clock is right"
            )
            return
        now = datetime.now(timezone.utc)
        try:
            steps = maintain(
                *(ledger.spark, ledger.warehouse, ledger.settings, now),
                is_dry_run=False,
                say=lambda _: ledger.give_way(),
                held=tuple(self._maintenance.held),
            )
        except OutsideError as error:
            ledger.lease.check()
            ledger.warn(f"no maintenance: {error}")
            return
        not_done = [f"{step.table}: {step.outcome}" for step in steps if step.is_finding]
        ledger.say(f"maintenance: {len(steps) - len(not_done):,} steps{''.join(f'; {each}' for each in not_done)}")
