"""Goal: the metrics of a round, as a real parser of Prometheus' text format reads them; and the alert rules, replayed.

The rules of `conf/prometheus` are evaluated here by a reader of the few forms of PromQL that they use, on rounds played
through the lag rules: `metric{matchers}`, `max by (...) (...)`, `increase(metric[10m])` (last less first: without
Prometheus' extrapolation to the ends of the window), `time() - metric` and `absent(metric)`, compared with a number or
with one that grows with a metric of the same labels, `unless` another metric is there, and `for`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from groupledger.jobs.ingest.stream import Totals
from groupledger.jobs.monitor.activity import Activity
from groupledger.jobs.monitor.activity_metrics import GroupActivity, activity_metrics
from groupledger.jobs.monitor.group_info import GroupInfo
from groupledger.jobs.monitor.lag_metrics import Summed, lag_metrics
from groupledger.jobs.monitor.objectives import LiveObjectives, objective_metrics
from groupledger.jobs.monitor.own_metrics import (
    MonitorReport,
    incident_metrics,
    ingest_metrics,
    monitor_metrics,
    source_metrics,
    step_metrics,
)
from groupledger.jobs.monitor.upkeep import LastRun
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.incidents.rules import incidents
from groupledger.transforms.lag.rules import Commit, End, GroupFacts, LagRow, LagState, Owner, Round, Watermark, rollup
from lab.truth import made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client import Metric

    from groupledger.jobs.process.settings import MetricsSettings

LIMITS = load_settings().metrics
START_MS = 1_760_000_000_000
EVIL = 'evil "group"\\\n# TYPE x counter\r\x1b[2J\u202e 😀'
Sample = tuple[str, tuple[tuple[str, str], ...]]


class Collected:
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


def parsed(metrics: Iterable[Metric]) -> dict[Sample, float]:
    """Through the text format, as it is scraped."""
    registry = CollectorRegistry()
    registry.register(Collected(metrics))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def reported(samples: Mapping[Sample, float], name: str) -> dict[tuple[str, ...], float]:
    """By the labels' values, in the order of their names, but for the cluster."""
    found = {}
    for (metric, labels), value in samples.items():
        if metric == f"kafka_consumergroup_group_{name}":
            found[tuple(text for label, text in labels if label != "cluster_name")] = value
    return found


def round_of(groups: Mapping[str, int | None]) -> list[LagRow]:
    """A round in which each group has a lag on one partition; None is no commit."""
    state = LagState()
    owner = Owner(owned=True, member_id="member-1", client_id="client", client_host="/10.0.0.1")
    for number, (group_id, lag) in enumerate(groups.items()):
        if lag is not None:
            state.commit(group_id, "orders", 0, Commit(1_000 - lag, START_MS - 3_000, 0, number))
    facts = {
        group_id: GroupFacts("Stable", {TopicPartition("orders", 0): owner}, is_ownership_known=True)
        for group_id in groups
    }
    watermark = Watermark(START_MS, 10, 1_000, 1_000)
    return list(state.round(Round(START_MS, {0: End(len(groups))}, {TopicPartition("orders", 0): watermark}), facts))


def metrics_of(rows: list[LagRow], limits: MetricsSettings = LIMITS, **infos: GroupInfo) -> dict[Sample, float]:
    return parsed(lag_metrics("test", Summed(rows, rollup(rows)), infos, limits, round_ms=250))


