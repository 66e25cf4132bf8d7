"""Lists every metric that a monitor serves: its whole name, type, labels, unit and HELP.

The exposition and docs/metrics.md derive from this list, and tests compare the dashboard and the alert rules with it.
Code serves a metric by its name in the list (`listed`), so that one search finds all its uses. Names of counters end in
`_total`.

If kafka-lag-exporter has a metric, the metric has the same name here, which begins with `kafka_`, so that dashboards
for the exporter work. `process_*` and `jvm_process_*` are not in the list: Prometheus' own library serves them.

An unknown value has no sample. The number of label values is limited by the cluster and by the settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from groupledger.jobs.monitor.families import Counter, Gauge, ManyGauges, family, histogram

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prometheus_client import Metric

    from groupledger.jobs.monitor.families import Places

BY_CLUSTER: Final = ("cluster_name",)
BY_GROUP: Final = ("cluster_name", "group")
BY_TOPIC: Final = (*BY_GROUP, "topic")
BY_PARTITION: Final = (*BY_TOPIC, "partition", "member_host", "client_id")
OF_PARTITION: Final = ("cluster_name", "topic", "partition")
BY_LOG_PARTITION: Final = ("cluster_name", "partition")
BY_STEP: Final = ("cluster_name", "step")
BY_SOURCE: Final = ("cluster_name", "source")
BY_PHASE: Final = ("cluster_name", "phase")
BY_OBJECTIVE: Final = ("cluster_name", "objective", "group")
GAUGE, COUNTER, HISTOGRAM, SUMMARY = "gauge", "counter", "histogram", "summary"
RECORDS, SECONDS, INSTANT, RATIO, COUNT, CODE = "records", "seconds", "seconds since 1970", "ratio", "count", "code"


class ListedMetric(NamedTuple):
    name: str
    type: str
    labels: tuple[str, ...]
    unit: str
    help: str


METRICS: Final = (
    # Lag, by group and partition.
    ListedMetric(
        *("kafka_consumergroup_group_offset", GAUGE, BY_PARTITION, "offset"),
        "The group's committed offset: the next record that it will read.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_lag", GAUGE, BY_PARTITION, RECORDS),
        "Offsets from the committed offset to the end of the partition.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_lag_seconds", GAUGE, BY_PARTITION, SECONDS),
        "Age of the oldest record that the group has not committed.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_messages_lost", GAUGE, BY_PARTITION, RECORDS),
        "Offsets that retention deleted before the group committed them.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_commit_age_seconds", GAUGE, BY_PARTITION, SECONDS),
        "Time since the group last committed an offset of the partition.",
    ),
    # Lag, by group and topic.
    ListedMetric(
        *("kafka_consumergroup_group_topic_sum_lag", GAUGE, BY_TOPIC, RECORDS),
        "Sum of the group's lag over the partitions of a topic.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_topic_partitions_without_lag", GAUGE, BY_TOPIC, COUNT),
        "Partitions of a topic that the sum leaves out, because their lag is not known.",
    ),
    # Lag, by group.
    ListedMetric(
        *("kafka_consumergroup_group_max_lag", GAUGE, BY_GROUP, RECORDS),
        "The largest lag of one of the group's partitions.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_max_lag_seconds", GAUGE, BY_GROUP, SECONDS),
        "The largest lag in seconds of one of the group's partitions.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_sum_lag", GAUGE, BY_GROUP, RECORDS),
        "Sum of the group's lag over all its partitions.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_sum_lag_without_stuck", GAUGE, BY_GROUP, RECORDS),
        "Sum of the group's lag without partitions whose commits do not advance although they may have a consumer.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_partitions_with_lag", GAUGE, BY_GROUP, COUNT),
        "Partitions with records to read: more members than these have nothing to do.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_partitions_without_lag", GAUGE, BY_GROUP, COUNT),
        "Partitions that the sum leaves out, because their lag is not known.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_catch_up_seconds", GAUGE, BY_GROUP, SECONDS),
        "Time until the lag is gone if it keeps shrinking at the present pace.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_last_commit_age_seconds", GAUGE, BY_GROUP, SECONDS),
        "Time since the group last committed any offset.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_retention_loss_seconds", GAUGE, BY_GROUP, SECONDS),
        "Time until retention overtakes a commit of the group, at the present pace; absent where there is no forecast.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_status", GAUGE, (*BY_GROUP, "status"), "1"),
        "1 for the status of the group's lag: the worst of its partitions.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_burrow_status", GAUGE, BY_GROUP, CODE),
        "The group's status by Burrow's rules: 1 OK, 2 WARN, 3 ERR.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_state", GAUGE, BY_GROUP, CODE),
        "The group's state on the broker: 0 unknown, 1 PreparingRebalance, 2 CompletingRebalance, 3 Stable, 4 Dead,"
        " 5 Empty, 6 Assigning, 7 Reconciling.",
    ),
    # Members and rebalances, by group.
    ListedMetric(
        *("kafka_consumergroup_group_generation", GAUGE, BY_GROUP, "generation"),
        "The generation, or epoch, of the group.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_members", GAUGE, BY_GROUP, COUNT),
        "Members of the group.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_idle_members", GAUGE, BY_GROUP, COUNT),
        "Members that own no partition.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_idle_seconds", GAUGE, BY_GROUP, SECONDS),
        "Time since the group lost its last member; its offsets expire when it stays empty.",
    ),
    # Absent while the brokers' offsets.retention.minutes is neither set nor visible, and of a group that has members.
    ListedMetric(
        *("kafka_consumergroup_group_offsets_expire_seconds", GAUGE, BY_GROUP, SECONDS),
        "Time until the first committed offset of a group without members expires; absent where the brokers' retention"
        " is not known.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_assigned_partitions", GAUGE, BY_GROUP, COUNT),
        "Partitions that a member owns.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_max_partitions_per_member", GAUGE, BY_GROUP, COUNT),
        "Partitions of the member that owns the most.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_rebalances_total", COUNTER, BY_GROUP, COUNT),
        "Rebalances in the group's recorded history.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_storms_total", COUNTER, BY_GROUP, COUNT),
        "Rebalance storms in the group's recorded history: many rebalances in a short time.",
    ),
    # Events since the monitor started, by group.
    ListedMetric(
        *("kafka_consumergroup_group_members_joined_total", COUNTER, BY_GROUP, COUNT),
        "Members that joined since the monitor started.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_members_left_total", COUNTER, (*BY_GROUP, "cause"), COUNT),
        "Members that left since the monitor started, by the cause that the records or logs show.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_rebalances_by_trigger_total", COUNTER, (*BY_GROUP, "trigger"), COUNT),
        "Rebalances since the monitor started, by their trigger.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_rebalance_seconds", HISTOGRAM, (*BY_GROUP, "trigger"), SECONDS),
        "Time that a rebalance took, at least: from the join phase's end to the assignment; in a group of KIP-848, from"
        " the new epoch until the last member reached it.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_rebalance_pause_seconds", HISTOGRAM, (*BY_GROUP, "trigger"), SECONDS),
        "Time around a rebalance in which no member committed an offset: how long consumption paused, at most.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_commits_total", COUNTER, BY_GROUP, COUNT),
        "Offsets that the group committed since the monitor started; a commit of ten partitions counts ten.",
    ),
    ListedMetric(
        *("kafka_consumergroup_group_coordinator_moves_total", COUNTER, BY_GROUP, COUNT),
        "Leader elections of the group's partition of __consumer_offsets since the monitor started; after one, another"
        " broker may be the group's coordinator.",
    ),
    # Topics.
    ListedMetric(
        *("kafka_partition_latest_offset", GAUGE, OF_PARTITION, "offset"),
        "The high watermark: the offset after the last replicated record.",
    ),
    ListedMetric(
        *("kafka_partition_earliest_offset", GAUGE, OF_PARTITION, "offset"),
        "The offset of the first record that the partition still has.",
    ),
    # Objectives of lag.
    ListedMetric(
        *("groupledger_objective_minutes", GAUGE, (*BY_OBJECTIVE, "state"), "minutes"),
        "Minutes of the objective's window, by state: on_time, late or unknown.",
    ),
    ListedMetric(
        *("groupledger_objective_attained_ratio", GAUGE, BY_OBJECTIVE, RATIO),
        "Share of the known minutes of the window in which the group was on time.",
    ),
    ListedMetric(
        *("groupledger_objective_budget_left_ratio", GAUGE, BY_OBJECTIVE, RATIO),
        "Share of the allowed late minutes that is left: 1 is all, below 0 the budget is overspent.",
    ),
    ListedMetric(
        *("groupledger_objective_burn_rate", GAUGE, (*BY_OBJECTIVE, "window"), RATIO),
        "Late minutes in the window, relative to the rate that would use up the budget exactly.",
    ),
    ListedMetric(
        *("groupledger_objective_burning", GAUGE, (*BY_OBJECTIVE, "burning"), "1"),
        "1 for the speed at which the budget is used up: fast, steadily, slowly, no or unknown.",
    ),
    ListedMetric(
        *("groupledger_objective_target_ratio", GAUGE, ("cluster_name", "objective"), RATIO),
        "Share of the minutes that have to be on time.",
    ),
    # Incidents.
    ListedMetric(
        *("groupledger_open_incidents", GAUGE, (*BY_GROUP, "kind", "severity"), COUNT),
        "Incidents of the group that have not ended.",
    ),
    ListedMetric(
        *("groupledger_open_diagnoses", GAUGE, (*BY_GROUP, "cause", "severity"), COUNT),
        "Diagnoses of the group that have not ended, by the cause that `groupledger why` names; not_proved where"
        " several causes are possible.",
    ),
    ListedMetric(
        *("groupledger_incidents_total", COUNTER, (*BY_CLUSTER, "kind", "severity", "evidence"), COUNT),
        "Incidents found since the monitor started.",
    ),
    ListedMetric(
        *("groupledger_notifications_total", COUNTER, (*BY_CLUSTER, "receiver", "outcome"), COUNT),
        "Messages about incidents, by receiver and by whether it took them.",
    ),
    # Whether the numbers can be trusted: the reader of __consumer_offsets, by its partition.
    ListedMetric(
        *("groupledger_reader_lag_offsets", GAUGE, BY_LOG_PARTITION, RECORDS),
        "Offsets of __consumer_offsets that the ingest has not read yet.",
    ),
    ListedMetric(
        *("groupledger_reader_hidden_offsets", GAUGE, BY_LOG_PARTITION, RECORDS),
        "Offsets of __consumer_offsets after the last stable offset: an open transaction hides them from readers.",
    ),
    ListedMetric(
        *("groupledger_reader_stalled_seconds", GAUGE, BY_LOG_PARTITION, SECONDS),
        "Time for which an open transaction has kept the last stable offset from moving.",
    ),
    # The rounds of sampling.
    ListedMetric(
        *("groupledger_interval_seconds", GAUGE, BY_CLUSTER, SECONDS),
        "The configured time between two rounds of sampling.",
    ),
    ListedMetric(
        *("groupledger_round_timestamp_seconds", GAUGE, BY_CLUSTER, INSTANT),
        "Time at which the last round was sampled.",
    ),
    ListedMetric(
        *("groupledger_round_seconds", GAUGE, BY_CLUSTER, SECONDS),
        "Time from the sampling of the last round until its metrics were published.",
    ),
    ListedMetric(
        *("kafka_consumergroup_poll_time_ms", GAUGE, BY_CLUSTER, "milliseconds"),
        "Time that the last round of sampling took.",
    ),
    ListedMetric(
        *("groupledger_rounds_total", COUNTER, BY_CLUSTER, COUNT),
        "Rounds that were published.",
    ),
    ListedMetric(
        *("groupledger_rounds_failed_total", COUNTER, BY_CLUSTER, COUNT),
        "Rounds that were not sampled, because no broker answered.",
    ),
    ListedMetric(
        *("groupledger_waiting_rounds", GAUGE, BY_CLUSTER, COUNT),
        "Rounds that are published and not yet written to the tables.",
    ),
    ListedMetric(
        *("groupledger_unwritten_rounds_total", COUNTER, BY_CLUSTER, COUNT),
        "Rounds that were published and never written, because the tables could not keep up.",
    ),
    ListedMetric(
        *("groupledger_sample_errors", GAUGE, BY_CLUSTER, COUNT),
        "Partitions, groups and brokers that did not answer in the last round.",
    ),
    ListedMetric(
        *("groupledger_series_left_out", GAUGE, BY_CLUSTER, COUNT),
        "Series of partitions that are not served, because there are more than the setting metrics.series_max.",
    ),
    # The streaming query that reads __consumer_offsets.
    ListedMetric(
        *("groupledger_ingest_batches_total", COUNTER, BY_CLUSTER, COUNT),
        "Micro-batches that the streaming query has committed since the monitor started.",
    ),
    ListedMetric(
        *("groupledger_ingest_records_total", COUNTER, BY_CLUSTER, RECORDS),
        "Records of __consumer_offsets that were read since the monitor started.",
    ),
    ListedMetric(
        *("groupledger_ingest_undecoded_records_total", COUNTER, BY_CLUSTER, RECORDS),
        "Records that were kept undecoded since the monitor started; the column decode_error has the reason.",
    ),
    ListedMetric(
        *("groupledger_ingest_batch_seconds", GAUGE, BY_PHASE, SECONDS),
        "Time of each phase of the last micro-batch, by Spark's names; triggerExecution is the whole batch.",
    ),
    # The work beside the rounds.
    ListedMetric(
        *("groupledger_behind_seconds", GAUGE, BY_SOURCE, SECONDS),
        "Delay of a source: for topic, the age of the newest commits that lag includes; for history and incidents, the"
        " time since their last update.",
    ),
    ListedMetric(
        *("groupledger_known_until_seconds", GAUGE, BY_SOURCE, INSTANT),
        "Time up to which a source was read; a source without a sample was not read yet.",
    ),
    ListedMetric(
        *("groupledger_step_timestamp_seconds", GAUGE, BY_STEP, INSTANT),
        "Time at which the step (history, incidents, maintenance) last ended.",
    ),
    ListedMetric(
        *("groupledger_step_seconds", GAUGE, BY_STEP, SECONDS),
        "Time that the step took when it last ran.",
    ),
    ListedMetric(
        *("groupledger_troubled_groups", GAUGE, BY_STEP, COUNT),
        "Groups that the step skips, because it failed on their data; the table troubles has the reason.",
    ),
    ListedMetric(
        *("groupledger_step_judged_nobody", GAUGE, BY_STEP, "1"),
        "1 while the step fails on every group.",
    ),
    # The JVM that Spark runs in.
    ListedMetric(
        *("jvm_memory_used_bytes", GAUGE, ("area",), "bytes"),
        "Memory that the JVM uses, by area: heap or nonheap.",
    ),
    ListedMetric(
        *("jvm_memory_max_bytes", GAUGE, ("area",), "bytes"),
        "Memory that the JVM may use; an area without a limit has no sample.",
    ),
    ListedMetric(
        *("jvm_gc_collection_seconds", SUMMARY, ("gc",), SECONDS),
        "Garbage collections of the JVM: their number and the time that they took.",
    ),
    ListedMetric(
        *("jvm_threads_current", GAUGE, (), COUNT),
        "Threads of the JVM.",
    ),
)
BY_NAME: Final = {each.name: each for each in METRICS}


def listed(name: str, samples: Iterable[tuple[Sequence[str], float | None]]) -> Metric:
    """Returns the gauge or counter `name` of the list, with `samples`."""
    metric = BY_NAME[name]
    return family(Counter if metric.type == COUNTER else Gauge, name, metric.help, metric.labels, samples)


def listed_histogram(
    name: str, bounds: Sequence[float], samples: Iterable[tuple[Sequence[str], Sequence[int], float]]
) -> Metric:
    """Returns the histogram `name` of the list, with `samples` as `families.histogram` takes them."""
    metric = BY_NAME[name]
    return histogram(name, metric.help, metric.labels, bounds, samples)


def listed_gauges(name: str, places: Places, numbers: Sequence[float | None]) -> ManyGauges:
    """Returns the gauge `name` of the list, with a number for each of `places`."""
    return ManyGauges(name, BY_NAME[name].help, places, numbers)
