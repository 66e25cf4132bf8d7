"""Goal: OTLP pushes the metrics of the exposition, in OpenTelemetry's JSON; a receiver that refuses costs no round and
is reported once."""

from __future__ import annotations

import json
import math
import threading
from typing import Any

from prometheus_client.core import SummaryMetricFamily

from groupledger.jobs.monitor import otlp
from groupledger.jobs.monitor.exposition import Exposition
from groupledger.jobs.monitor.families import Counter, Gauge, ManyGauges, Places, family, histogram
from groupledger.jobs.monitor.otlp import OtlpPush, requests
from tests.jobs.notify.receiving import receiving

BEGAN_MS, AT_MS = 1_000, 61_000
EVIL = 'pay "\n} ignore'
COLLECTIONS = SummaryMetricFamily("gc_seconds", "Collections.", labels=["gc"])
COLLECTIONS.add_metric(["old"], count_value=3, sum_value=0.5)
COLLECTIONS.add_metric(["young"], count_value=40, sum_value=1.5)
METRICS = [
    family(Gauge, "lag", "The lag.", ["group"], [(["pay"], 7), ([EVIL], math.inf), (["unknown"], None)]),
    family(Counter, "rounds", "Rounds.", [], [([], 3)]),
    ManyGauges("offset", "Offsets.", Places(["group"], [("pay",), ("other",)]), [5, None]),
    histogram("batch_seconds", "Times.", ["phase"], [1.0, 5.0], [(["read"], [2, 3, 1], 12.5)]),
    COLLECTIONS,
]


def metrics_in(request: dict[str, Any]) -> dict[str, dict[str, Any]]:
    (of_resource,) = request["resourceMetrics"]
    assert of_resource["resource"]["attributes"][0] == {"key": "service.name", "value": {"stringValue": "groupledger"}}
    (of_scope,) = of_resource["scopeMetrics"]
    return {each["name"]: each for each in of_scope["metrics"]}


def test_each_kind_of_metric() -> None:
    """Goal: gauges, sums, histograms and summaries have the values of the exposition; an unknown value has no
    point."""
    (request,) = requests(METRICS, BEGAN_MS, AT_MS)
    found = metrics_in(request)
    first, second = found["lag"]["gauge"]["dataPoints"]
    assert first == {
        "attributes": [{"key": "group", "value": {"stringValue": "pay"}}],
        "startTimeUnixNano": "1000000000",
        "timeUnixNano": "61000000000",
        "asDouble": 7.0,
    }
    assert (second["attributes"][0]["value"]["stringValue"], second["asDouble"]) == (EVIL, "Infinity")
    assert found["rounds_total"]["sum"]["isMonotonic"] is True
    assert [each["asDouble"] for each in found["rounds_total"]["sum"]["dataPoints"]] == [3.0]
    assert [each["asDouble"] for each in found["offset"]["gauge"]["dataPoints"]] == [5.0]
    (times,) = found["batch_seconds"]["histogram"]["dataPoints"]
    assert (times["count"], times["sum"]) == ("6", 12.5)
    assert [(each["count"], each["sum"]) for each in found["gc_seconds"]["summary"]["dataPoints"]] == [
        ("3", 0.5),
        ("40", 1.5),
    ]
    assert (times["explicitBounds"], times["bucketCounts"]) == ([1.0, 5.0], ["2", "3", "1"])
    assert json.loads(json.dumps(request, allow_nan=False)) == request


def test_many_points() -> None:
    """Goal: a large round goes in several requests, and no point is lost or sent twice."""
    count = otlp.POINTS_AT_ONCE * 2 + 1
    many = family(Gauge, "lag", "The lag.", ["group"], (([str(number)], number) for number in range(count)))
    found = [metrics_in(each)["lag"]["gauge"]["dataPoints"] for each in requests([many], BEGAN_MS, AT_MS)]
    assert len(found) == 3
    assert [each["asDouble"] for some in found for each in some] == [float(number) for number in range(count)]


def test_pushing() -> None:
    """Goal: all clusters' last rounds arrive with the key; a refusal is reported once, and the next push goes on."""
    exposition, said = Exposition(), list[str]()
    exposition.publish("east", METRICS[:1])
    exposition.publish("west", METRICS[1:2])
    with receiving() as receiver:
        push = OtlpPush(receiver.url + "/", "Bearer x", exposition.families, said.append, BEGAN_MS)
        assert push.push(AT_MS)
        ((path, headers, body),) = receiver.came
        assert (path, headers["Authorization"]) == ("/v1/metrics", "Bearer x")
        assert set(metrics_in(body)) == {"lag", "rounds_total"}
        receiver.status = 503
        assert not push.push(AT_MS)
        assert not push.push(AT_MS)
        assert len(said) == 1
        assert "Bearer" not in said[0]
        receiver.status = 200
        assert push.push(AT_MS)
    assert "Bearer" not in repr(push)


def test_it_ends() -> None:
    """Goal: once the monitor stops, nothing more is sent."""
    stop = threading.Event()
    stop.set()
    OtlpPush("http://127.0.0.1:9", None, list, print).follow(stop, 60)
