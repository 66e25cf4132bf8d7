"""Builds all that groupledger needs on a fresh machine: the environment, then the JARs.

It uses only the standard library, since it runs before anything is installed. Each step leaves a stamp with the hash of
its inputs, so a second run does nothing, and a changed lock file or JAR list is built again.
- `.venv/`        from requirements/build.lock and requirements/project.lock, every file checked by its hash.
- `.jars/spark/`  Delta Lake and the Kafka connector, `.jars/kafka/` a whole Kafka broker for tests, demo and benchmark;
                  both resolved by the Ivy that pyspark ships, with the project's own cache (`.ivy/`) and settings, so
                  that neither ~/.ivy2 nor ~/.m2 is read.
- `.jars/spark-classes.jsa`  the classes of a Spark session, ready for the JVM that made it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
JAVA_VERSIONS = (17, 21)
PYTHON_MINIMUM = (3, 10)
JAR_SETS = ("spark", "kafka")


class SetupError(Exception):
    """One sentence that names the remedy."""


def main() -> int:
    try:
        check_python()
        java = find_java()
        build_environment()
        for name in JAR_SETS:
            retrieve_jars(java, name)
        archive_classes(java)
        install_browser()
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 2
    return 0


def check_python() -> None:
    if sys.version_info < PYTHON_MINIMUM:
        found = ".".join(str(part) for part in sys.version_info[:3])
        raise SetupError(
            f"Python {found} is too old: install Python 3.10 or newer and run `make PYTHON=/path/to/python3 setup`."
        )


def find_java() -> str:
    """Returns the Java that Spark's launcher will use: that of JAVA_HOME if set, else the one on the PATH."""
    remedy = "install a Java 17 or 21 runtime, or point JAVA_HOME at one"
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    if shutil.which(java) is None:
        raise SetupError(f"no Java was found at {java!r}: {remedy}.")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr)
    if answer.returncode != 0 or version is None:
        raise SetupError(f"{java!r} does not run as a Java runtime: {remedy}.")
    major = int(version[2]) if version[1] == "1" and version[2] else int(version[1])
    if major not in JAVA_VERSIONS:
        raise SetupError(f"Java {major} was found, and Spark 4.0 needs 17 or 21: {remedy}.")
    return java


def build_environment() -> None:
    locks = [ROOT / "requirements" / "build.lock", ROOT / "requirements" / "project.lock"]
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-virtualenv"]
    # pyspark comes as source only. The build tools come from a lock of their own, for an isolated build would fetch
    # whatever is newest that day.
    pip += ["--no-build-isolation", "--no-deps"]
    environment = Stamp(ENVIRONMENT / ".stamp", locks)
    if not environment.is_current():
        print("setup: building .venv (pyspark is a download of 450 MB; some minutes the first time)", flush=True)
        run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)])
        for lock in locks:
            run([*pip, "--require-hashes", "--requirement", str(lock)])
        environment.write()
    project = Stamp(ENVIRONMENT / ".stamp-project", [ROOT / "pyproject.toml"])
    if not project.is_current():
        run([*pip, "--editable", str(ROOT)])
        project.write()


def retrieve_jars(java: str, name: str) -> None:
    module = ROOT / "conf" / "ivy" / f"{name}.xml"
    settings = ROOT / "conf" / "ivysettings.xml"
    target = ROOT / ".jars" / name
    stamp = Stamp(target / ".stamp", [module, settings])
    if stamp.is_current():
        return
    print(f"setup: fetching the JARs of {module.relative_to(ROOT)}", flush=True)
    shutil.rmtree(target, ignore_errors=True)
    launcher = [
        java,
        f"-Dgroupledger.ivy.dir={ROOT / '.ivy'}",
        "-jar", str(shipped_ivy()),
        "-settings", str(settings),
        "-ivy", str(module),
        "-types", "jar", "bundle",
        "-retrieve", str(target / "[artifact]-[revision].[ext]"),
    ]  # fmt: skip
    answer = subprocess.run(launcher, capture_output=True, text=True, check=False)
    if answer.returncode != 0 or not any(target.glob("*.jar")):
        log = ROOT / ".ivy" / f"{name}.log"
        log.parent.mkdir(exist_ok=True)
        log.write_text(answer.stdout + answer.stderr)
        raise SetupError(
            f"the JARs of conf/ivy/{name}.xml could not be fetched: check the network, then run `make setup` again"
            f" (Ivy's own words: {log.relative_to(ROOT)})."
        )
    stamp.write()


def archive_classes(java: str) -> None:
    """Makes the archive of classes. Without it every command that starts Spark takes some seconds longer."""
    version = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    program = ROOT / "tools" / "class_archive.py"
    inputs = [program, ROOT / "conf" / "ivy" / "spark.xml", ROOT / "requirements" / "project.lock"]
    target = ROOT / ".jars" / "spark-classes.jsa"
    stamp = Stamp(target.with_suffix(".stamp"), inputs, version)
    if stamp.is_current() and target.is_file():
        return
    print("setup: keeping Spark's classes for the JVM (a minute)", flush=True)
    answer = subprocess.run([PYTHON, program, target], capture_output=True, text=True, check=False)
    if answer.returncode != 0 or not target.is_file():
        raise SetupError(
            "Spark does not run, so its classes could not be archived: give it 3 GiB of free memory, then run"
            f" `make setup` again. Its last words: {answer.stderr.strip()[-300:]}"
        )
    stamp.write()


def shipped_ivy() -> Path:
    found = sorted(ENVIRONMENT.glob("lib/python*/site-packages/pyspark/jars/ivy-*.jar"))
    if len(found) != 1:
        raise SetupError("the environment lacks pyspark's Ivy: remove .venv and run `make setup` again.")
    return found[0]


class Stamp:
    """A file with the hash of the inputs that something was built from. The interpreter and the path are inputs too,
    since an environment can't be moved."""

    def __init__(self, path: Path, inputs: list[Path], fact: str = "") -> None:
        digest = hashlib.sha256(f"{sys.version}\n{ROOT}\n{fact}".encode())
        for file in inputs:
            digest.update(file.read_bytes())
        self.path = path
        self.fingerprint = digest.hexdigest()

    def is_current(self) -> bool:
        return self.path.is_file() and self.path.read_text() == self.fingerprint

    def write(self) -> None:
        self.path.write_text(self.fingerprint)


def install_browser() -> None:
    """Installs the browser for the tests of the report, on CI machines only, and never on a developer's machine."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    is_debian_root = os.geteuid() == 0 and shutil.which("apt-get") is not None
    if os.environ.get("CI") and is_debian_root and not any(map(shutil.which, names)):
        run(["apt-get", "update", "--quiet"])
        run(["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "chromium", "fonts-dejavu-core"])


def run(command: list[str]) -> None:
    answer = subprocess.run(command, check=False)
    if answer.returncode != 0:
        raise SetupError(f"{Path(command[0]).name} {command[-1]} failed: its own message stands above this line.")


if __name__ == "__main__":
    sys.exit(main())
