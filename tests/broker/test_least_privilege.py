"""Goal: the rights in docs/rights.md are enough, and none of them is too many: a broker that denies all else."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
)

from groupledger.jobs.cli.main import main
from groupledger.jobs.kafka.brokers import connect
from groupledger.jobs.kafka.markers import trailing_markers
from groupledger.jobs.kafka.offsets_topic import describe_offsets_topic
from groupledger.jobs.kafka.sampling import sample_groups, sample_watermarks
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.kafka.topic_partition import TopicPartition as Place
from groupledger.transforms.lag.rules.resting import Resting
from lab.kafka.local_broker import LocalBroker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

ADMIN, LEDGER = "admin", "ledger"
PASSWORD = 'a "quoted" \\ secret'  # noqa: S105 - of a broker that lives as long as the test
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
TOPIC = ResourcePattern(ResourceType.TOPIC, OFFSETS_TOPIC)
# Spark's driver and executors name a group, though they join none, and a consumer with a name asks for its offsets.
SPARK_GROUPS = ResourcePattern(ResourceType.GROUP, "spark-kafka-", ACLResourcePatternType.PREFIXED)
ALL_TOPICS = ResourcePattern(ResourceType.TOPIC, "*")
ALL_GROUPS = ResourcePattern(ResourceType.GROUP, "*")
AWAY = (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR)
COORDINATOR_S_MAX = 60
READ, DESCRIBE = ACLOperation.READ, ACLOperation.DESCRIBE


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


PROPERTIES = {
    # The listener keeps its name and asks for a password; the controller's is for the broker itself.
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f"{MODULE} username={ADMIN} password={quoted(PASSWORD)}"
        f" user_{ADMIN}={quoted(PASSWORD)} user_{LEDGER}={quoted(PASSWORD)};"
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # ANONYMOUS is the broker on the controller's listener; everybody else has only the rights that a rule grants.
    "super.users": f"User:{ADMIN};User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "false",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    with LocalBroker(tmp_path_factory.mktemp("guarded"), properties=PROPERTIES) as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(guarded: LocalBroker) -> Iterator[Any]:
    """Makes the offsets topic, by a group's first question."""
    client = KafkaAdminClient(
        bootstrap_servers=guarded.bootstrap_servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username=ADMIN,
        sasl_plain_password=PASSWORD,
    )
    commit(guarded.bootstrap_servers)
    yield client
    client.close()


def commit(bootstrap_servers: str) -> None:
    """One record, and one commit of a group without members."""
    login: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": ADMIN,
        "sasl.password": PASSWORD,
    }
    admin = AdminClient(login)  # a client without a name would be gone before the answer comes
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)
    producer = Producer(login)
    producer.produce("orders", b"x")
    producer.flush(30)
    consumer = Consumer({**login, "group.id": "readers", "enable.auto.commit": False})
    deadline = time.monotonic() + COORDINATOR_S_MAX
    while not has_committed(consumer):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    consumer.close()


def has_committed(consumer: Consumer) -> bool:
    """False while the topic of the group's coordinator is being made."""
    try:
        consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() not in AWAY:
            raise
        return False
    return True


@contextmanager
def granted(admin: Any, *rights: tuple[ACLOperation, ResourcePattern]) -> Iterator[None]:
    """These are all that the ledger has, for a while."""
    who = f"User:{LEDGER}"
    admin.create_acls([ACL(who, "*", operation, ACLPermissionType.ALLOW, place) for operation, place in rights])
    try:
        yield
    finally:
        admin.delete_acls(
            [ACLFilter(who, "*", operation, ACLPermissionType.ALLOW, place) for operation, place in rights]
        )


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEDGER_PASSWORD", PASSWORD)
    path = tmp_path / "ledger.yaml"
    path.write_text(
        "kafka: {security_protocol: SASL_PLAINTEXT, sasl_mechanism: PLAIN, sasl_username: ledger,"
        " sasl_password: {env: LEDGER_PASSWORD}, request_timeout_ms: 10000}"
    )
    return path