def test_names_and_labels() -> None:
    """Goal: the established names and labels, with the numbers of the rows; nothing where nothing is known."""
    info = GroupInfo(rebalances=3, generation=7, member_count=2, idle_since_ms=START_MS - 9_000)
    samples = metrics_of(round_of({"a": 5, "none": None}), a=info)
    assert reported(samples, "lag") == {("", "a", "", "0", "orders"): 5}
    assert reported(samples, "offset") == {("", "a", "", "0", "orders"): 995}
    assert reported(samples, "lag_seconds") == {}  # outside of the window
    expected = {"sum_lag": 5, "max_lag": 5, "rebalances_total": 3, "generation": 7, "members": 2}
    expected |= {"idle_seconds": 9, "last_commit_age_seconds": 3}
    for name, value in expected.items():
        assert reported(samples, name) == {("a",): value}, name
    assert reported(samples, "topic_sum_lag") == {("a", "orders"): 5}
    assert reported(samples, "commit_age_seconds") == {("", "a", "", "0", "orders"): 3}
    assert reported(samples, "partitions_without_lag") == {("a",): 0, ("none",): 1}
    assert reported(samples, "topic_partitions_without_lag") == {("a", "orders"): 0, ("none", "orders"): 1}
    assert reported(samples, "state") == {("a",): 3, ("none",): 3}
    assert reported(samples, "status") == {("a", "ok"): 1, ("none", "no_commit"): 1}
    ends = {name: value for (name, _), value in samples.items() if name.startswith("kafka_partition")}
    assert ends == {"kafka_partition_latest_offset": 1_000, "kafka_partition_earliest_offset": 10}
    assert samples["kafka_consumergroup_poll_time_ms", (("cluster_name", "test"),)] == 250


def test_what_scalers_act_on() -> None:
    """Goal: lag at a record that nobody can process is in the sum, and not in what another member could work off;
    a topic that nobody subscribes to is in neither; a group without a known lag has no number."""
    (row, unknown) = sorted(round_of({"a": 5, "none": None}), key=lambda each: each.group_id)
    rows = [
        replace(row, partition=partition, status=status, flags=flags, lag=lag)
        for partition, status, flags, lag in (
            *((0, "ok", (), 5), (1, "stalled", (), 70), (2, "ok", (), 0)),
            (3, "unsubscribed", ("unsubscribed",), 900),
        )
    ]
    samples = metrics_of([*rows, unknown])
    assert reported(samples, "sum_lag") == {("a",): 75}
    assert reported(samples, "sum_lag_without_stuck") == {("a",): 5}
    assert reported(samples, "partitions_with_lag") == {("a",): 2}


def test_hostile_names_stay_one_label() -> None:
    """Goal: a group's name, whatever the client chose, is the value of one label, and no line, metric or label of its
    own."""
    samples = metrics_of(round_of({EVIL: 5}))
    assert reported(samples, "sum_lag") == {(EVIL,): 5}
    assert {name for name, _ in samples} == {name for name, _ in metrics_of(round_of({"plain": 5}))}


def test_member_ids_are_never_labels() -> None:
    """Goal: clients only if asked for, members never."""
    with_clients = LIMITS.model_copy(update={"member_labels": "client"})
    rows = round_of({"a": 5})
    assert reported(metrics_of(rows, with_clients), "lag") == {("client", "a", "/10.0.0.1", "0", "orders"): 5}
    for limits in (LIMITS, with_clients):
        assert "member-1" not in str(list(metrics_of(rows, limits)))


@pytest.mark.parametrize(
    ("limits", "groups", "partitions", "left_out"),
    [
        ({}, {"a", "b", "c"}, 3, 0),
        ({"groups_max": 2}, {"b", "c"}, 2, 0),
        ({"series_max": 10}, {"a", "b", "c"}, 2, 5),
        ({"group_pattern": "a|b"}, {"a", "b"}, 2, 0),
        ({"topic_pattern": "other"}, {"a", "b", "c"}, 0, 0),
        ({"per_partition": False}, {"a", "b", "c"}, 0, 0),
    ],
)
def test_series_are_bounded(limits: dict[str, Any], groups: set[str], partitions: int, left_out: int) -> None:
    """Goal: the limits of the settings hold: series with the least lag are left out first, and counted."""
    samples = metrics_of(round_of({"a": 1, "b": 2, "c": 3}), LIMITS.model_copy(update=limits))
    assert {group for (group,) in reported(samples, "sum_lag")} == groups
    assert len(reported(samples, "lag")) == partitions
    assert samples["groupledger_series_left_out", (("cluster_name", "test"),)] == left_out


# Alert rules

