"""Makes metrics of the resources that the monitor's two processes use, with the names of Prometheus' own clients.

    process_*          Python's process: memory, processor time, open files
    jvm_process_*      the same of the JVM that Spark runs in
    jvm_*              the JVM's memory, garbage collections and threads (`metric_list`)

On a cluster this is Spark's driver; executors have Spark's own metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import ProcessCollector
from prometheus_client.core import SummaryMetricFamily

from groupledger.jobs.monitor.metric_list import BY_NAME, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric
    from pyspark.sql import SparkSession


class OwnProcesses:
    """Reads the figures of this monitor's processes. Asking the JVM takes some milliseconds, so it is done once in a
    round."""

    def __init__(self, spark: SparkSession) -> None:
        java = spark.sparkContext._jvm.java  # type: ignore[union-attr]  # noqa: SLF001 - pyspark has no other way
        jvm_pid = java.lang.ProcessHandle.current().pid()
        self._beans = java.lang.management.ManagementFactory
        self._processes = (
            ProcessCollector(registry=None),
            ProcessCollector(namespace="jvm", pid=lambda: jvm_pid, registry=None),
        )

    def metrics(self) -> Iterator[Metric]:
        for process in self._processes:
            yield from process.collect()
        memory = self._beans.getMemoryMXBean()
        areas = {"heap": memory.getHeapMemoryUsage(), "nonheap": memory.getNonHeapMemoryUsage()}
        used = (((area,), usage.getUsed()) for area, usage in areas.items())
        yield listed("jvm_memory_used_bytes", used)
        # -1 says that there is no limit.
        limits = (((area,), usage.getMax()) for area, usage in areas.items() if usage.getMax() >= 0)
        yield listed("jvm_memory_max_bytes", limits)
        summary = BY_NAME["jvm_gc_collection_seconds"]
        collections = SummaryMetricFamily(summary.name, summary.help, labels=summary.labels)
        for bean in self._beans.getGarbageCollectorMXBeans():
            seconds = bean.getCollectionTime() / 1_000
            collections.add_metric((bean.getName(),), count_value=bean.getCollectionCount(), sum_value=seconds)
        yield collections
        threads = self._beans.getThreadMXBean().getThreadCount()
        yield listed("jvm_threads_current", [((), threads)])
