"""Goal: the shipped settings are complete, the user's win key by key, and a wrong setting is named without its
value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.kafka.login import kafka_python_security, spark_security
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.settings import load_settings, rules_from
from groupledger.transforms.incidents.rules import Rules
from groupledger.transforms.lag.rules import BurrowRules, LagRules, StatusRules

if TYPE_CHECKING:
    from pathlib import Path

SASL = """
kafka:
  security_protocol: SASL_SSL
  sasl_mechanism: SCRAM-SHA-512
  sasl_username: 'led"ger\\'
  sasl_password: {env: LEDGER_PASSWORD}
  ssl_ca_file: /etc/ca.pem
  ssl_keystore_file: /etc/client.pem
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    return path


def test_the_shipped_settings() -> None:
    """Goal: conf/groupledger.yaml holds every key, and needs nothing to reach a plain broker."""
    settings = load_settings()
    assert settings.cluster == "default"
    assert spark_security(settings.kafka) == {"kafka.security.protocol": "PLAINTEXT"}


def test_the_user_wins_key_by_key(tmp_path: Path) -> None:
    """Goal: a file with one key changes that key alone, and the command line changes the file."""
    path = write(tmp_path, "cluster: east\ningest: {read_tasks: 8}")
    settings = load_settings(path)
    assert (settings.cluster, settings.ingest.read_tasks) == ("east", 8)
    assert settings.ingest.max_poll_records == load_settings().ingest.max_poll_records
    assert load_settings(path, cluster="west").cluster == "west"


def test_several_clusters(tmp_path: Path) -> None:
    """Goal: a cluster has the common settings, and its own ones, key by key; nothing of the others."""
    path = write(
        tmp_path,
        "lag: {window_s: 90}\nclusters:\n  east: {bootstrap_servers: e:1}\n"
        "  west: {bootstrap_servers: w:1, lag: {standstill_s: 7}, logs: {server_logs: [/w]}}",
    )
    east, west, other = (load_settings(path, cluster=name) for name in ("east", "west", "other"))
    assert {name: each.bootstrap_servers for name, each in east.clusters.items()} == {"east": "e:1", "west": "w:1"}
    assert (west.lag.window_s, west.lag.standstill_s, len(west.logs.server_logs)) == (90, 7, 1)
    assert east.lag == other.lag == load_settings(path).lag
    assert east.logs.server_logs == []


def test_rules_are_filled_by_name(tmp_path: Path) -> None:
    """Goal: every rule has its setting, in milliseconds where that is in seconds; the shipped ones are the defaults."""
    settings = load_settings()
    assert rules_from(LagRules, settings.lag) == LagRules()
    assert rules_from(Rules, settings.incidents, settings.history, settings.offsets) == Rules()
    changed = load_settings(write(tmp_path, "lag: {window_s: 90, burrow_intervals: 7, burrow_min_distance_s: 2}")).lag
    rules = rules_from(LagRules, changed)
    assert rules.status == StatusRules(window_ms=90_000)
    assert rules.burrow == BurrowRules(intervals=7, min_distance_ms=2_000)


