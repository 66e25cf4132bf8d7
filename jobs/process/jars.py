"""Fetches the JARs that Spark's JVM needs beside pyspark, once, and knows where they are.

    spark/              Delta Lake and the Kafka connector (conf/ivy/spark.xml, with pyspark 4.0 spark-4.0.xml)
    s3/                 Hadoop's client for a warehouse at s3a:// (conf/ivy/s3.xml, s3-4.0.xml), if it was asked for
    kafka/, kafka-4.4/  whole Kafka brokers, for the tests of a checkout only (conf/ivy/kafka.xml, kafka-4.4.xml)
    spark-classes.jsa   the classes of a Spark session, ready for the JVM that made it (`class_archive`)
    .ivy/               Ivy's cache

The folder is `.jars` in a checkout, else one in the user's cache for each release, or the value of GROUPLEDGER_JARS.
The Ivy that pyspark ships fetches the JARs, with settings of our own, so that neither ~/.ivy2 nor ~/.m2 is read. Each
JAR has to have the hash of the tested one (`jar_hashes`); any other JAR is refused, wherever it comes from. Each part
has a stamp with the hash of its inputs: a part that is current, and whose JARs still have these hashes, stays as it is.
An unlisted JAR beside them, such as the client of another store, belongs to the user.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from groupledger import conf
from groupledger.jobs.process import jar_hashes
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.signals import signals_wait

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SPARK, S3, ARCHIVE = "spark", "s3", "spark-classes.jsa"
BROKERS = ("kafka", "kafka-4.4")
IVY_FOLDER = ".ivy"
JAVA_VERSIONS = (17, 21)
JAVA_REMEDY = "install a Java 17 or 21 runtime, or point JAVA_HOME at one"
CONF = Path(conf.__file__).resolve().parent
ROOT = Path(__file__).resolve().parents[2]
LAST_WORDS = 300


def is_checkout() -> bool:
    """Returns whether this code lies in a checkout of the repository, and is not an installed package."""
    return (ROOT / "pyproject.toml").is_file()


def jar_folder() -> Path:
    folder = os.environ.get("GROUPLEDGER_JARS")
    if folder:
        return Path(folder).absolute()
    if is_checkout():
        return ROOT / ".jars"
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "groupledger" / version("groupledger")


# Java


def java_path() -> str:
    """Returns the Java that Spark's launcher uses: that of JAVA_HOME if set, else the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def java_words(path: str) -> str:
    """Returns the version output of a Java."""
    return subprocess.run([path, "-version"], capture_output=True, text=True, check=False).stderr


def java_major(words: str) -> int | None:
    """Returns the major version in Java's output: the first number, except in 1.8 and before."""
    match = re.search(r'version "(?:1\.)?(\d+)', words)
    return None if match is None else int(match[1])


# Fetching


def set_up(
    folder: Path,
    say: Callable[[str], None],
    *,
    offline: Path | None = None,
    parts: Sequence[str] = (SPARK,),
    with_archive: bool = True,
) -> None:
    """Fetches those `parts` of the JARs that are not current in `folder`, and makes the archive of classes if
    `with_archive`. `offline` is a folder of JARs that were fetched elsewhere, to be used instead of the network: it has
    the JARs of the part `spark` itself, and those of each other part in a subfolder of its name.

    Raises InputError if Java is missing, or if the offline folder lacks a JAR or has an untested one, OutsideError if
    fetching fails or returns an untested JAR.
    """
    ivy = shipped_ivy()
    java = java_path()
    words = java_words(java) if shutil.which(java) else ""
    if java_major(words) not in JAVA_VERSIONS:
        raise InputError(f"There is no Java 17 or 21 at {java!r}: {JAVA_REMEDY}.")
    for name in parts:
        inputs = (jar_hashes.ivy_of(name), jar_hashes.list_of(name), CONF / "ivysettings.xml")
        stamp = Stamp(folder / name / ".stamp", *inputs)
        if stamp.is_current() and not jar_hashes.differences(folder / name, name):
            continue
        shutil.rmtree(folder / name, ignore_errors=True)
        if offline is not None:
            copy_jars(offline if name == SPARK else offline / name, folder / name)
        else:
            say(f"fetching the JARs of conf/ivy/{jar_hashes.ivy_of(name).name}")
            fetch_jars(java, ivy, folder, name)
            refuse_untested(folder / name)
        stamp.write()
    if with_archive:
        archive_classes(folder, words, say)


def copy_jars(source: Path, target: Path) -> None:
    """Copies the JARs of a part, named like the folder `target`, and no others. Raises InputError if `source` lacks a
    JAR or has one with another hash."""
    part = target.name
    wrong = jar_hashes.differences(source, part)
    if wrong:
        raise InputError(
            f"The JARs in {source} are not those of conf/ivy/{jar_hashes.list_of(part).name} ({_few(wrong)}): copy the"
            f" folder {part} from where `groupledger setup` of this release has put its JARs on another machine."
        )
    target.mkdir(parents=True)
    for name in jar_hashes.listed(part):
        shutil.copy(source / name, target)


