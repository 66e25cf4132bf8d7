"""`groupledger doctor`: is everything in place? Each check reports its result and, if that is bad, the remedy.

Nothing is changed but for one small file that is made in the warehouse and removed again, with its folders. Only the
permissions that the ledger needs itself are used on the cluster (`docs/rights.md`); if the brokers don't let us see a
setting, the check is `unknown`, which is not a fault. Without the extra `spark` it reports that, and checks the rest.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import distributions, version
from pathlib import Path
from typing import TYPE_CHECKING

import click

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.troubles import open_troubles
from groupledger.jobs.process.errors import InputError, JobError
from groupledger.jobs.process.jar_hashes import spark_release
from groupledger.jobs.process.jars import JAVA_REMEDY, JAVA_VERSIONS, java_major, java_path, java_words
from groupledger.jobs.process.output import number_of, print_json
from groupledger.jobs.process.places import local_path
from groupledger.jobs.process.session import SPARK_JARS, spark_defaults, spark_session
from groupledger.jobs.process.terminal import escaped, fitted
from groupledger.jobs.process.troubled_groups import REMEDY, troubled_groups
from groupledger.jobs.warehouse.storage import STATE_FOLDER, LocalStorage, open_storage
from groupledger.schemas.kafka.names import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from py4j.protocol import Py4JJavaError

    from groupledger.jobs.kafka.offsets_topic import TopicRange
    from groupledger.jobs.process.settings import KafkaSettings, LogSettings, Settings
    from groupledger.jobs.warehouse.storage import Storage

    Place = tuple[Settings, str]
    """The settings of a cluster, and its address."""

GOOD, BAD, UNKNOWN = "good", "bad", "unknown"
STATE_WIDTH = len(UNKNOWN) + 2
PYTHON_MINIMUM = (3, 10)
SPARK = "pyspark"
INSTALL_SPARK = "run `pip install 'groupledger[spark]'`, then `groupledger setup`"
PACKAGES = (SPARK, "delta-spark", "pyarrow", "numpy", "pandas", "kafka-python")
NAMELESS = {"Python", *PACKAGES, "Java", "memory"}
FREE_BYTES_MIN = 1 << 30
MEGABYTE = 1 << 20
# Memory for the Python workers, the driver's metaspace and the system, beside the driver's heap.
MEMORY_BESIDE_HEAP_MB = 1_024
READ_TIMEOUT_MS = 10_000
# Fewer, and a weekend's stop of a group loses its offsets: Kafka's default since 2.0 is 7 days.
OFFSETS_RETENTION_MINUTES_MIN = 4_320


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check. `state` is good, bad or unknown; a bad one has a `remedy`."""

    about: str
    state: str
    finding: str
    remedy: str | None = None


def diagnose(settings: Settings, warehouse: str | None, clusters: Mapping[str, Place]) -> Iterator[Check]:
    """Yields each check as soon as it is made: of this machine, of the warehouse if one is given, and of each cluster
    in `clusters`, which has the settings and the address of each by its name in the tables."""
    yield python()
    yield from writing()
    if warehouse is not None:
        yield from warehouse_checks(warehouse)
    for name in clusters or [settings.cluster]:
        about = "" if len(clusters) < 2 else f"{name}: "  # noqa: PLR2004 - of one cluster nobody needs the name
        if warehouse is not None:
            check = groups(ClusterRows(warehouse, name))
            yield replace(check, about=about + check.about)
        of_cluster, address = clusters.get(name, (settings, None))
        for check in logs(of_cluster.logs):
            yield replace(check, about=about + check.about)
        for check in () if address is None else cluster_checks(of_cluster, address):
            yield replace(check, about=about + check.about)


def print_check(check: Check, *, as_json: bool) -> None:
    """Prints a check at once, since the next one may wait for a broker: as JSON, or as a line that is broken on a
    terminal only."""
    if as_json:
        print_json([asdict(check)])
        sys.stdout.flush()
        return
    found = check.finding if check.remedy is None else f"{check.finding.removesuffix('.')}; {check.remedy}"
    for line in fitted(f"{check.state:{STATE_WIDTH}}{check.about}: {escaped(found)}"):
        click.echo(line)


def report(checks: Iterable[Check]) -> str:
    """Returns what to attach to a report of a fault: versions, and how each check ended. What a check found is left
    out, as it may name hosts, folders and groups, and so is the name of its cluster."""
    lines = [f"groupledger {version('groupledger')} on {platform.system()} {platform.release()}, {platform.machine()}"]
    for check in checks:
        about = check.about.rpartition(": ")[2]
        lines.append(f"{about}: {check.state}" + (f", {check.finding}" if about in NAMELESS else ""))
    return "\n".join(lines)