ROUND_S = 30
Series = list[tuple[float, dict[Sample, float]]]
FORM = re.compile(
    r"(?:(?P<max>max by \((?P<by>[^)]*)\) \()?|(?P<increase>increase\()|(?P<time>time\(\) - ))"
    r"(?P<metric>\w+)(?:\{(?P<matchers>[^}]*)\})?(?:\[(?P<minutes>\d+)m\]\))?\)? (?P<operator>==|>=|>|<) "
    r"(?:(?P<times>\d+) \* (?P<factor>\w+) \+ )?(?P<number>\d+)(?: unless on \(cluster_name, group\) (?P<unless>\w+))?"
)
GONE = re.compile(
    r"max by \((?P<by>\w+)\) \(last_over_time\((?P<metric>\w+)\[1d\]\)\)"
    r" unless max by \((?P=by)\) \((?P=metric)\) or absent_over_time\((?P=metric)\[1d\]\)"
)
DAY_S = 86_400
OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "==": lambda left, right: left == right,
    ">=": lambda left, right: left >= right,
    ">": lambda left, right: left > right,
    "<": lambda left, right: left < right,
}


def rules() -> list[dict[str, Any]]:
    text = resources.files("groupledger.conf").joinpath("prometheus/groupledger.rules.yaml").read_text()
    (group,) = yaml.safe_load(text)["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def fired(series: Series) -> dict[str, float]:
    """Alerts that fired, with the seconds after the first round."""
    found = {}
    for rule in rules():
        wait_s = int(rule.get("for", "0m").removesuffix("m")) * 60
        since: dict[tuple[str, ...], float] = {}
        for number, (now_s, _) in enumerate(series):
            active = holding(rule["expr"], series, number)
            since = {key: since.get(key, now_s) for key in active}
            if any(now_s - begin_s >= wait_s for begin_s in since.values()):
                found[rule["alert"]] = now_s - series[0][0]
                break
    return found


def holding(expression: str, series: Series, number: int) -> set[tuple[str, ...]]:
    """The label sets for which it holds in a round."""
    gone = GONE.fullmatch(expression)
    if gone is not None:
        return are_gone(gone["metric"], gone["by"], series, number)
    form = FORM.fullmatch(expression)
    assert form is not None, f"the replay does not read {expression}"
    now_s, samples = series[number]
    names = [name.strip() for name in (form["by"] or "").split(",")]
    found = set()
    for sample, value in samples.items():
        name, labels = sample
        if name != form["metric"] or not all(matches(matcher, dict(labels)) for matcher in matchers(form["matchers"])):
            continue
        compared = value
        if form["increase"]:
            begin_s = now_s - int(form["minutes"]) * 60
            window = [each[sample] for at_s, each in series[: number + 1] if at_s >= begin_s and sample in each]
            compared = value - window[0]
        elif form["time"]:
            compared = now_s - value
        limit = float(form["number"])
        if form["factor"]:
            limit += float(form["times"]) * samples[form["factor"], labels]
        is_excepted = form["unless"] and (form["unless"], labels) in samples
        if OPERATORS[form["operator"]](compared, limit) and not is_excepted:
            found.add(tuple(text for label, text in labels if not form["max"] or label in names))
    return found


def are_gone(metric: str, by: str, series: Series, number: int) -> set[tuple[str, ...]]:
    """Those that were there within a day and are no longer, or nobody, if nobody was."""

    def there(samples: Iterable[Sample]) -> set[tuple[str, ...]]:
        return {(dict(labels)[by],) for name, labels in samples if name == metric}

    begin_s = series[number][0] - DAY_S
    known = set().union(*(there(samples) for at_s, samples in series[: number + 1] if at_s > begin_s))
    return known - there(series[number][1]) if known else {()}


def matchers(text: str | None) -> list[tuple[str, str, str]]:
    return re.findall(r'(\w+)(=~|=)"([^"]*)"', text or "")


def matches(matcher: tuple[str, str, str], labels: Mapping[str, str]) -> bool:
    name, operator, value = matcher
    return bool(re.fullmatch(value if operator == "=~" else re.escape(value), labels.get(name, "")))


def played(
    minutes: int,
    position: Callable[[float], tuple[int, int]],
    *,
    info: Callable[[float], GroupInfo] = lambda _: GroupInfo(),
    state: Callable[[float], str] = lambda _: "Stable",
    commits_until: float = 1e9,
    report: Callable[[float], MonitorReport] | None = None,
) -> Series:
    """A group on one partition: `position` gives committed offset and end after so many seconds."""
    lag, series, count = LagState(), [], 0
    for elapsed_s in range(0, minutes * 60, ROUND_S):
        now_ms = START_MS + elapsed_s * 1_000
        committed, end = position(elapsed_s)
        if elapsed_s < commits_until:
            lag.commit("g", "t", 0, Commit(committed, now_ms - 1_000, 0, count))
            count += 1
        read = Round(now_ms, {0: End(count)}, {TopicPartition("t", 0): Watermark(now_ms, 0, end, end)})
        rows = list(lag.round(read, {"g": GroupFacts(state(elapsed_s), {TopicPartition("t", 0): Owner(owned=True)})}))
        report_now = MonitorReport(now_ms, interval_s=ROUND_S) if report is None else report(elapsed_s)
        own = monitor_metrics("test", report_now)
        metrics = [*own, *lag_metrics("test", Summed(rows, rollup(rows)), {"g": info(elapsed_s)}, LIMITS)]
        series.append((now_ms / 1_000, parsed(metrics)))
    return series


def healthy(elapsed_s: float) -> tuple[int, int]:
    return round(elapsed_s * 10), round(elapsed_s * 10) + 50


def test_no_alert_when_all_is_well() -> None:
    """Goal: silence with steady lag, with a short burst, with three rebalances, and after a fresh start."""
    burst = played(30, lambda s: (round(s * 10), round(s * 10) + (5_000 if 600 < s < 700 else 50)))
    assert fired(burst) == {}
    assert fired(played(20, healthy, info=lambda s: GroupInfo(rebalances=40 + min(int(s) // 120, 3)))) == {}


def test_growing_lag_fires() -> None:
    """Goal: ten minutes after the status is raised, for which half a window is needed."""
    alerts = fired(played(25, lambda s: (round(s * 10), round(s * 15))))
    assert list(alerts) == ["ConsumerGroupLagGrowing"]
    assert 900 <= alerts["ConsumerGroupLagGrowing"] <= 960


@pytest.mark.parametrize("commits_until", [300, 1e9])
def test_stopped_consumer_fires(commits_until: float) -> None:
    """Goal: no progress, with or without commits: after two minutes of standstill and two of waiting."""
    alerts = fired(played(12, lambda s: (min(round(s * 10), 3_000), round(s * 10)), commits_until=commits_until))
    assert list(alerts) == ["ConsumerGroupStopped"]
    assert 530 <= alerts["ConsumerGroupStopped"] <= 600


def test_rebalance_in_progress_is_not_stopped() -> None:
    """Goal: a group that stands still because it rebalances alarms nobody for standing still."""
    series = played(12, lambda s: (min(round(s * 10), 3_000), round(s * 10)), state=lambda _: "PreparingRebalance")
    assert "ConsumerGroupStopped" not in fired(series)


def with_metrics(series: Series, metrics: Callable[[float], Iterable[Metric]]) -> Series:
    """Returns the rounds with further metrics; `metrics` gives these after so many seconds."""
    begin_s = series[0][0]
    return [(now_s, {**samples, **parsed(metrics(now_s - begin_s))}) for now_s, samples in series]


def test_incidents_fire() -> None:
    """Goal: a storm and a refused commit fire at once while they are open; a warning of another kind, and rebalances
    that are no storm, fire nothing."""
    restarted = played(20, healthy, info=lambda s: GroupInfo(rebalances=40 + int(s) // 30))
    assert fired(restarted) == {}

    def with_incident(kind: str, severity: str) -> Series:
        def metrics(elapsed_s: float) -> Iterator[Metric]:
            return incident_metrics("test", {("g", kind, severity): 1} if elapsed_s > 300 else {}, {})

        return with_metrics(restarted, metrics)

    assert fired(with_incident("rebalance_storm", "warning")) == {"ConsumerGroupRebalanceStorm": 330}
    assert fired(with_incident("illegal_generation", "error")) == {"ConsumerGroupIncident": 330}
    assert fired(with_incident("commit_gap", "warning")) == {}


@pytest.mark.parametrize(
    ("late_minutes", "alerts"),
    [
        (range(0), {}),
        (range(60, 68), {}),  # 13.3 times the number that an hour allows
        (range(60, 75), {"ConsumerGroupObjectiveBurns": 69 * 60}),
    ],
)
def test_an_objective_that_burns_fires(late_minutes: range, alerts: dict[str, float]) -> None:
    """Goal: an outage fires when nine minutes of an hour were late; a shorter one, and a clean time, fire nothing."""
    objective = {"groups": "g", "lag_s": 60, "target_percent": 99}
    live = LiveObjectives(load_settings(objectives={"on-time": objective}))

    def metrics(elapsed_s: float) -> Iterator[Metric]:
        now_ms = START_MS // 60_000 * 60_000 + round(elapsed_s * 1_000)
        seconds = 90.0 if elapsed_s // 60 in late_minutes else 1.0
        (row,) = round_of({"g": 5})
        live.observe(now_ms, [replace(row, lag_seconds=seconds, lag_seconds_lower_bound=None)])
        return objective_metrics("test", [*live.standings()])

    assert fired(with_metrics(played(90, healthy), metrics)) == alerts


def test_a_receiver_that_is_not_reported_fires() -> None:
    """Goal: messages that are not taken, again and again; those that are sent fire nothing."""

    def with_messages(outcome: str) -> Series:
        def metrics(elapsed_s: float) -> Iterator[Metric]:
            return incident_metrics("test", {}, {("chat", outcome): int(elapsed_s) // 60})

        return with_metrics(played(12, healthy), metrics)

    assert fired(with_messages("failed")).keys() == {"GroupledgerTellsNobody"}
    assert fired(with_messages("sent")) == {}


def test_groups_that_cant_be_judged_fire() -> None:
    """Goal: one group that a step leaves out, for ten minutes; a step that can judge nobody, after one."""

    def troubled(until_s: float, nobody: tuple[str, ...] = ()) -> Series:
        def metrics(elapsed_s: float) -> Iterable[Metric]:
            return step_metrics("test", {}, {"lag": 1}, nobody) if 60 <= elapsed_s < until_s else ()

        return with_metrics(played(15, healthy), metrics)

    assert fired(troubled(600)) == {}
    assert fired(troubled(1e9)) == {"GroupledgerGroupsNotJudged": 660}
    assert fired(troubled(600, ("lag",))) == {"GroupledgerJudgesNobody": 120}


def test_a_monitor_that_is_gone_fires() -> None:
    """Goal: when nothing is served any more, one alert is left, and it fires after five minutes."""
    series = played(12, healthy)
    gone = [(now_s, samples if now_s - series[0][0] < 120 else {}) for now_s, samples in series]
    assert fired(gone) == {"GroupledgerGone": 420}
    assert fired([(now_s, {}) for now_s, _ in series]) == {"GroupledgerGone": 300}


def test_one_of_two_monitors_that_is_gone_fires() -> None:
    """Goal: a cluster whose monitor is gone is not hidden by another's; one that is replaced in time fires nothing."""
    series = played(12, healthy)

    def beside(gone_s: float, back_s: float) -> Series:
        def metrics(elapsed_s: float) -> Iterable[Metric]:
            reported = MonitorReport(START_MS + round(elapsed_s * 1_000), interval_s=ROUND_S)
            return () if gone_s <= elapsed_s < back_s else monitor_metrics("other", reported)

        return with_metrics(series, metrics)

    assert fired(beside(120, 1e9)) == {"GroupledgerGone": 420}
    assert fired(beside(120, 360)) == {}


@pytest.mark.parametrize(("for_each", "alerts"), [(2, set()), (4, {"ConsumerGroupRebalanceStorm"})])
def test_a_restart_of_twelve_members(for_each: int, alerts: set[str]) -> None:
    """Goal: a rolling restart of twelve members, who each leave and join again, is no storm, by the rule of the tables
    and so by the alert; a group whose members each do so twice in the same ten minutes does not come to rest."""
    count = 12 * for_each
    rows = [made.rebalance(2 + number, number * 590 // count, member_count=12) for number in range(count)]
    found = incidents(made.facts(rebalances=rows, as_of_ms=made.T + 600_000), made.RULES)
    reported = Counter((row["group_id"], row["kind"], row["severity"]) for row in found if row["is_open"])
    series = played(20, healthy, info=lambda s: GroupInfo(rebalances=min(int(s) * count // 590, count)))
    shown = with_metrics(series, lambda elapsed_s: incident_metrics("test", reported if elapsed_s > 600 else {}, {}))
    assert fired(shown).keys() == alerts


def test_offsets_about_to_expire_fires() -> None:
    """Goal: a group whose first offset expires within two days; while nobody knows when, one that has had no members
    for five."""
    days = 86_400_000
    old = GroupInfo(idle_since_ms=START_MS - 5 * days - 1_000)
    idle = played(5, healthy, info=lambda _: old)
    assert list(fired(idle)) == ["ConsumerGroupLongWithoutMembers"]
    young = replace(old, idle_since_ms=START_MS - 4 * days)
    assert fired(played(5, healthy, info=lambda _: young)) == {}

    def expiring_in(seconds: float) -> Series:
        reported = GroupActivity(Activity(START_MS), offsets_expire_s={"g": seconds})
        return with_metrics(idle, lambda _: activity_metrics("test", {"g": old}, reported))

    assert list(fired(expiring_in(2 * 86_400 - 1))) == ["ConsumerGroupOffsetsExpire"]
    assert fired(expiring_in(2 * 86_400 + 1)) == {}


def test_reader_stalled_and_rounds_missing_fire() -> None:
    """Goal: an open transaction in the offsets topic, and a monitor whose rounds have ended."""
    stalled = fired(
        played(
            8,
            healthy,
            report=lambda s: MonitorReport(
                START_MS + int(s) * 1_000, stalled_ms={7: int(s) * 1_000}, interval_s=ROUND_S
            ),
        )
    )
    assert stalled == {"GroupledgerReaderStalled": 330}

    behind = with_metrics(
        played(40, healthy), lambda _: step_metrics("test", {"history": LastRun(START_MS / 1_000, 9)})
    )
    assert fired(behind) == {"GroupledgerHistoryBehind": 1_830}

    def ended(interval_s: int) -> Series:
        return played(8, healthy, report=lambda _: MonitorReport(START_MS, interval_s=interval_s))

    assert fired(ended(5)) == {"GroupledgerRoundsMissing": 90}
    assert fired(ended(60)) == {"GroupledgerRoundsMissing": 330}


def test_batches_of_the_streaming_query() -> None:
    """Goal: the metrics have the batches and records that the query has read, and the seconds of each phase of its last
    micro-batch; before the first one there are no seconds."""
    totals = Totals(batches=2, rows=7, quarantined=1, phases_ms={"addBatch": 400, "triggerExecution": 1_500})
    assert {
        (sample.name, sample.labels.get("phase")): sample.value
        for metric in ingest_metrics("test", totals)
        for sample in metric.samples
    } == {
        ("groupledger_ingest_batches_total", None): 2,
        ("groupledger_ingest_records_total", None): 7,
        ("groupledger_ingest_undecoded_records_total", None): 1,
        ("groupledger_ingest_batch_seconds", "addBatch"): 0.4,
        ("groupledger_ingest_batch_seconds", "triggerExecution"): 1.5,
    }
    *_, seconds = ingest_metrics("test", Totals())
    assert not seconds.samples


def test_until_when_sources_are_known() -> None:
    """Goal: a source that was not read has no sample, so that nobody takes it for known."""
    for sampled_at_ms, names in ((None, ["history", "topic"]), (9_000, ["history", "samples", "topic"])):
        (metric,) = source_metrics("test", {"topic": 5_000, "history": 4_500}, sampled_at_ms)
        assert [sample.labels["source"] for sample in metric.samples] == names
        assert {sample.value for sample in metric.samples} == {4.5, 5.0, *([9.0] if sampled_at_ms else [])}