def refuse_untested(folder: Path) -> None:
    """Raises OutsideError if the fetched JARs of a part are not the tested ones, after deleting them."""
    part = folder.name
    others = {jar.name for jar in folder.glob("*.jar")} - set(jar_hashes.listed(part))
    wrong = jar_hashes.differences(folder, part) + [f"{name} is not listed" for name in sorted(others)]
    if wrong:
        shutil.rmtree(folder)
        raise OutsideError(
            f"The JARs that were fetched are not those of conf/ivy/{jar_hashes.list_of(part).name} ({_few(wrong)}), and"
            f" none was kept: remove the folder {folder.parent / IVY_FOLDER} and run `groupledger setup` again. If they"
            " differ again, the repository serves other files than were tested."
        )


def _few(wrong: Sequence[str]) -> str:
    return wrong[0] + (f"; {len(wrong) - 1:,} more" if len(wrong) > 1 else "")


def fetch_jars(java: str, ivy: Path, folder: Path, name: str) -> None:
    """Fetches the JARs of the part `name` with Ivy. If that fails, raises OutsideError with the path of Ivy's
    output."""
    fetch_module(java, ivy, folder / IVY_FOLDER, jar_hashes.ivy_of(name), folder / name)


def fetch_module(java: str, ivy: Path, cache: Path, module: Path, target: Path) -> None:
    """Fetches the JARs that the Ivy file `module` names into `target`. If that fails, raises OutsideError with the path
    of Ivy's output."""
    command = [
        *(java, f"-Dgroupledger.ivy.dir={cache}", "-jar", str(ivy)),
        *("-settings", str(CONF / "ivysettings.xml"), "-ivy", str(module)),
        *("-types", "jar", "bundle", "-retrieve", str(target / "[artifact]-[revision].[ext]")),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0 or not any(target.glob("*.jar")):
        log = cache / f"{module.stem}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(answer.stdout + answer.stderr)
        raise OutsideError(
            f"The JARs of conf/ivy/{module.name} could not be fetched: check the network, then run `groupledger setup`"
            f" again (Ivy's own words: {log})."
        )


def archive_classes(folder: Path, java_says: str, say: Callable[[str], None]) -> None:
    """Makes the archive of Spark's classes if it is not current. Without the archive every command that starts Spark
    takes some seconds longer. Raises OutsideError if Spark does not run."""
    program = Path(__file__).with_name("class_archive.py")
    # Of the class path, in its order.
    parts = [jar_hashes.ivy_of(name) for name in (SPARK, S3) if (folder / name).is_dir()]
    stamp = Stamp(folder / f"{ARCHIVE}.stamp", program, *parts, fact=java_says)
    target = folder / ARCHIVE
    if stamp.is_current() and target.is_file():
        return
    say("keeping Spark's classes for the JVM (200 MB; a minute on idle cores; --without-archive leaves it out)")
    command = [sys.executable, "-m", "groupledger.jobs.process.class_archive", str(target)]
    environment = {**os.environ, "GROUPLEDGER_JARS": str(folder)}
    exit_code, words = run_with_children(command, environment)
    if exit_code != 0 or not target.is_file():
        raise OutsideError(
            "Spark does not run, so its classes could not be kept: give it 3 GiB of free memory, then run `groupledger"
            f" setup` again. Its last words: {words.strip()[-LAST_WORDS:]}"
        )
    stamp.write()


def run_with_children(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Runs a program, and returns its exit code and what was written to standard error until the last process of it had
    ended. If a signal ends this process meanwhile, ends all of them: the JVM of a program that is killed would go on
    alone, and then write its archive."""
    process = None
    try:
        with signals_wait():  # so that whatever was started is known
            process = subprocess.Popen(
                command,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
                start_new_session=True,
            )
        words = _last_words(process)
    except SystemExit:
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        raise
    return process.returncode, words


def _last_words(process: subprocess.Popen[str]) -> str:
    """Returns what the process wrote to standard error, when it has ended. It asks each second: Python runs the handler
    of a signal between two steps, so one that comes just before an endless call would wait for the end of the call."""
    words: str | None = None
    while words is None:
        with suppress(subprocess.TimeoutExpired):
            words = process.communicate(timeout=1)[1]
    return words


def shipped_ivy() -> Path:
    """Returns the path of the Ivy JAR that the installed pyspark ships. Raises ModuleNotFoundError if pyspark is not
    installed, InputError if it ships no Ivy or several."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(name="pyspark")
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar"))
    if len(found) != 1:
        raise InputError(
            "This pyspark has no Ivy of its own: install groupledger[spark] into an environment of its own."
        )
    return found[0]


class Stamp:
    """A file with the hash of the inputs that something was built from. The versions of Python and pyspark and the
    file's own path are inputs, too, since a build can't be moved."""

    def __init__(self, path: Path, *inputs: Path, fact: str = "") -> None:
        spark = version("pyspark") if find_spec("pyspark") else None
        digest = hashlib.sha256(f"{sys.version}\n{spark}\n{path}\n{fact}".encode())
        for file in inputs:
            digest.update(file.read_bytes())
        self.path = path
        self.fingerprint = digest.hexdigest()

    def is_current(self) -> bool:
        return self.path.is_file() and self.path.read_text() == self.fingerprint

    def write(self) -> None:
        self.path.write_text(self.fingerprint)