def bomb(first: str, again: str) -> str:
    """Returns a list whose values each repeat the one before several times."""
    return "clusters:\n- " + first + "".join(f"\n- &a{i + 1} " + again.replace("{0}", str(i)) for i in range(40))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ingest: {read_task: 8}", "ingest.read_task: Extra inputs"),
        ("ingest: {read_tasks: none}", "ingest.read_tasks: Input should be a valid integer"),
        ("cluster: ../up", "cluster: String should match pattern"),
        ("kafka: {security_protocol: SASL_SSL}", "SASL_SSL needs sasl_mechanism"),
        ("kafka: {security_protocol: SASL_SSL, sasl_mechanism: PLAIN}", "PLAIN needs sasl_username and sasl_password"),
        ("kafka: {security_protocol: SASL_SSL, sasl_mechanism: GSSAPI}", "GSSAPI needs sasl_username and sasl_keytab"),
        (
            "kafka: {security_protocol: SASL_PLAINTEXT, sasl_mechanism: AWS_MSK_IAM}",
            "needs security_protocol: SASL_SSL",
        ),
        ("kafka: {sasl_password: hunter2}", "kafka.sasl_password: Input should be a valid dictionary"),
        ("kafka: {sasl_password: {env: A, file: /b}}", "write either {env: NAME} or {file: PATH}"),
        ("privacy: {principals: hash}", "hash needs a key: set privacy.hash_key"),
        ("logs: {time_zone: ../Vienna}", "time_zone is not the name of a time zone"),
        ("clusters: {../up: {bootstrap_servers: b}}", "clusters.../up.[key]: String should match pattern"),
        ("clusters: {east: {}}", "clusters.east.bootstrap_servers: Field required"),
        ("clusters: {east: {bootstrap_servers: b, storage: {umask: '027'}}}", "clusters.east.storage: Extra inputs"),
        (
            "clusters: {default: {bootstrap_servers: b, lag: {window_m: 1}}}",
            "the cluster default are wrong: lag.window_m: ",
        ),
        ("clusters: {default: {bootstrap_servers: b, kafka: {sasl_password: hunter2}}}", "kafka.sasl_password: Input"),
        (
            "selection: {groups: {exclude: [ok, 'a(']}}",
            "selection.groups.exclude.1: Value error, this is not a valid regular",
        ),
        (
            "selection: {topics: {include: ['(?!a).*']}}",
            "selection.topics.include.0: Value error, this is not a valid regular",
        ),
        ("selection: {partitions: {omit: [a]}}", "selection.partitions.omit: Extra inputs"),
        ("- a list", "must hold settings"),
        ("a: [", "is not valid YAML: line 1, column 5: "),
        ("kafka: {sasl_password: hunter2", "is not valid YAML: line 1, column 31: expected"),
        ("kafka: {sasl_password: *hunter2}", "is not valid YAML: line 1, column 24: the syntax is wrong"),
        ("kafka: {sasl_password: !hunter2 x}", "is not valid YAML: line 1, column 24: the syntax is wrong"),
        ("cluster: 2026-13-45", "looks like a number or a date"),
        ('cluster: !!int ""', "looks like a number or a date"),
        (f"cluster: {'[' * 10_000}", "nested too deeply"),
        ("cluster: \0", "the syntax is wrong"),
        (bomb("{lag: &a0 1}", "[*a{0}, *a{0}]"), "more than 100,000 values"),
        (bomb("&a0 {k: 1}", "{<<: [*a{0}, *a{0}, *a{0}]}"), "more than 100,000 values"),
        ("clusters: &a {default: *a}", "more than 100,000 values"),
        ("clusters: &a {<<: *a}", "more than 100,000 values"),
        ("cluster: " + "x" * 300_000, "is too long: it has more than 262,144 characters"),
        ("cluster: 1" + ":30" * 80_000, "looks like a number or a date"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    """Goal: the sentence has the key; a secret in the wrong place is not printed."""
    with pytest.raises(InputError) as error:
        load_settings(write(tmp_path, text))
    assert sentence in str(error.value)
    assert "hunter2" not in str(error.value)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    """Goal: bytes that are no UTF-8 are reported in a sentence, without a traceback."""
    path = tmp_path / "settings.yaml"
    path.write_bytes(b"cluster: \xff")
    with pytest.raises(InputError, match="not UTF-8 text"):
        load_settings(path)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    """Goal: a wrong path is reported in a sentence, without a traceback."""
    with pytest.raises(InputError, match="can't be read: No such file"):
        load_settings(tmp_path / "none.yaml")


def test_secrets_reach_the_clients_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: both clients get the password, quoted so that it can't end its JAAS entry; the settings don't show it."""
    monkeypatch.setenv("LEDGER_PASSWORD", 'p"; evil\\')
    settings = load_settings(write(tmp_path, SASL))
    assert spark_security(settings.kafka) == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="led\\"ger\\\\" password="p\\"; evil\\\\";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "/etc/ca.pem",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.location": "/etc/client.pem",
    }
    assert kafka_python_security(settings.kafka) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": 'led"ger\\',
        "sasl_plain_password": 'p"; evil\\',
        "ssl_cafile": "/etc/ca.pem",
        "ssl_certfile": "/etc/client.pem",
        "ssl_keyfile": "/etc/client.pem",
    }
    own = f"clusters: {{default: {{bootstrap_servers: b, kafka: {{sasl_username: evil}}}}}}\n{SASL}"
    assert "evil" not in repr(settings) + repr(load_settings(write(tmp_path, own)).clusters)


def test_secrets_from_a_file_and_from_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a mounted secret's last newline is not part of it; a missing one names its place."""
    monkeypatch.delenv("LEDGER_PASSWORD", raising=False)
    (tmp_path / "secret").write_text("from a file\n")
    text = SASL.replace("{env: LEDGER_PASSWORD}", f"{{file: {tmp_path / 'secret'}}}")
    found = kafka_python_security(load_settings(write(tmp_path, text)).kafka)
    assert found["sasl_plain_password"] == "from a file"  # noqa: S105 - a test's own
    with pytest.raises(InputError, match=r"LEDGER_PASSWORD is not set, and kafka\.sasl_password refers"):
        kafka_python_security(load_settings(write(tmp_path, SASL)).kafka)