# This machine


def python() -> Check:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < PYTHON_MINIMUM:
        return Check("Python", BAD, found, "install Python 3.10 or newer")
    return Check("Python", GOOD, found)


def writing() -> Iterator[Check]:
    """Yields the checks of what only commands that write need: packages, Java, JARs and memory. If pyspark is not
    installed, yields one check that says so."""
    there = installed()
    if SPARK not in there:
        finding = "is not installed: this environment can ask and serve, and can't write"
        yield Check(SPARK, UNKNOWN, finding, f"to write, {INSTALL_SPARK}")
        return
    yield from packages(there)
    yield from (java(), jars(SPARK_JARS), memory(spark_defaults()["spark.driver.memory"]))


def installed() -> set[str]:
    return {each.name.lower().replace("_", "-") for each in distributions()}


def packages(there: set[str]) -> Iterator[Check]:
    for name in PACKAGES:
        if name in there:
            yield Check(name, GOOD, version(name))
        else:
            yield Check(name, BAD, "is not installed", INSTALL_SPARK)


def java() -> Check:
    """Checks the Java that Spark's own launcher uses."""
    path = java_path()
    if shutil.which(path) is None:
        return Check("Java", BAD, f"no Java at {path!r}", JAVA_REMEDY)
    return java_version(java_words(path))


def java_version(text: str) -> Check:
    """Checks the text that `java -version` prints."""
    found = java_major(text)
    if found is None:
        return Check("Java", BAD, "it does not run", JAVA_REMEDY)
    if found not in JAVA_VERSIONS:
        return Check("Java", BAD, f"version {found}, and Spark needs 17 or 21", JAVA_REMEDY)
    return Check("Java", GOOD, f"version {found}")


def jars(folder: Path) -> Check:
    """Checks for Delta's JAR, which belongs to its package, and the connector, which belongs to pyspark."""
    try:
        names = sorted(path.name for path in folder.glob("*.jar"))
    except PermissionError:
        return Check(
            "JARs", BAD, f"this user may not read {folder}", f"let it: chmod -R a+rX {shlex.quote(str(folder.parent))}"
        )
    wanted = f"delta-spark_{spark_release()}_2.13-{version('delta-spark')}.jar"
    missing = [wanted] if wanted not in names else []
    missing += [] if any(name.startswith("spark-sql-kafka-0-10_2.13") for name in names) else ["spark-sql-kafka-0-10"]
    if missing:
        return Check("JARs", BAD, f"{', '.join(missing)} missing in {folder}", "run `groupledger setup`")
    return Check("JARs", GOOD, f"{len(names)} in {folder}")


