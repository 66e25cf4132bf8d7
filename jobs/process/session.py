"""Makes the Spark session of every job, with the defaults of `conf/spark-defaults.conf`, our JARs and our interpreter.

Under `spark-submit` the JVM already runs: master, driver, JARs and interpreter stay as they were submitted. Our
defaults apply to settings that were not submitted, but those sized for one machine do not apply on a cluster.

A cold JVM reads and checks some twenty thousand classes of Spark and Delta, for a third of the time of a short command.
`groupledger setup` stores them in the JVM's own form (`class_archive`); a JVM of another version, or with other JARs,
ignores the archive. The archive covers only classes of the class path, so the JARs are on the class path and not in
`spark.jars`.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import stat
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupledger import conf
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.jars import ARCHIVE, S3, SPARK, jar_folder
from groupledger.jobs.process.java_start import launched
from groupledger.jobs.process.object_store import s3_settings
from groupledger.jobs.process.signals import signals_wait

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

SHIPPED = Path(conf.__file__).parent
SPARK_JARS = jar_folder() / SPARK
S3_JARS = jar_folder() / S3
CLASS_ARCHIVE = jar_folder() / ARCHIVE

# For a JVM that lives some minutes: the first compiler's code is ready sooner than the second's is fast. Alone it gets
# 48 MiB for its code by default, which are full after a few micro-batches; then the JVM only interprets.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"

# Set by spark-submit for the Python that it starts.
SUBMITTED = "PYSPARK_GATEWAY_PORT"
OF_THE_MACHINE = ("spark.master", "spark.driver.")
# Sized for the two cores of a machine without anybody else; a cluster has executors and a user interface of its own.
PARTITION_COUNTS = ("spark.sql.shuffle.partitions", "spark.databricks.delta.snapshotPartitions")
OF_LOCAL_MASTER = (*PARTITION_COUNTS, "spark.ui.enabled")
PARTITIONS_A_CORE = 2
WRITTEN_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
SOCKET_FOLDER_BYTES_MAX = 107 - len("/.00000000-0000-0000-0000-000000000000.sock")
UNKNOWN_CORES = 2  # the number that Spark returns for a cluster without executors yet
# As pyspark 4.0 and 4.2 name them, with those of their functions that plans of ours have by the hundred.
KEPT_CLASSES = {
    "functions": ("col",),
    "org.apache.spark.sql.functions": ("col", "lit", "when", "coalesce"),
    "org.apache.spark.sql.classic.SparkSession": ("setActiveSession", "getActiveSession"),
    "PythonUtils": ("toSeq",),
    "PythonSQLUtils": (),
}
LOCAL_MASTER = re.compile(r"local(\[.*)?")  # but for `local-cluster`, whose executors are processes of their own


def spark_session(name: str, overrides: Mapping[str, str] | None = None, java_options: str = "") -> SparkSession:
    """Returns the one Spark session of this process. `overrides` replace the shipped defaults."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    settings = submitted_settings() if SUBMITTED in os.environ else own_settings(java_options)
    wanted = {**settings, **(overrides or {})}
    # If pyspark is interrupted while a JVM starts, it removes the folder in which the JVM reports its port; then the
    # JVM fails, and stays for ever. And a SparkContext installs a SIGINT handler as its last step, which calls Java and
    # so breaks a call that the signal has interrupted. The rest of a session takes a while: it can be interrupted.
    with signals_wait():
        conf = SparkConf().setAppName(name).setAll([*wanted.items()])
        if SparkContext._gateway is None and SUBMITTED not in os.environ:  # noqa: SLF001 - pyspark has no public way
            SparkContext._ensure_initialized(gateway=launched(conf))  # noqa: SLF001
        SparkContext.getOrCreate(conf)
    builder = SparkSession.builder.appName(name)
    for key, value in wanted.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    context = session.sparkContext
    remember_classes(context._jvm)  # noqa: SLF001
    atexit.register(remove_socket, context._accumulatorServer.server_address)  # noqa: SLF001
    for key, value in of_executors(dict(context.getConf().getAll()), context.defaultParallelism).items():
        session.conf.set(key, value)
    return session


def beside_each_other(count: int) -> dict[str, str]:
    """Returns overrides for a session on this machine that runs `count` pieces of work at once. Spark then gets `count`
    times as many task slots. So tasks of one piece that all wait for something outside take no slots from the others.
    Returns {} under spark-submit, or if the default master has no fixed number of slots."""
    match = re.fullmatch(r"local\[(\d+)\]", spark_defaults()["spark.master"])
    if SUBMITTED in os.environ or match is None:
        return {}
    return {"spark.master": f"local[{int(match[1]) * count}]", "spark.default.parallelism": match[1]}


def own_settings(java_options: str) -> dict[str, str]:
    """Returns the settings of a session on this machine."""
    # Spark's Python workers would otherwise be whatever `python3` the system has, without our libraries.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    logging = f"-Dlog4j2.configurationFile=file:{SHIPPED / 'log4j2.properties'}"
    defaults = spark_defaults()
    # Java knows nothing of TMPDIR, and Spark's scratch files are large.
    scratch = f'"-Djava.io.tmpdir={tempfile.gettempdir()}"'
    options = (defaults["spark.driver.extraJavaOptions"], logging, scratch, class_archive_options(), java_options)
    return {
        **defaults,
        **s3_settings(os.environ),
        "spark.python.daemon.module": "groupledger.jobs.process.worker_daemon",
        "spark.python.unix.domain.socket.enabled": str(is_fit_for_sockets(tempfile.gettempdir(), umask())).lower(),
        "spark.driver.extraClassPath": os.pathsep.join(local_jars()),
        "spark.driver.extraJavaOptions": " ".join(options),
        # Hadoop's client takes no notice of the process's own.
        "spark.hadoop.fs.permissions.umask-mode": f"{umask():03o}",
    }


