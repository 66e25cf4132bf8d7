"""Runs a real Apache Kafka broker on this machine, for the demo, the tests and the benchmark, and Kafka's tools.

One JVM is broker and controller (KRaft combined mode). Its listeners are on 127.0.0.1, and all that it writes lies in
one directory: `data/` (the logs), `server.properties`, `log4j2.properties`, `server.log` (log4j's lines and the JVM's
own words) and `kafka-request.log`.

Rules.
- A broker is stopped by the process id that was started here, never by name: SIGTERM, a wait, then SIGKILL.
- It does not outlive its parent, even one that is killed: a shell holds the end of a pipe, and when the pipe closes it
  stops the broker. (Linux's PR_SET_PDEATHSIG would be shorter; it is not portable and fires when a *thread* ends.) The
  broker has a session of its own, so that Ctrl-C reaches it through its owner only.
- Ports come from below the usual ephemeral range (32768 up), where no outgoing connection can take one while the broker
  is down between `stop` and `start`; they stay the same over a restart.
- Ready means the line "Kafka Server started" (`KafkaBroker.STARTED_MESSAGE`), the sign that Kafka's own system tests
  wait for: the broker is registered and unfenced by then.
- The published JARs bring log4j without its SLF4J binding (only the release archive has that), and so would log
  nothing; the logging JARs are pyspark's.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from typing_extensions import Self

_JARS = Path(__file__).resolve().parents[2] / ".jars"
KAFKA_JARS = _JARS / "kafka"
"""The JARs of Kafka 4.2."""
JARS_OF_RELEASE = {"4.2": KAFKA_JARS, "4.4": _JARS / "kafka-4.4"}
CLASS_ARCHIVE = _JARS / "kafka-classes.jsa"
"""The classes of a broker of 4.2, ready for the JVM that made it (`class_archive`)."""

# For JVMs that live for seconds: the first compiler only, and the collector without threads of its own. A start then
# costs 3.7 s of processor time rather than 6.3 s (medians of five). A benchmark passes its own options.
SHORT_LIVED_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

READY_SIGN = b"Kafka Server started"
READY_SECONDS_MAX = 90.0
STOP_SECONDS_MAX = 20.0
POLL_SECONDS = 0.05
PORTS = range(20_000, 30_000)
PORT_ATTEMPTS = 100
EXCERPT_LINES = 20
VOTERS = "controller.quorum.voters"

# One node, groups that form at once, and the shortest sessions that a client may ask for.
DEFAULT_PROPERTIES: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "0",
}

# An exception where a stack trace begins, with log4j's line above it. The first one is the cause: what follows in a
# server log is the shutdown.
FAILURE = re.compile(
    r'^(?:.* ERROR .*\n)?(?:Exception in thread "\S+" )?[\w.$]+(?:Exception|Error): (?P<message>.+)$', re.MULTILINE
)

WATCHDOG = 'read -r _; kill -TERM "$0"'

LOGGING = """\
appender.server.type = Console
appender.server.name = server
appender.server.layout.type = PatternLayout
appender.server.layout.pattern = [%d] %p %m (%c)%n
appender.requests.type = File
appender.requests.name = requests
appender.requests.fileName = ${{sys:groupledger.request.log}}
appender.requests.layout.type = PatternLayout
appender.requests.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = INFO
rootLogger.appenderRef.server.ref = server
logger.requests.name = kafka.request.logger
logger.requests.level = {request_level}
logger.requests.additivity = false
logger.requests.appenderRef.requests.ref = requests
"""


class LocalKafkaError(Exception):
    """Raised with one sentence about what Kafka could not do, and then Kafka's own message."""