def ingest(broker: LocalBroker, conf: Path, warehouse: Path) -> Result:
    arguments = ["--bootstrap-servers", broker.bootstrap_servers, "--warehouse", str(warehouse), "--conf", str(conf)]
    return CliRunner().invoke(main, ["ingest", *arguments])


def diagnosis(broker: LocalBroker, conf: Path) -> dict[str, str]:
    arguments = ["doctor", "--bootstrap-servers", broker.bootstrap_servers, "--conf", str(conf), "--json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    return {check["about"]: check["state"] for check in map(json.loads, result.stdout.splitlines())}


@pytest.mark.usefixtures("spark")
def test_read_is_enough(guarded: LocalBroker, admin: Any, conf: Path, tmp_path: Path) -> None:
    """Goal: Read on the offsets topic (which implies Describe) and Describe on Spark's own groups read the log."""
    with granted(admin, (READ, TOPIC), (DESCRIBE, SPARK_GROUPS)):
        result = ingest(guarded, conf, tmp_path / "w")
        assert result.exit_code == 0, result.stderr
        assert "records read, 0 of them kept undecoded" in result.stderr
        states = diagnosis(guarded, conf)
    assert (states["brokers"], states["Read"], states["offset retention"]) == ("good", "good", "unknown")
    assert (states["topics"], states["groups"]) == ("unknown", "unknown")
    assert PASSWORD not in result.output


def test_describe_is_enough_for_lag(guarded: LocalBroker, admin: Any, conf: Path) -> None:
    """Goal: Describe on topics and groups gives ends and states; Read on the topics shows markers as well. Without
    these rights there is no row, and no error but that of a topic that is asked for by its name."""
    settings = load_settings(conf)
    at = {Place("orders", 0): Resting(0, 1)}
    with connect(guarded.bootstrap_servers, settings) as brokers:
        assert sample_watermarks(brokers, settings.sampling, None) == ((), {})
        assert sample_groups(brokers, settings.sampling) == ((), {})
        _, unseen = sample_watermarks(brokers, settings.sampling, {"orders"})
        assert unseen == {"orders": "TOPIC_AUTHORIZATION_FAILED"}
        with granted(admin, (DESCRIBE, ALL_TOPICS), (DESCRIBE, ALL_GROUPS)):
            rows, unseen = sample_watermarks(brokers, settings.sampling, None)
            assert [(row.topic, row.offsets) for row in rows] == [("orders", (0, 1, 1))]
            groups, silent = sample_groups(brokers, settings.sampling)
            assert [(row.group_id, row.state, row.error) for row in groups] == [("readers", "Empty", None)]
            assert (unseen, silent) == ({}, {})
            states = diagnosis(guarded, conf)
            assert (states["topics"], states["groups"]) == ("good", "good")
            assert trailing_markers(brokers, settings.sampling, at) == {Place("orders", 0): None}
        with granted(admin, (READ, ALL_TOPICS)):
            assert trailing_markers(brokers, settings.sampling, at)[Place("orders", 0)] == 0


def test_describe_alone(guarded: LocalBroker, admin: Any, conf: Path) -> None:
    """Goal: without Read the doctor names the right that is missing."""
    with granted(admin, (DESCRIBE, TOPIC)):
        states = diagnosis(guarded, conf)
    assert (states["brokers"], states["Read"]) == ("good", "bad")


def test_nothing(guarded: LocalBroker, admin: Any, conf: Path) -> None:
    """Goal: without any right the first question is refused with a sentence that names the missing right."""
    with pytest.raises(OutsideError, match="the principal needs Describe and Read on it"):
        describe_offsets_topic(guarded.bootstrap_servers, load_settings(conf).kafka)
    assert diagnosis(guarded, conf)["brokers"] == "bad"
