"""Builds the security settings for logging in at brokers, in the forms of kafka-python and of Java's client.

Spark's connector uses Java's client and the jobs kafka-python's. Each mechanism must work in both, so a setting that
only one of them supports is refused here, with a remedy:

    PLAIN, SCRAM-SHA-256, SCRAM-SHA-512    name and password
    OAUTHBEARER                            client credentials, for which a server gives tokens (`tokens`)
    GSSAPI                                 Kerberos with a keytab; kafka-python needs the package gssapi
    AWS_MSK_IAM                            the machine's own AWS credentials; needs botocore, and Amazon's JAR in Spark
    TLS                                    PEM files; kafka-python can't read Java's key stores

The list is closed on purpose: with other login modules, whoever writes the configuration could run code. The mechanisms
below PLAIN and SCRAM were not tried on a broker; their settings are those of the clients' documentation, and Java's
client asks for a token as in the tests.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from groupledger.jobs.kafka.tokens import token_provider
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.jars import SPARK, jar_folder

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.jobs.process.settings import KafkaSettings

MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
    "AWS_MSK_IAM": "software.amazon.msk.auth.iam.IAMLoginModule",
}
HANDLERS = {
    "OAUTHBEARER": (
        "kafka.sasl.login.callback.handler.class",
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    ),
    "AWS_MSK_IAM": (
        "kafka.sasl.client.callback.handler.class",
        "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    ),
}
# The packages that kafka-python needs for a mechanism, with the module that it imports.
PACKAGES = {"GSSAPI": "gssapi", "AWS_MSK_IAM": "botocore"}
KEYTAB_VARIABLE = "KRB5_CLIENT_KTNAME"  # from which Kerberos' library gets its tickets
# The first bytes of Java's key stores, and of DER, as in PKCS #12; PEM is text.
STORES = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS", b"\x30\x82": "PKCS12"}


def kafka_python_security(settings: KafkaSettings) -> dict[str, Any]:
    """Returns the security settings for kafka-python. Raises InputError if it does not support the login, OutsideError
    if a token is needed and can't be fetched."""
    found: dict[str, Any] = {"security_protocol": settings.security_protocol}
    mechanism = settings.mechanism
    if mechanism is not None:
        _check_package(mechanism)
        found["sasl_mechanism"] = mechanism
    if mechanism == "OAUTHBEARER":
        found["sasl_oauth_token_provider"] = token_provider(settings)
    elif mechanism == "GSSAPI":
        os.environ[KEYTAB_VARIABLE] = str(settings.sasl_keytab)
        found["sasl_kerberos_service_name"] = settings.sasl_kerberos_service
    elif settings.sasl_password is not None:
        found["sasl_plain_username"] = settings.sasl_username
        found["sasl_plain_password"] = settings.sasl_password.resolve("kafka.sasl_password").get_secret_value()
    if settings.ssl_ca_file is not None:
        found["ssl_cafile"] = pem(settings.ssl_ca_file)
    if settings.ssl_keystore_file is not None:
        found["ssl_certfile"] = found["ssl_keyfile"] = pem(settings.ssl_keystore_file)
    if settings.ssl_key_password is not None:
        found["ssl_password"] = settings.ssl_key_password.resolve("kafka.ssl_key_password").get_secret_value()
    return found


def spark_security(settings: KafkaSettings) -> dict[str, str]:
    """Returns the security settings for Java's client, as options of Spark's Kafka source."""
    found: dict[str, str] = {"kafka.security.protocol": settings.security_protocol}
    mechanism = settings.mechanism
    if mechanism is not None:
        options = "".join(f" {name}={jaas_quoted(value)}" for name, value in _jaas_options(settings).items())
        found["kafka.sasl.mechanism"] = mechanism
        found["kafka.sasl.jaas.config"] = f"{MODULES[mechanism]} required{options};"
    if mechanism in HANDLERS:
        name, handler = HANDLERS[mechanism]
        found[name] = handler
    if mechanism == "OAUTHBEARER":
        found["kafka.sasl.oauthbearer.token.endpoint.url"] = settings.sasl_token_url or ""
    if mechanism == "GSSAPI":
        found["kafka.sasl.kerberos.service.name"] = settings.sasl_kerberos_service
    if settings.ssl_ca_file is not None:
        found |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": pem(settings.ssl_ca_file)}
    if settings.ssl_keystore_file is not None:
        found |= {"kafka.ssl.keystore.type": "PEM", "kafka.ssl.keystore.location": pem(settings.ssl_keystore_file)}
    if settings.ssl_key_password is not None:
        found["kafka.ssl.key.password"] = settings.ssl_key_password.resolve("kafka.ssl_key_password").get_secret_value()
    return found


def _jaas_options(settings: KafkaSettings) -> dict[str, str]:
    """Returns the options of the login module, each a text."""
    name = settings.sasl_username or ""
    if settings.sasl_mechanism == "GSSAPI":
        keys = {"useKeyTab": "true", "storeKey": "true", "keyTab": str(settings.sasl_keytab)}
        return {**keys, "principal": name}
    if settings.sasl_password is None:
        return {}
    secret = settings.sasl_password.resolve("kafka.sasl_password").get_secret_value()
    if settings.sasl_mechanism == "OAUTHBEARER":
        scope = {} if settings.sasl_scope is None else {"scope": settings.sasl_scope}
        return {"clientId": name, "clientSecret": secret, **scope}
    return {"username": name, "password": secret}


def jaas_quoted(text: str) -> str:
    """Returns a value quoted for a JAAS entry. Quotes in it are escaped: one that ended the value early could let the
    rest name another login module."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def check_java_login(spark: SparkSession, settings: KafkaSettings) -> None:
    """Raises InputError if the JVM lacks a class that it needs to log in, which it would report only as a class
    loader's error."""
    mechanism = settings.mechanism
    if mechanism is None:
        return
    module = MODULES[mechanism]
    utils = spark.sparkContext._jvm.org.apache.spark.util.Utils  # type: ignore[union-attr]  # noqa: SLF001
    if not utils.classIsLoadable(module):
        raise InputError(
            f"Spark can't log in with {mechanism}: it lacks the class {module}. For AWS_MSK_IAM put"
            f" Amazon's JAR aws-msk-iam-auth-VERSION-all.jar into {jar_folder() / SPARK}, or give it to spark-submit"
            " with --jars; or let MSK have a user with SCRAM-SHA-512."
        )


def _check_package(mechanism: str) -> None:
    package = PACKAGES.get(mechanism)
    if package is not None and find_spec(package) is None:
        raise InputError(
            f"To log in with {mechanism}, kafka-python needs the package {package}: run `pip install {package}` in the"
            " environment of groupledger."
        )


def pem(path: Path) -> str:
    """Returns the path of a PEM file. Raises InputError for a key store of Java's, which kafka-python can't read; the
    clients report a missing file."""
    try:
        with path.open("rb") as file:
            begin = file.read(4)
    except OSError:
        return str(path)
    kind = next((kind for magic, kind in STORES.items() if begin.startswith(magic)), None)
    if kind is None:
        return str(path)
    raise InputError(
        f"{path} is a key store of type {kind}, and kafka-python reads PEM only. Convert it: `keytool -importkeystore"
        f" -srckeystore {path} -destkeystore store.p12 -deststoretype PKCS12`, and then `openssl pkcs12 -in store.p12"
        " -out store.pem -nodes` for a key with its certificates, or with -nokeys for authorities alone."
    )