class LocalBroker:
    """A broker whose data outlives its process. A context manager starts and stops it.

    `properties` are added to `DEFAULT_PROPERTIES` and replace those of the same name. With `log_requests`, the file
    `request_log` gets a line for each request: `[time] DEBUG Completed request:{json} (kafka.request.logger)`. If
    `joins` is another broker, which must have been started before, this one is a further broker of its cluster, and the
    other remains the controller.
    """

    def __init__(
        self,
        directory: Path,
        *,
        properties: Mapping[str, str] | None = None,
        jars: Path = KAFKA_JARS,
        heap: str = "1g",
        jvm_options: Iterable[str] = SHORT_LIVED_JVM,
        log_requests: bool = False,
        joins: LocalBroker | None = None,
    ) -> None:
        self.directory = directory.resolve()
        self.data_directory = self.directory / "data"
        self.server_log = self.directory / "server.log"
        self.request_log = self.directory / "kafka-request.log"
        self.jars = jars.resolve()
        self._jvm_options = (f"-Xmx{heap}", *jvm_options)
        self._request_level = "DEBUG" if log_requests else "WARN"
        self._joins = joins
        port, controller_port = _free_ports(2)
        self.bootstrap_servers = f"127.0.0.1:{port}"
        listener = f"PLAINTEXT://127.0.0.1:{port}"
        role = {
            "listeners": f"{listener},CONTROLLER://127.0.0.1:{controller_port}",
            VOTERS: f"1@127.0.0.1:{controller_port}",
        }
        if joins is not None:
            role = {"process.roles": "broker", "node.id": "2", "listeners": listener, VOTERS: joins.voters}
        self._properties = {**DEFAULT_PROPERTIES, **role, "log.dirs": str(self.data_directory), **(properties or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    @property
    def voters(self) -> str:
        """Returns the address of the cluster's controller in the form of the setting `controller.quorum.voters`."""
        return self._properties[VOTERS]

    @property
    def port(self) -> int:
        """Returns the port on which clients connect."""
        return int(self.bootstrap_servers.rpartition(":")[2])

    @property
    def pid(self) -> int | None:
        """Returns the process id while the broker is started, and None otherwise."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Starts the broker, and returns once clients can connect. Raises LocalKafkaError with the end of the server
        log if that fails."""
        if self._process:
            raise LocalKafkaError(f"The broker on {self.bootstrap_servers} is already started.")
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write_settings()
        if not (self.data_directory / "meta.properties").is_file():
            self._format()
        log_start_bytes = self.server_log.stat().st_size if self.server_log.is_file() else 0
        try:
            self._await_ready(self._launch(), log_start_bytes)
        except BaseException:
            self.stop()
            raise

    def stop(self, seconds_max: float = STOP_SECONDS_MAX) -> None:
        """Ends the broker's process and waits for its end; kills it if it takes longer than `seconds_max`. Does nothing
        if the broker is not started."""
        if self._process:
            self._process.terminate()
        # Before the process is reaped: a watchdog must never hold a process id that is free for others.
        if self._watchdog:
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None
        if self._process:
            try:
                self._process.wait(seconds_max)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def move(self) -> None:
        """Stops the broker and starts it on another port, which it advertises, as if it had come back on another
        machine."""
        self.stop()
        (port,) = _free_ports(1)
        before, self.bootstrap_servers = self.bootstrap_servers, f"127.0.0.1:{port}"
        self._properties["listeners"] = self._properties["listeners"].replace(before, self.bootstrap_servers)
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _write_settings(self) -> None:
        # A JSON string is what java.util.Properties reads back: the same escapes, and everything else in ASCII.
        lines = [f"{name} = {json.dumps(value)[1:-1]}\n" for name, value in self._properties.items()]
        (self.directory / "server.properties").write_text("".join(lines), encoding="ascii")
        (self.directory / "log4j2.properties").write_text(
            LOGGING.format(request_level=self._request_level), encoding="ascii"
        )

    def _format(self) -> None:
        cluster_id = f"A{secrets.token_urlsafe(16)[1:]}"  # a UUID as Kafka writes it, without "-" in front
        if self._joins is not None:
            lines = (self._joins.data_directory / "meta.properties").read_text().splitlines()
            cluster_id = dict(line.split("=", 1) for line in lines if "=" in line)["cluster.id"]
        settings = str(self.directory / "server.properties")
        run_tool("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", settings, jars=self.jars)

    def _launch(self) -> subprocess.Popen[bytes]:
        command = [
            *_java(self.jars),
            *self._jvm_options,
            f"-Dlog4j2.configurationFile={(self.directory / 'log4j2.properties').as_uri()}",
            f"-Dgroupledger.request.log={self.request_log}",
            "kafka.Kafka",
            str(self.directory / "server.properties"),
        ]
        with self.server_log.open("ab") as log:
            broker = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,
            )
        self._process = broker
        self._watchdog = subprocess.Popen(
            ["sh", "-c", WATCHDOG, str(broker.pid)], stdin=subprocess.PIPE, start_new_session=True
        )
        return broker

    def _await_ready(self, broker: subprocess.Popen[bytes], log_start_bytes: int) -> None:
        deadline = time.monotonic() + READY_SECONDS_MAX
        problem = ""
        while not problem:
            # The exit code is asked for before the log is read, so that the log is whole if there is one.
            if broker.poll() is not None:
                problem = f"ended with exit code {broker.returncode}"
            elif time.monotonic() > deadline:
                problem = f"was not ready after {READY_SECONDS_MAX:.0f} s"
            with self.server_log.open("rb") as log:
                log.seek(log_start_bytes)
                words = log.read()
            if READY_SIGN in words:
                return
            time.sleep(POLL_SECONDS)
        raise LocalKafkaError(
            f"The broker on {self.bootstrap_servers} {problem} (its log is {self.server_log})"
            + _words_on_failure(words.decode(errors="replace"))
        )


def run_tool(
    main_class: str,
    *arguments: str,
    jars: Path = KAFKA_JARS,
    jvm_options: Iterable[str] = SHORT_LIVED_JVM,
    timeout_seconds: float = 120,
    discard_output: bool = False,
) -> str:
    """Runs one of Kafka's command-line tools and returns its standard output, or an empty string with `discard_output`.

    Raises LocalKafkaError with the tool's own message if it fails or takes longer than `timeout_seconds`. Some tools
    report a failure on standard output and still end with 0, so their callers have to check the output.
    """
    # log4j-api's own small logger writes errors to standard error and needs no configuration file.
    logging = "-Dlog4j2.loggerContextFactory=org.apache.logging.log4j.simple.SimpleLoggerContextFactory"
    command = [*_java(jars.resolve()), *jvm_options, logging, main_class, *arguments]
    try:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if discard_output else subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LocalKafkaError(f"{main_class} was not done after {timeout_seconds:.0f} s.") from error
    if answer.returncode != 0:
        raise LocalKafkaError(
            f"{main_class} ended with exit code {answer.returncode}"
            + _words_on_failure((answer.stdout or "") + answer.stderr)
        )
    return answer.stdout or ""


def _java(jars: Path) -> list[str]:
    """Returns the Java command with the class path, and with UTF-8, since Java 17 would follow the locale. The JVM uses
    the class archive if there is one, and says nothing where it does not fit."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    if shutil.which(java) is None:
        raise LocalKafkaError(
            f"No Java was found at {java!r}: install a Java 17 or 21 runtime, or point JAVA_HOME at one."
        )
    class_path = ":".join(map(str, [*_logging_jars(), *_kafka_jars(jars)]))
    encoding = ("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")
    is_archived = jars == KAFKA_JARS and CLASS_ARCHIVE.is_file()
    archive = (f"-XX:SharedArchiveFile={CLASS_ARCHIVE}", "-Xlog:cds*=off") if is_archived else ()
    return [java, *encoding, *archive, "-cp", class_path]


def _kafka_jars(jars: Path) -> list[Path]:
    found = [jar for jar in sorted(jars.glob("*.jar")) if not jar.name.startswith(("log4j-", "slf4j-"))]
    if not any(jar.name.startswith("kafka_") for jar in found):
        raise LocalKafkaError(f"There is no Kafka broker among the JARs in {jars}: run `make setup`.")
    return found


def _logging_jars() -> list[Path]:
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise LocalKafkaError("pyspark, whose logging JARs the broker uses, is absent: run `make setup`.")
    names = ("log4j-api", "log4j-core", "log4j-slf4j2-impl", "slf4j-api")
    jars = Path(pyspark.origin).parent / "jars"
    return [jar for name in names for jar in jars.glob(f"{name}-[0-9]*.jar")]


def _free_ports(count: int) -> list[int]:
    """Returns ports that can be bound now; they differ, since all are held until the last is found."""
    held: list[socket.socket] = []
    try:
        for port in random.sample(PORTS, PORT_ATTEMPTS):
            listener = socket.socket()
            held.append(listener)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                held.remove(listener)
                listener.close()
            if len(held) == count:
                return [listener.getsockname()[1] for listener in held]
    finally:
        for listener in held:
            listener.close()
    raise LocalKafkaError(f"No free ports were found between {PORTS.start} and {PORTS.stop}.")


def _words_on_failure(output: str) -> str:
    """Returns the message of the first Java exception as the rest of a sentence, then the lines from there on.

    Without an exception these are the last lines."""
    failure = FAILURE.search(output)
    if failure is None:
        return ".\n" + "\n".join(output.splitlines()[-EXCERPT_LINES:])
    excerpt = output[failure.start() :].splitlines()[:EXCERPT_LINES]
    return f": {failure['message'].rstrip('.')}.\n" + "\n".join(excerpt)
