"""Goal: both clients get the settings of each way to log in, or it is refused with the remedy."""

from __future__ import annotations

import json
import os
import threading
import time
from base64 import b64encode, urlsafe_b64encode
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.jobs.kafka import login
from groupledger.jobs.kafka.login import check_java_login, kafka_python_security, spark_security
from groupledger.jobs.kafka.tokens import TokenProvider
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.settings import KafkaSettings, Secret, load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

SECRET = 'of the "client"'  # noqa: S105 - a test's own
BASIC = f"Basic {b64encode(f'ledger:{SECRET}'.encode()).decode()}"


class TokenServer(HTTPServer):
    """Gives tokens for client credentials, as Java's client checks them: with subject, scope and times."""

    status = 200
    asked: list[tuple[str | None, str]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"


class Handler(BaseHTTPRequestHandler):
    server: TokenServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((self.headers["Authorization"], body))
        now_s = int(time.time())
        claims = {"sub": "ledger", "scope": "kafka", "iat": now_s, "exp": now_s + 600}
        parts = ({"alg": "none"}, claims)
        token = ".".join([*(urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts), "x"])
        answer = json.dumps({"access_token": token, "expires_in": 600}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def serving() -> Iterator[TokenServer]:
    server = TokenServer(("127.0.0.1", 0), Handler)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def settings_of(mechanism: str, **changed: Any) -> KafkaSettings:
    shipped = load_settings().kafka.model_dump()
    login_of = {"security_protocol": "SASL_SSL", "sasl_mechanism": mechanism, **changed}
    return KafkaSettings.model_validate(shipped | login_of)


@pytest.fixture
def by_token(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[TokenServer, KafkaSettings]]:
    monkeypatch.setenv("CLIENT_SECRET", SECRET)
    secret = Secret(env="CLIENT_SECRET")
    with serving() as server:
        url = {"sasl_token_url": server.url, "sasl_scope": "kafka", "security_protocol": "SASL_PLAINTEXT"}
        yield server, settings_of("OAUTHBEARER", sasl_username="ledger", sasl_password=secret, **url)


def test_a_token_for_kafka_python(by_token: tuple[TokenServer, KafkaSettings]) -> None:
    """Goal: one token for many connections, a new one in time, the old one while no new one is given and it lasts."""
    server, settings = by_token
    providers = {kafka_python_security(settings)["sasl_oauth_token_provider"] for _ in range(2)}
    assert (len(providers), len(server.asked)) == (1, 1)
    server.asked.clear()
    now_s = 0.0
    provider = TokenProvider(settings, lambda: now_s)
    assert provider.token() == provider.token()
    assert server.asked == [(BASIC, "grant_type=client_credentials&scope=kafka")]
    now_s = 500.0
    provider.token()
    assert len(server.asked) == 2
    server.status = 503
    now_s = 1_000.0
    assert provider.token()
    now_s = 1_101.0
    with pytest.raises(OutsideError, match=r"gave no token: it answered with status 503\. Check the address") as error:
        provider.token()
    assert "client" not in str(error.value).replace("of the client)", "")


def test_a_token_server_that_is_away(by_token: tuple[TokenServer, KafkaSettings]) -> None:
    """Goal: a token server that is away is reported before any broker is asked."""
    _, settings = by_token
    with serving() as gone:
        url = gone.url
    with pytest.raises(OutsideError, match=r"kafka\.sasl_token_url gave no token: Connection refused"):
        kafka_python_security(settings.model_copy(update={"sasl_token_url": url}))


def test_a_token_for_java(spark: SparkSession, by_token: tuple[TokenServer, KafkaSettings]) -> None:
    """Goal: Java's client takes our settings as they are: it asks the same server with the same credentials."""
    server, settings = by_token
    check_java_login(spark, settings)
    jvm: Any = spark.sparkContext._jvm
    properties = jvm.java.util.Properties()
    for name, value in spark_security(settings).items():
        properties.setProperty(name.removeprefix("kafka."), value)
    deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    for name in ("key.deserializer", "value.deserializer"):
        properties.setProperty(name, deserializer)
    properties.setProperty("bootstrap.servers", "127.0.0.1:9")
    jvm.org.apache.kafka.clients.consumer.KafkaConsumer(properties).close()
    assert server.asked == [(BASIC, "grant_type=client_credentials&scope=kafka")]


def test_kerberos(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Goal: both clients get principal and keytab; a missing package is named."""
    settings = settings_of("GSSAPI", sasl_username="ledger@EXAMPLE.ORG", sasl_keytab=tmp_path / 'led"ger.keytab')
    found = spark_security(settings)
    assert found["kafka.sasl.kerberos.service.name"] == "kafka"
    assert found["kafka.sasl.jaas.config"] == (
        'com.sun.security.auth.module.Krb5LoginModule required useKeyTab="true" storeKey="true"'
        f' keyTab="{tmp_path}/led\\"ger.keytab" principal="ledger@EXAMPLE.ORG";'
    )
    monkeypatch.setattr(login, "find_spec", lambda _: None)
    with pytest.raises(InputError, match="needs the package gssapi: run `pip install gssapi`"):
        kafka_python_security(settings)
    monkeypatch.setattr(login, "find_spec", lambda name: name)
    monkeypatch.setenv(login.KEYTAB_VARIABLE, "another")
    found = kafka_python_security(settings)
    assert (found["sasl_mechanism"], found["sasl_kerberos_service_name"]) == ("GSSAPI", "kafka")
    assert os.environ[login.KEYTAB_VARIABLE] == str(settings.sasl_keytab)


def test_iam_of_msk(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: no secret is in the settings; Amazon's classes are asked for by name where Spark lacks them."""
    settings = settings_of("AWS_MSK_IAM")
    found = spark_security(settings)
    assert found["kafka.sasl.jaas.config"] == "software.amazon.msk.auth.iam.IAMLoginModule required;"
    assert "kafka.sasl.client.callback.handler.class" in found
    with pytest.raises(InputError, match=r"put Amazon's JAR aws-msk-iam-auth-VERSION-all\.jar into"):
        check_java_login(spark, settings)
    monkeypatch.setattr(login, "find_spec", lambda _: None)
    with pytest.raises(InputError, match="needs the package botocore"):
        kafka_python_security(settings)


@pytest.mark.parametrize(("magic", "kind"), [(b"\xfe\xed\xfe\xed\0\0", "JKS"), (b"\x30\x82\x0a", "PKCS12")])
def test_javas_key_stores(tmp_path: Path, magic: bytes, kind: str) -> None:
    """Goal: Java's key stores are recognized by their bytes, whatever they are called, and refused with the commands
    that make PEM of them."""
    (tmp_path / "store.pem").write_bytes(magic)
    settings = load_settings().kafka.model_copy(update={"ssl_ca_file": tmp_path / "store.pem"})
    for security in (kafka_python_security, spark_security):
        with pytest.raises(
            InputError, match=rf"is a key store of type {kind}.*keytool -importkeystore.*openssl pkcs12"
        ):
            security(settings)


def test_a_key_with_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a PEM file goes to both clients with the password of its key."""
    monkeypatch.setenv("KEY_PASSWORD", "of the key")
    (tmp_path / "client.pem").write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    changed = {"ssl_keystore_file": tmp_path / "client.pem", "ssl_key_password": Secret(env="KEY_PASSWORD")}
    settings = load_settings().kafka.model_copy(update=changed)
    assert kafka_python_security(settings)["ssl_password"] == "of the key"  # noqa: S105 - a test's own
    assert spark_security(settings)["kafka.ssl.key.password"] == "of the key"
