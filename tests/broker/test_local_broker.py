"""The broker of the demo and the tests as a process: started, stopped, restarted, refused, and never left running.

Brokers of their own, one after another, each with few internal partitions.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from kafka.admin import KafkaAdminClient

from lab.kafka import local_broker
from lab.kafka.local_broker import CLASS_ARCHIVE, SHORT_LIVED_JVM, LocalBroker, LocalKafkaError, run_tool
from lab.kafka.topics import make_topics

if TYPE_CHECKING:
    from pathlib import Path

GONE_SECONDS_MAX = 30

ORPHAN = """
import os, pathlib, signal, sys
from lab.kafka.local_broker import LocalBroker
broker = LocalBroker(pathlib.Path(sys.argv[1]))
broker.start()
print(broker.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_restart_keeps_data_and_stop_leaves_nothing(tmp_path: Path) -> None:
    """Topic, cluster id and address survive a restart; after the end there is no process and nobody listens."""
    with LocalBroker(tmp_path) as broker:
        first_pid = broker.pid
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
            cluster_id = admin.describe_cluster()["cluster_id"]
        make_topics(broker.bootstrap_servers, {"kept": 1})
        broker.restart()
        second_pid = broker.pid
        assert first_pid is not None
        assert second_pid is not None
        assert first_pid != second_pid
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
            assert admin.describe_cluster()["cluster_id"] == cluster_id
            assert "kept" in admin.list_topics()
    assert broker.pid is None
    assert not is_alive(first_pid)
    assert not is_alive(second_pid)
    host, port = broker.bootstrap_servers.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


def test_started_twice_is_refused(broker: LocalBroker) -> None:
    """A second start of a running broker says so, and the broker runs on."""
    with pytest.raises(LocalKafkaError, match="already started"):
        broker.start()
    assert broker.pid is not None
    assert is_alive(broker.pid)


def test_impossible_property_is_one_sentence(tmp_path: Path) -> None:
    """The first line for a property that Kafka refuses has its name, its value and the reason."""
    broker = LocalBroker(tmp_path, properties={"num.network.threads": "many"})
    with pytest.raises(LocalKafkaError) as refused:
        broker.start()
    sentence = str(refused.value).splitlines()[0]
    assert sentence.endswith("Invalid value many for configuration num.network.threads: Not a number of type INT.")
    assert broker.pid is None


def test_taken_port_is_reported_with_the_log(tmp_path: Path) -> None:
    """A broker that ends while it starts: exit code, log file and cause in one sentence, no process."""
    broker = LocalBroker(tmp_path)
    host, port = broker.bootstrap_servers.split(":")
    with socket.create_server((host, int(port))), pytest.raises(LocalKafkaError) as refused:
        broker.start()
    sentence, *words = str(refused.value).splitlines()
    assert f"ended with exit code 1 (its log is {tmp_path / 'server.log'}): " in sentence
    assert sentence.endswith("Address already in use.")
    assert "ERROR" in words[0]
    assert broker.pid is None


def test_broker_ends_with_its_parent(tmp_path: Path) -> None:
    """A parent that is killed takes the broker with it."""
    parent = subprocess.run(
        [sys.executable, "-c", ORPHAN, str(tmp_path)], stdout=subprocess.PIPE, text=True, check=False
    )
    pid = int(parent.stdout)
    deadline = time.monotonic() + GONE_SECONDS_MAX
    while is_alive(pid):
        assert time.monotonic() < deadline, "the broker outlived its parent"
        time.sleep(0.1)


def test_request_log_holds_json(broker: LocalBroker) -> None:
    """With `log_requests` each request is a line of Kafka's own pattern around one JSON object."""
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        admin.list_topics()
    line = broker.request_log.read_text(encoding="utf-8").splitlines()[0]
    assert "] DEBUG Completed request:{" in line
    assert line.endswith("} (kafka.request.logger)")


def test_tool_failure_carries_the_tools_words(broker: LocalBroker) -> None:
    """A tool that fails is one sentence with its class and exit code, then what it said itself."""
    with pytest.raises(LocalKafkaError, match=r"GetOffsetShell ended with exit code 1[.:]") as refused:
        run_tool(
            "org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", broker.bootstrap_servers, "--unheard-of"
        )
    assert "unheard-of is not a recognized option" in str(refused.value)


def test_absent_jars_and_java_name_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing to run: the sentence says what to do."""
    with pytest.raises(LocalKafkaError, match="run `make setup`"):
        run_tool("kafka.Kafka", jars=tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(LocalKafkaError, match="install a Java 17 or 21 runtime, or point JAVA_HOME at one"):
        run_tool("kafka.Kafka")


@pytest.mark.skipif(not CLASS_ARCHIVE.is_file(), reason="`make setup` makes the archive")
def test_the_class_archive_is_used_if_it_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's classes come from the archive; one that does not fit is passed over, and nothing is said of it."""

    def loaded_from() -> str:
        options = (*SHORT_LIVED_JVM, "-Xlog:class+load")
        said = run_tool("kafka.tools.StorageTool", "random-uuid", jvm_options=options).splitlines()
        (line,) = (line for line in said if " org.apache.kafka.common.Uuid " in line)
        return line.partition("source: ")[2]

    assert loaded_from() == "shared objects file (top)"
    broken = tmp_path / "classes.jsa"
    broken.write_bytes(b"no archive")
    monkeypatch.setattr(local_broker, "CLASS_ARCHIVE", broken)
    assert loaded_from().endswith(".jar")
    (uuid,) = run_tool("kafka.tools.StorageTool", "random-uuid").split()
    assert uuid
