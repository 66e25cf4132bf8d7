"""What a monitor tells of itself, beside the lag: whether its numbers can be trusted.

    groupledger_reader_lag_offsets            of `__consumer_offsets`, by partition: what the ingest has still to read
    groupledger_reader_hidden_offsets         behind open transactions, where no read_committed reader gets
    groupledger_reader_stalled_seconds        for how long the last stable offset has stood still there
    groupledger_round_timestamp_seconds       when the last round was sampled
    groupledger_round_seconds                 how long it took until it was published
    groupledger_rounds_total, groupledger_rounds_failed_total
    groupledger_sample_errors                 partitions, groups and brokers of the last round without an answer

All labels are bounded by the cluster itself: its name, and partitions of one topic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client import Metric


@dataclass(frozen=True, slots=True)
class MonitorReport:
    """What a monitor tells of itself after a round; mappings are by partition of `__consumer_offsets`."""

    sampled_at_ms: int | None = None
    round_s: float = 0.0
    rounds: int = 0
    rounds_failed: int = 0
    sample_errors: int = 0
    lag_offsets: Mapping[int, int] = field(default_factory=dict)
    hidden_offsets: Mapping[int, int] = field(default_factory=dict)
    stalled_ms: Mapping[int, int] = field(default_factory=dict)


def monitor_metrics(cluster: str, report: MonitorReport) -> Iterator[Metric]:
    for name, text, values in (
        ("lag_offsets", "Offsets that the ingest has still to read.", report.lag_offsets),
        ("hidden_offsets", "Offsets behind open transactions.", report.hidden_offsets),
        (
            "stalled_seconds",
            "For how long an open transaction has held up the reader.",
            {partition: ms / 1000 for partition, ms in report.stalled_ms.items()},
        ),
    ):
        by_partition = GaugeMetricFamily(f"groupledger_reader_{name}", text, labels=("cluster_name", "partition"))
        for partition, value in sorted(values.items()):
            by_partition.add_metric((cluster, str(partition)), value)
        yield by_partition
    if report.sampled_at_ms is not None:
        yield gauge("round_timestamp_seconds", "When the last round was sampled.", cluster, report.sampled_at_ms / 1000)
        yield gauge("round_seconds", "From the sampling of the last round to its metrics.", cluster, report.round_s)
    yield gauge("sample_errors", "What did not answer in the last round.", cluster, report.sample_errors)
    yield counter("rounds", "Rounds that were published.", cluster, report.rounds)
    yield counter("rounds_failed", "Rounds that no broker answered.", cluster, report.rounds_failed)


def gauge(name: str, text: str, cluster: str, value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"groupledger_{name}", text, labels=("cluster_name",))
    family.add_metric((cluster,), value)
    return family


def counter(name: str, text: str, cluster: str, value: float) -> CounterMetricFamily:
    family = CounterMetricFamily(f"groupledger_{name}", text, labels=("cluster_name",))
    family.add_metric((cluster,), value)
    return family