def memory(driver_memory: str) -> Check:
    """Checks the machine's memory, or the container's if that is less."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    group = Path("/sys/fs/cgroup/memory.max")
    if group.is_file() and group.read_text().strip().isdigit():
        limits.append(int(group.read_text()))
    return memory_check(driver_memory, min(limits) // MEGABYTE)


def memory_check(driver_memory: str, there_mb: int) -> Check:
    number, unit = int(driver_memory[:-1]), driver_memory[-1]
    needed_mb = number * (1_024 if unit == "g" else 1) + MEMORY_BESIDE_HEAP_MB
    finding = f"{there_mb:,} MB, and a heap of {driver_memory} with all beside it needs {needed_mb:,} MB"
    if there_mb < needed_mb:
        remedy = "take a larger machine, or lower spark.driver.memory in conf/spark-defaults.conf"
        return Check("memory", BAD, finding, remedy)
    return Check("memory", GOOD, finding)


# The warehouse


def warehouse_checks(warehouse: str) -> Iterator[Check]:
    """Yields the checks of a warehouse: the free space of a local directory, and whether a file can be made, read and
    removed."""
    path = local_path(warehouse)
    if path is not None:
        there = next(folder for folder in (Path(path), *Path(path).resolve().parents) if folder.is_dir())
        free = shutil.disk_usage(there).free
        state = GOOD if free >= FREE_BYTES_MIN else BAD
        remedy = None if state == GOOD else "free some, or put the warehouse on another disk"
        yield Check("disk", state, f"{free // MEGABYTE:,} MB are free at {there}", remedy)
    yield write_check(warehouse)


def groups(tables: ClusterRows) -> Check:
    """Checks for groups on which a step failed."""
    troubles = open_troubles(tables)
    if troubles:
        return Check("groups", BAD, escaped(troubled_groups(troubles)), REMEDY)
    return Check("groups", GOOD, "none is left out")


def write_check(warehouse: str) -> Check:
    name = f"{STATE_FOLDER}/doctor-{uuid.uuid4().hex}"
    remedy = "check the path, and that this user may create, read and delete files there"
    path = local_path(warehouse)
    made = [] if path is None else missing_folders(Path(path) / STATE_FOLDER)
    try:
        storage: Storage
        if path is None:
            storage = open_storage(spark_session("groupledger doctor"), warehouse)
        else:
            storage = LocalStorage(Path(path))
        is_new = storage.create(name, "doctor") and not storage.create(name, "another")
        text = storage.read(name)
        storage.delete(name)
    except InputError:  # a store that is known to do so
        is_new, text = False, None
    except OSError as error:
        return Check("warehouse", BAD, f"{warehouse}: {error.strerror}", remedy)
    except java_errors(path) as error:
        return Check("warehouse", BAD, escaped(f"{warehouse}: {error.java_exception}"), remedy)
    finally:
        # An administrator's folder would shut out the user that writes afterwards.
        with suppress(OSError):
            for folder in made:
                folder.rmdir()
    if not is_new or text != "doctor":
        remedy = "use a file system that creates a file only if it does not exist"
        return Check("warehouse", BAD, f"{warehouse} gives a name that is taken away again", remedy)
    return Check("warehouse", GOOD, f"{warehouse} can be written")


def logs(settings: LogSettings) -> Iterator[Check]:
    """Yields a check of each kind of log that the settings name for the monitor."""
    for about, paths, names in (
        ("request log", settings.request_logs, settings.request_log_names),
        ("server log", settings.server_logs, settings.server_log_names),
    ):
        if paths and SPARK in installed():  # without it there is no monitor that would read them
            yield log_check(about, paths, names)


def log_check(about: str, paths: Sequence[Path], names: str) -> Check:
    """Looks whether there are files of a log in `paths`, which a monitor may read. Until a broker writes the first one,
    a folder may well be empty."""
    from groupledger.jobs.ingest.log_files import list_log_files

    places = ", ".join(map(str, paths))
    try:
        files = list_log_files(paths, names, lambda _: None)
    except (InputError, OSError) as error:
        return Check(about, BAD, f"{error}", f"correct `logs` in the settings, or let this user read {places}")
    unreadable = [str(file) for file in files if not os.access(file, os.R_OK)]
    if unreadable:
        found = f"{len(unreadable):,} of {number_of(len(files), 'file')} can't be read, such as {unreadable[0]}"
        return Check(about, BAD, found, "let this user read them")
    if not files:
        return Check(about, UNKNOWN, f"no file {names} in {places} yet")
    return Check(about, GOOD, f"{number_of(len(files), 'file')} in {places}")


def missing_folders(folder: Path) -> list[Path]:
    """Returns those of a folder and its parents that do not exist, the innermost first."""
    return [path for path in (folder, *folder.parents) if not path.exists()]


def java_errors(path: str | None) -> tuple[type[Py4JJavaError], ...]:
    """Returns the errors that Hadoop's client raises. Empty for a local directory, which does not need the client."""
    if path is not None:
        return ()
    from py4j.protocol import Py4JJavaError

    return (Py4JJavaError,)


# The cluster


def cluster_checks(settings: Settings, bootstrap_servers: str) -> Iterator[Check]:
    from groupledger.jobs.kafka.offsets_topic import admin_client, describe_offsets_topic, described

    try:
        identity, topic = describe_offsets_topic(bootstrap_servers, settings.kafka)
    except JobError as error:
        remedy = "check --bootstrap-servers, the section kafka of the settings, and the rights of the principal"
        yield Check("brokers", BAD, escaped(str(error)), remedy)
        return
    finding = f"cluster {identity.cluster_id}, {identity.partition_count} partitions of {OFFSETS_TOPIC}"
    if identity.shard is not None:
        finding += f", {len(topic.high_watermark)} of them in the shard {identity.shard}"
    yield Check("brokers", GOOD, finding)
    yield transactions(topic)
    yield read_right(settings.kafka, bootstrap_servers)
    yield from describe_rights(settings, bootstrap_servers)
    with admin_client(bootstrap_servers, settings.kafka) as admin:
        broker = str(admin.describe_cluster()["brokers"][0]["broker_id"])
        yield from setting_checks(described(admin, "topic", OFFSETS_TOPIC), described(admin, "broker", broker))


