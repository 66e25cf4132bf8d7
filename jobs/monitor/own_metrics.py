"""The monitor's metrics about itself, beside the lag: whether its numbers can be trusted.

    groupledger_reader_lag_offsets            of `__consumer_offsets`, by partition: what the ingest has still to read
    groupledger_reader_hidden_offsets         behind open transactions, which no read_committed reader reaches
    groupledger_reader_stalled_seconds        for how long the last stable offset has stood still there
    groupledger_round_timestamp_seconds       when the last round was sampled
    groupledger_round_seconds                 how long it took until it was published
    groupledger_rounds_total, groupledger_rounds_failed_total
    groupledger_sample_errors                 partitions, groups and brokers of the last round without an answer
    groupledger_interval_seconds              the configured time between two rounds
    groupledger_open_incidents                by group, kind and severity; a group without any has no sample
    groupledger_incidents_total               found since the monitor began, by kind, severity and evidence
    groupledger_notifications_total           messages about incidents, by receiver and outcome
    groupledger_troubled_groups               that a step could not judge, by step; a step without any has no sample
    groupledger_step_judged_nobody            1 while a step can judge no group, by step; else it has no sample
    groupledger_waiting_rounds                rounds that are published and not yet written
    groupledger_unwritten_rounds_total        rounds that were published and left out of the tables, which were behind
    groupledger_behind_seconds                by source (topic, history, incidents): how far it is behind the clock; the
                                              topic by the last round whose commits are all read
    groupledger_step_timestamp_seconds        by step (history, incidents, maintenance): when it was last done
    groupledger_step_seconds                  how long it took then
    groupledger_known_until_seconds           by source (topic, history, incidents, samples): until when it is known; a
                                              source without a sample was not read yet

The labels are bounded by the cluster itself and by the settings: partitions of one topic, receivers; groups in trouble.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from groupledger.jobs.monitor.families import Counter, Gauge, family
from groupledger.schemas.words import Source

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from prometheus_client import Metric

    from groupledger.jobs.monitor.upkeep import Step


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
    for name, text, values in (
        ("lag_offsets", "Offsets that the ingest has still to read.", report.lag_offsets),
        ("hidden_offsets", "Offsets behind open transactions.", report.hidden_offsets),
        ("stalled_seconds", "For how long an open transaction has held up the reader.", stalled_s),
    ):
        samples = (((cluster, str(partition)), value) for partition, value in sorted(values.items()))
        yield family(Gauge, f"groupledger_reader_{name}", text, ("cluster_name", "partition"), samples)
    of_round = (
        (Gauge, "round_timestamp_seconds", "When the last round was sampled.", (report.sampled_at_ms or 0) / 1000),
        (Gauge, "round_seconds", "From the sampling of the last round to its metrics.", report.round_s),
    )
    for kind, name, text, value in (
        *(of_round if report.sampled_at_ms is not None else ()),
        (Gauge, "interval_seconds", "How often there is to be a round.", report.interval_s),
        (Gauge, "waiting_rounds", "Rounds that wait to be written.", report.waiting_rounds),
        (Gauge, "sample_errors", "What did not answer in the last round.", report.sample_errors),
        (Counter, "rounds", "Rounds that were published.", report.rounds),
        (Counter, "rounds_failed", "Rounds that no broker answered.", report.rounds_failed),
        (Counter, "unwritten_rounds", "Rounds that were left out of the tables.", report.rounds_unwritten),
    ):
        yield family(kind, f"groupledger_{name}", text, ("cluster_name",), [((cluster,), value)])


def incident_metrics(
    cluster: str,
    open_incidents: Mapping[tuple[str, str, str], int],
    messages: Mapping[tuple[str, str], int],
    found: Mapping[tuple[str, str, str], int] | None = None,
) -> Iterator[Metric]:
    """Yields the open incidents by group, kind and severity, those `found` by kind, severity and evidence, and the
    messages about them by receiver and outcome."""
    for kind, name, text, labels, values in (
        (Gauge, "open_incidents", "Incidents that are open.", ("group", "kind", "severity"), open_incidents),
        (Counter, "incidents", "Incidents that were found.", ("kind", "severity", "evidence"), found or {}),
        (Counter, "notifications", "Messages about incidents.", ("receiver", "outcome"), messages),
    ):
        samples = (((cluster, *key), value) for key, value in sorted(values.items()))
        yield family(kind, f"groupledger_{name}", text, ("cluster_name", *labels), samples)


def step_metrics(
    cluster: str, steps: Mapping[str, Step], troubled: Mapping[str, int] | None = None, nobody: Collection[str] = ()
) -> Iterator[Metric]:
    """Yields when each of the steps beside the rounds was last done, how long it took, how many groups it could not
    judge, and which judged `nobody`."""
    of_step = (((cluster, step), number) for step, number in sorted((troubled or {}).items()))
    text = "Groups that the step could not judge."
    yield family(Gauge, "groupledger_troubled_groups", text, ("cluster_name", "step"), of_step)
    text = "1 while the step can judge no group at all."
    of_step = (((cluster, step), 1) for step in sorted(nobody))
    yield family(Gauge, "groupledger_step_judged_nobody", text, ("cluster_name", "step"), of_step)
    for name, text, values in (
        ("timestamp_seconds", "When the step was last done.", {step: of.ended_s for step, of in steps.items()}),
        ("seconds", "How long it took.", {step: of.took_s for step, of in steps.items()}),
    ):
        samples = (((cluster, step), value) for step, value in sorted(values.items()))
        yield family(Gauge, f"groupledger_step_{name}", text, ("cluster_name", "step"), samples)


def source_metrics(cluster: str, known_until_ms: Mapping[str, int], sampled_at_ms: int | None) -> Iterator[Metric]:
    """Yields until when each source is known; the rounds until the last one."""
    rounds = {} if sampled_at_ms is None else {Source.SAMPLES: sampled_at_ms}
    samples = (((cluster, source), ms / 1_000) for source, ms in sorted({**known_until_ms, **rounds}.items()))
    text = "Until when a source is known, in seconds since 1970."
    yield family(Gauge, "groupledger_known_until_seconds", text, ("cluster_name", "source"), samples)


def behind_metrics(cluster: str, behind_ms: Mapping[str, int]) -> Iterator[Metric]:
    """Yields how far each source is behind the clock."""
    samples = (((cluster, source), ms / 1_000) for source, ms in sorted(behind_ms.items()))
    text = "How far a source is behind the clock; of the topic, the commits that lag counts."
    yield family(Gauge, "groupledger_behind_seconds", text, ("cluster_name", "source"), samples)
