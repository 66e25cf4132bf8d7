"""A monitor computes its rounds in memory, from samples and commits to the page that Prometheus reads."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from groupledger.jobs.kafka.sampling import SampledGroupState, SampledRound, SampledWatermark
from groupledger.jobs.monitor.activity import Activity, Count
from groupledger.jobs.monitor.own_metrics import MonitorReport, monitor_metrics
from groupledger.jobs.monitor.own_processes import OwnProcesses
from groupledger.jobs.monitor.state import MonitorState, events_since, group_infos
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.warehouse.tables import ClusterTables
from groupledger.schemas.tables.members import MEMBERS
from groupledger.transforms.lag.rules import Commit
from tests.jobs.warehouses import SIMULATED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prometheus_client import Metric
    from pyspark.sql import SparkSession

BEGAN_MS = 1_800_000_000_000
LAG = "kafka_consumergroup_group_lag"


def state_of(*commits: tuple[str, int, int, int], **settings: Any) -> MonitorState:
    """With commits of (group, offset, kafka_partition, kafka_offset) for the first partition of `orders`."""
    ledger: Any = SimpleNamespace(settings=load_settings(**settings), cluster="c")
    state = MonitorState(ledger)
    for group_id, offset, kafka_partition, kafka_offset in commits:
        state._lag.commit(group_id, "orders", 0, Commit(offset, BEGAN_MS, kafka_partition, kafka_offset))
    return state


def sampled(number: int, ends: dict[int, int], end: int) -> SampledRound:
    log = [SampledWatermark("__consumer_offsets", partition, 0, stable, stable) for partition, stable in ends.items()]
    orders = [SampledWatermark("orders", 0, 0, end, end, 1, "id"), SampledWatermark("orders", 1, error="NOT_LEADER")]
    states = (
        SampledGroupState("a", "classic", "PreparingRebalance", "consumer", "range", 3, None, ("orders", "clicks")),
        SampledGroupState("b", "consumer", "Stable", "consumer", "uniform", 2, 9, ("orders",)),
    )
    return SampledRound(BEGAN_MS + number * 5_000, (*log, *orders), states, {}, {})


class Scrape:
    """Everything that is served, through Prometheus' own writer and reader."""

    def __init__(self, state: MonitorState, report: MonitorReport | None = None) -> None:
        self._state = state
        self._report = report or MonitorReport()
        registry = CollectorRegistry()
        registry.register(self)
        self.samples = {
            (
                sample.name,
                *sorted(value for name, value in sample.labels.items() if value and name != "cluster_name"),
            ): (sample.value)
            for family in text_string_to_metric_families(generate_latest(registry).decode())
            for sample in family.samples
        }

    def collect(self) -> Iterator[Metric]:
        yield from monitor_metrics("c", self._report)
        yield from self._state.metrics(0.25)


def test_a_round_is_scraped() -> None:
    """Goal: a scrape has lag, states and members from the log below the round, read by a real parser, and nothing from
    above."""
    state = state_of(("a", 4, 0, 10), ("a", 6, 0, 20), ("b", 7, 1, 5))
    state.compute(sampled(1, {0: 20, 1: 6}, end=10), passed={0, 1})
    found = Scrape(state, MonitorReport(BEGAN_MS, 0.25, 1, 0, 1, {0: 0, 1: 3})).samples
    assert found[LAG, "0", "a", "orders"] == 6
    assert found[LAG, "0", "b", "orders"] == 3
    assert found["kafka_consumergroup_group_state", "a"] == 1
    assert found["kafka_consumergroup_group_members", "a"] == 3
    assert found["kafka_consumergroup_group_generation", "b"] == 9
    assert found["groupledger_reader_lag_offsets", "1"] == 3
    assert found["groupledger_sample_errors",] == 1
    assert found["groupledger_rounds_total",] == 1
    state.compute(sampled(2, {0: 21, 1: 6}, end=10), passed={0, 1})
    assert Scrape(state).samples[LAG, "0", "a", "orders"] == 4


