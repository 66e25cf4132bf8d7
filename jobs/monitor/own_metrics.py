"""Makes the monitor's metrics about itself. They show whether its metrics of lag can be trusted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from groupledger.jobs.monitor.metric_list import listed
from groupledger.schemas.words import Source

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from prometheus_client import Metric

    from groupledger.jobs.ingest.stream import Totals
    from groupledger.jobs.monitor.upkeep import LastRun


BEHIND = (Source.TOPIC, Source.HISTORY, Source.INCIDENTS)


@dataclass(frozen=True, slots=True)
class MonitorReport:
    """The monitor's state after a round; mappings are by partition of `__consumer_offsets`."""

    sampled_at_ms: int | None = None
    round_s: float = 0.0
    rounds: int = 0
    rounds_failed: int = 0
    sample_errors: int = 0
    lag_offsets: Mapping[int, int] = field(default_factory=dict)
    hidden_offsets: Mapping[int, int] = field(default_factory=dict)
    stalled_ms: Mapping[int, int] = field(default_factory=dict)
    interval_s: int = 0
    waiting_rounds: int = 0
    rounds_unwritten: int = 0


def monitor_metrics(cluster: str, report: MonitorReport) -> Iterator[Metric]:
    stalled_s = {partition: ms / 1000 for partition, ms in report.stalled_ms.items()}
    for name, values in (
        ("groupledger_reader_lag_offsets", report.lag_offsets),
        ("groupledger_reader_hidden_offsets", report.hidden_offsets),
        ("groupledger_reader_stalled_seconds", stalled_s),
    ):
        yield listed(name, (((cluster, str(partition)), value) for partition, value in sorted(values.items())))
    of_round = (
        ("groupledger_round_timestamp_seconds", (report.sampled_at_ms or 0) / 1000),
        ("groupledger_round_seconds", report.round_s),
    )
    for name, value in (
        *(of_round if report.sampled_at_ms is not None else ()),
        ("groupledger_interval_seconds", report.interval_s),
        ("groupledger_waiting_rounds", report.waiting_rounds),
        ("groupledger_sample_errors", report.sample_errors),
        ("groupledger_rounds_total", report.rounds),
        ("groupledger_rounds_failed_total", report.rounds_failed),
        ("groupledger_unwritten_rounds_total", report.rounds_unwritten),
    ):
        yield listed(name, [((cluster,), value)])


def incident_metrics(
    cluster: str,
    open_incidents: Mapping[tuple[str, str, str], int],
    messages: Mapping[tuple[str, str], int],
    incidents: Mapping[tuple[str, str, str], int] | None = None,
    diagnoses: Mapping[tuple[str, str, str], int] | None = None,
) -> Iterator[Metric]:
    """Yields the metrics of incidents. `open_incidents` are numbers by group, kind and severity, `diagnoses` of open
    incidents by group, cause and severity, `incidents` of all that were found by kind, severity and evidence, and
    `messages` about them by receiver and outcome."""
    values: Mapping[Any, int]
    for name, values in (
        ("groupledger_open_incidents", open_incidents),
        ("groupledger_open_diagnoses", diagnoses or {}),
        ("groupledger_incidents_total", incidents or {}),
        ("groupledger_notifications_total", messages),
    ):
        yield listed(name, (((cluster, *key), value) for key, value in sorted(values.items())))


def step_metrics(
    cluster: str, steps: Mapping[str, LastRun], troubled: Mapping[str, int] | None = None, nobody: Collection[str] = ()
) -> Iterator[Metric]:
    """Yields the metrics of each step beside the rounds, such as the history: when it last ended, how long it took, on
    how many groups it failed (`troubled`), and whether it failed on all groups (`nobody`)."""
    values: Mapping[str, float]
    for name, values in (
        ("groupledger_troubled_groups", troubled or {}),
        ("groupledger_step_judged_nobody", dict.fromkeys(nobody, 1)),
        ("groupledger_step_timestamp_seconds", {step: of.ended_s for step, of in steps.items()}),
        ("groupledger_step_seconds", {step: of.took_s for step, of in steps.items()}),
    ):
        yield listed(name, (((cluster, step), value) for step, value in sorted(values.items())))


def source_metrics(cluster: str, known_until_ms: Mapping[str, int], sampled_at_ms: int | None) -> Iterator[Metric]:
    """Yields the instant up to which each source was read; for the samples, that is the time of the last round."""
    rounds = {} if sampled_at_ms is None else {Source.SAMPLES: sampled_at_ms}
    samples = (((cluster, source), ms / 1_000) for source, ms in sorted({**known_until_ms, **rounds}.items()))
    yield listed("groupledger_known_until_seconds", samples)


def behind_metrics(cluster: str, behind_ms: Mapping[str, int]) -> Iterator[Metric]:
    """Yields the age of each source's data, in seconds."""
    samples = (((cluster, source), ms / 1_000) for source, ms in sorted(behind_ms.items()))
    yield listed("groupledger_behind_seconds", samples)


def ingest_metrics(cluster: str, totals: Totals) -> Iterator[Metric]:
    """Yields how much the streaming query has read, and the time of each phase of its last micro-batch."""
    for name, value in (
        ("groupledger_ingest_batches_total", totals.batches),
        ("groupledger_ingest_records_total", totals.rows),
        ("groupledger_ingest_undecoded_records_total", totals.quarantined),
    ):
        yield listed(name, [((cluster,), value)])
    phases = (((cluster, phase), ms / 1_000) for phase, ms in sorted(totals.phases_ms.items()))
    yield listed("groupledger_ingest_batch_seconds", phases)