def is_fit_for_sockets(folder: str, umask: int) -> bool:
    """Returns whether Spark (from 4.1 on) may talk with its Python workers by Unix sockets in a folder. Over TCP each
    task waits for 40 ms, since the JVM sends it in two pieces, and holds the second until the kernel acknowledges the
    first. Sockets in a folder have no secret, so `umask` has to keep other users from writing to them. The kernel
    limits the length of a socket's path."""
    return len(os.fsencode(folder)) <= SOCKET_FOLDER_BYTES_MAX and umask & WRITTEN_BY_OTHERS == WRITTEN_BY_OTHERS


def remove_socket(address: object) -> None:
    """Removes the file of the Unix socket at `address`, if it is one. Spark removes that of its accumulators only with
    the session, which no command of ours waits for: each would leave a file in the temporary folder."""
    if isinstance(address, str):
        Path(address).unlink(missing_ok=True)


def umask() -> int:
    """Returns the umask of this process, which can only be read by setting it."""
    found = os.umask(0o077)
    os.umask(found)
    return found


def class_archive_options() -> str:
    """Returns the JVM's options to use the class archive, without a message if it ignores the archive; "" if there is
    no archive."""
    return f"-XX:SharedArchiveFile={CLASS_ARCHIVE} -Xlog:cds*=off" if CLASS_ARCHIVE.is_file() else ""


def submitted_settings() -> dict[str, str]:
    """Returns those of our defaults that apply beside the settings that were given to spark-submit."""
    from pyspark import SparkConf, SparkContext

    # Before it knows the JVM, a SparkConf is empty and says nothing of it; pyspark has no public way to meet the JVM.
    SparkContext._ensure_initialized()  # noqa: SLF001
    return left_open(dict(SparkConf().getAll()))


def left_open(submitted: Mapping[str, str]) -> dict[str, str]:
    """Returns those of our defaults that apply beside the `submitted` settings. Settings of the machine, such as the
    master, are left to who submitted, and on a cluster the settings that are sized for one machine are left out,
    too."""
    is_local = LOCAL_MASTER.fullmatch(submitted["spark.master"]) is not None
    not_ours = OF_THE_MACHINE if is_local else (*OF_THE_MACHINE, *OF_LOCAL_MASTER)
    ours = {**spark_defaults(), **s3_settings(os.environ)}
    return {key: value for key, value in ours.items() if not key.startswith(not_ours) and key not in submitted}


def of_executors(settings: Mapping[str, str], parallelism: int) -> dict[str, str]:
    """Returns the settings with the numbers of partitions (`PARTITION_COUNTS`) on a cluster that nobody set: some
    partitions for each core of the executors.

    Spark's default of 200 and Delta's of 50 take most of the time of a small batch, and a streaming query can't
    coalesce the partitions. The defaults stay if the number of cores is not known: executors come and go, or none has
    come yet and nobody set their number. `parallelism` is Spark's default parallelism.
    """
    if LOCAL_MASTER.fullmatch(settings["spark.master"]) or settings.get("spark.dynamicAllocation.enabled") == "true":
        return {}
    configured = int(settings.get("spark.executor.instances", 0)) * int(settings.get("spark.executor.cores", 1))
    cores = max(configured, int(settings.get("spark.cores.max", 0)), parallelism if parallelism > UNKNOWN_CORES else 0)
    return {key: str(cores * PARTITIONS_A_CORE) for key in PARTITION_COUNTS if cores and key not in settings}


def remember_classes(jvm: Any) -> None:
    """Makes py4j (0.10.9) cache the classes and the functions that make columns. Otherwise it would ask the JVM for
    each of them at every use: these would be half of all calls to the JVM. For a name without its package the JVM even
    searches all JARs."""
    for name, functions in KEPT_CLASSES.items():
        found = getattr(jvm, name)
        setattr(jvm, name, found)
        for function in functions:
            setattr(found, function, getattr(found, function))


def close_idle_callbacks(spark: SparkSession) -> None:
    """Closes the connections by which the JVM called functions of Python, except those that were used since the last
    call. Each streaming query calls `foreachBatch` from a thread of its own, and py4j (0.10.9) keeps the connection of
    each, with a thread here, as long as the process lives: a monitor made one a minute."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - pyspark has no public way to it
    gateway.java_gateway_server.getCallbackClient().periodicCleanup()


def end_java(spark: SparkSession) -> None:
    """Kills the JVM, if it is ours, whatever it is doing: nothing cancels a query while Spark plans it. Callers that
    wait for the JVM get an error of py4j's. Py4j also logs it, in part by the root logger, which our own logger does
    not use."""
    process = getattr(spark.sparkContext._gateway, "proc", None)  # noqa: SLF001 - pyspark has no public way to it
    if process is not None:
        logging.getLogger().setLevel(logging.CRITICAL + 1)
        process.kill()


def task_count(spark: SparkSession, wanted: int | None) -> int:
    """Returns the number of tasks for some work: `wanted`, else one for each core of the executors."""
    return wanted or spark.sparkContext.defaultParallelism


def spark_defaults() -> dict[str, str]:
    text = resources.files("groupledger.conf").joinpath("spark-defaults.conf").read_text()
    lines = (line.strip() for line in text.splitlines())
    return dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))


def local_jars() -> list[str]:
    jars = sorted(str(path) for path in SPARK_JARS.glob("*.jar"))
    if not jars:
        raise InputError("The JARs of Delta Lake and the Kafka connector are missing: run `groupledger setup`.")
    return jars + sorted(str(path) for path in S3_JARS.glob("*.jar"))