def test_what_is_excluded_has_no_metrics() -> None:
    """Goal: a partition that the settings leave out is in no series, sum or status; its rows are kept like all."""
    nothing: dict[str, list[str]] = {"include": [], "exclude": []}
    left_out = {"groups": nothing, "topics": nothing, "partitions": {**nothing, "exclude": ["orders-0"]}}
    state = state_of(("a", 4, 0, 10), selection=left_out)
    state._lag.commit("a", "orders", 1, Commit(9, BEGAN_MS, 0, 11))
    state.compute(sampled(1, {0: 20}, end=10), passed={0})
    assert [(each.topic, each.lag_sum) for each in state.rollups] == [(None, None), ("orders", None)]
    found = Scrape(state).samples
    assert not any("0" in names for _, *names in found)
    assert found["kafka_consumergroup_group_offset", "1", "a", "orders"] == 9
    assert found["kafka_consumergroup_group_topic_partitions_without_lag", "a", "orders"] == 1
    assert [row.lag for row in state.rows] == [6, None]


def test_a_partition_that_is_not_read_in_time_keeps_its_end() -> None:
    """Goal: if the log of a partition is not read in time, the lag of its groups is unknown, and their rows say so;
    other groups are not touched."""
    state = state_of(("a", 4, 0, 10), ("b", 7, 1, 5))
    state.compute(sampled(1, {0: 20, 1: 6}, end=10), passed={0, 1})
    state._lag.commit("a", "orders", 0, Commit(8, BEGAN_MS, 0, 25))
    state._lag.commit("b", "orders", 0, Commit(8, BEGAN_MS, 1, 7))
    state.compute(sampled(2, {0: 30, 1: 8}, end=12), passed={1})
    rows = {row.group_id: (row.lag, row.flags) for row in state.rows}
    assert rows == {"a": (None, ("commits_late",)), "b": (4, ())}


def test_the_next_round_asks_about_what_is_committed_or_subscribed() -> None:
    """Goal: all topics while none is known, then those of commits and subscriptions only."""
    state = state_of(("a", 4, 0, 10))
    assert state.topics() is None
    state.compute(sampled(1, {0: 20}, end=10), passed={0})
    assert state.topics() == {"orders", "clicks"}


def test_what_happened_is_what_the_statistics_say(spark: SparkSession, filled_warehouse: Path) -> None:
    """Goal: the counted rebalances of each group are those of `rebalance_stats`, and every tenure and its end is
    counted once."""
    tables = ClusterTables(spark, str(filled_warehouse), SIMULATED)
    found = Activity(0).after(events_since(tables, 0)).after(events_since(tables, 0))
    rebalances: Counter[str] = Counter()
    for (group_id, _), count in found.counts[Count.REBALANCES].items():
        rebalances[group_id] += count
    infos = group_infos(tables)
    assert rebalances == Counter({group_id: info.rebalances for group_id, info in infos.items() if info.rebalances})
    ended = [row.leave_cause or "unknown" for row in tables.rows(MEMBERS).where("left_at is not null").collect()]
    causes: Counter[str] = Counter()
    for (_, cause), count in found.counts[Count.LEFT].items():
        causes[cause] += count
    assert causes == Counter(ended)
    assert ended


def test_the_monitors_own_processes(spark: SparkSession) -> None:
    """Goal: the memory of both processes is published, and the JVM's own figures."""
    found = {each.name: each for each in OwnProcesses(spark).metrics()}
    for name in ("process_resident_memory_bytes", "jvm_process_resident_memory_bytes", "jvm_threads_current"):
        assert found[name].samples[0].value > 0
    assert {sample.labels["area"] for sample in found["jvm_memory_used_bytes"].samples} == {"heap", "nonheap"}
    assert any(sample.labels for sample in found["jvm_gc_collection_seconds"].samples)
