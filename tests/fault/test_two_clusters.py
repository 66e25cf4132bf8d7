"""Goal: one process monitors two clusters, and the brokers of one that are away hold up nothing of the other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from lab.kafka.local_broker import LocalBroker
from tests.fault.monitor import MonitorProcess
from tests.fault.test_monitor import GROUP, OFFSET, commit
from tests.fault.topic import PARTITIONS, make_topic

if TYPE_CHECKING:
    from pathlib import Path


def test_a_broker_that_is_away(tmp_path: Path, broker: LocalBroker) -> None:
    """Goal: both clusters are shown under one address. While the broker of one is away, the commits of the other are
    shown and its rounds go on; a signal ends both in time, and each has its own rows."""
    with LocalBroker(tmp_path / "other", properties={"offsets.topic.num.partitions": str(PARTITIONS)}) as other:
        make_topic(other.bootstrap_servers)
        places = {"east": broker.bootstrap_servers, "west": other.bootstrap_servers}
        settings = {
            "monitor": {"history_interval_s": 5, "incidents_interval_s": 600},  # which nothing here is about
            "clusters": {name: {"bootstrap_servers": place} for name, place in places.items()},
        }
        (tmp_path / "settings.yaml").write_text(json.dumps(settings))
        arguments = ("--interval", "2s", "--conf", str(tmp_path / "settings.yaml"))
        warehouse = tmp_path / "warehouse"
        with MonitorProcess(warehouse, None, tmp_path / "monitor.log", *arguments) as monitor:
            for name in places:
                monitor.wait_until_shown(1, OFFSET, group=GROUP, topic="orders", cluster_name=name)
            other.stop()
            away = {"cluster_name": "west"}
            monitor.wait_until(lambda: (monitor.value("groupledger_rounds_failed_total", **away) or 0) > 0, "a failure")
            commit(broker.bootstrap_servers, 5)
            monitor.wait_until_shown(5, OFFSET, group=GROUP, topic="orders", cluster_name="east")
            monitor.wait_until(lambda: "west: " in monitor.trouble("/readyz"), "what is wrong")
            assert "east: " not in monitor.trouble("/readyz")
            before = monitor.value("groupledger_rounds_total", cluster_name="east") or 0
            monitor.wait_until(
                lambda: (monitor.value("groupledger_rounds_total", cluster_name="east") or 0) > before + 3, "rounds"
            )
            other.start()
            commit(other.bootstrap_servers, 7)
            monitor.wait_until_shown(7, OFFSET, group=GROUP, topic="orders", cluster_name="west")
            monitor.wait_until(lambda: monitor.fetch("/readyz") == "ok\n", "a healthy monitor")
            assert monitor.stop() == 143, monitor.words
            assert "Traceback" not in monitor.words
        for table in ("coordinator_records", "lag", "groups"):
            rows = DeltaTable(str(warehouse / table)).to_pyarrow_table(columns=["cluster"])
            assert set(rows["cluster"].to_pylist()) == set(places)