def transactions(topic: TopicRange) -> Check:
    waiting = [key for key, end in topic.high_watermark.items() if end > topic.last_stable_offset[key]]
    if waiting:
        finding = f"open in partitions {', '.join(map(str, waiting))}: newer commits wait for their end"
        remedy = "look again in a minute; kafka-transactions ends one that stays open"
        return Check("transactions", BAD, finding, remedy)
    return Check("transactions", GOOD, "none is open in the topic")


def read_right(settings: KafkaSettings, bootstrap_servers: str) -> Check:
    """Checks the permission to read with one fetch, without a group."""
    from kafka import KafkaConsumer, TopicPartition
    from kafka.errors import KafkaError, TopicAuthorizationFailedError

    from groupledger.jobs.kafka.login import kafka_python_security

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers.split(","),
        group_id=None,
        enable_auto_commit=False,
        max_poll_records=1,
        **kafka_python_security(settings),
    )
    try:
        partition = TopicPartition(OFFSETS_TOPIC, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        consumer.poll(READ_TIMEOUT_MS)
    except TopicAuthorizationFailedError:
        return Check("Read", BAD, f"is not allowed on {OFFSETS_TOPIC}", f"grant Read on the topic {OFFSETS_TOPIC}")
    except KafkaError as error:
        return Check("Read", BAD, escaped(str(error)), "look into the broker's log")
    finally:
        consumer.close()
    return Check("Read", GOOD, f"is allowed on {OFFSETS_TOPIC}")


def describe_rights(settings: Settings, bootstrap_servers: str) -> Iterator[Check]:
    """Asks once for what a sampling round asks for. A broker leaves out what this user may not describe, and says
    nothing of it, so an empty answer has two meanings."""
    from groupledger.jobs.kafka.brokers import connect
    from groupledger.jobs.kafka.sampling import describe_topics, sample_groups

    try:
        with connect(bootstrap_servers, settings) as brokers:
            _, places, _ = describe_topics(brokers, settings.sampling, None)
            states, _ = sample_groups(brokers, settings.sampling, settings.kafka.own)
    except JobError as error:
        yield Check("Describe", BAD, escaped(str(error)), "look into the broker's log")
        return
    topics = len({place.topic for place in places})
    for what, count, use in (("topic", topics, "the lag"), ("group", len(states), "the state")):
        if count:
            yield Check(f"{what}s", GOOD, f"{number_of(count, what)} can be seen")
        else:
            missing = f"there is none, or Describe on {what}s is missing, without which {use} is not known"
            yield Check(f"{what}s", UNKNOWN, f"none can be seen: {missing}")


def setting_checks(topic: Mapping[str, str] | None, broker: Mapping[str, str] | None) -> Iterator[Check]:
    """Checks the settings of the topic, and those of one broker, assuming that all brokers have the same. `topic` or
    `broker` is None if this user may not see its settings."""
    if topic is None:
        yield Check("topic settings", UNKNOWN, "may not be seen: DescribeConfigs on the topic would show them")
    else:
        yield cleanup(topic)
    if broker is None or "offsets.retention.minutes" not in broker:
        yield Check("offset retention", UNKNOWN, "may not be seen: DescribeConfigs on the cluster would show it")
    else:
        yield offset_retention(int(broker["offsets.retention.minutes"]))


def cleanup(topic: Mapping[str, str]) -> Check:
    policy = topic["cleanup.policy"]
    if policy != "compact":
        finding = f"cleanup.policy is {policy}: Kafka deletes offsets that are still in force"
        return Check("topic settings", BAD, finding, f"set cleanup.policy=compact on {OFFSETS_TOPIC}")
    hours = int(topic["delete.retention.ms"]) / 3_600_000
    minutes = int(topic["min.compaction.lag.ms"]) / 60_000
    until = f"{minutes:g} minutes after they were written" if minutes else "at any time"
    finding = (
        f"compacted; tombstones stay for {hours:g} hours, so run `ingest` more often than that; superseded records may"
        f" be removed {until} (min.compaction.lag.ms): the history before a pass is complete if passes are more"
        " frequent than that, or with `monitor`"
    )
    return Check("topic settings", GOOD, finding)


def offset_retention(minutes: int) -> Check:
    finding = f"{minutes / 1_440:g} days (give `idle --retention-days` the same)"
    if minutes < OFFSETS_RETENTION_MINUTES_MIN:
        remedy = "raise offsets.retention.minutes: a group that is stopped for longer loses its offsets"
        return Check("offset retention", BAD, finding, remedy)
    return Check("offset retention", GOOD, finding)
