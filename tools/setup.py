"""Builds all that groupledger needs on a fresh machine: the environment, then the JARs.

It uses only the standard library, since it runs before anything is installed. Each step leaves a stamp with the hash of
its inputs, so a second run does nothing, and a changed lock file or JAR list is built again.
- `.venv/`   from requirements/build.lock and requirements/project.lock, every file checked by its hash.
- `.jars/`   by `groupledger setup` (`jobs.process.jars`): what Spark needs, and a whole Kafka broker for tests, demo
             and benchmarks.
With `--for-demo`, for `make demo`, only what one run of it needs: no broker, and no archive of Spark's classes.
With `--with-cluster`, for `make test-cluster`, also Hadoop's S3 client, and
- `.s3-server/`  from requirements/s3-server.lock: an environment apart with a server of S3's interface.
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
S3_SERVER = ROOT / ".s3-server"
WITH_CLUSTER = "--with-cluster"
FOR_DEMO = "--for-demo"
PIP_OPTIONS = ("--quiet", "--disable-pip-version-check", "--require-virtualenv", "--no-deps")
PYTHON = ENVIRONMENT / "bin" / "python"
JAVA_VERSIONS = (17, 21)
PYTHON_MINIMUM = (3, 10)


class SetupError(Exception):
    """One sentence that names the remedy."""


def main() -> int:
    try:
        check_python()
        find_java()
        build_environment()
        own_setup = [str(ENVIRONMENT / "bin" / "groupledger"), "setup"]
        if FOR_DEMO in sys.argv[1:]:
            run([*own_setup, "--without-archive"])
            return 0
        own_setup.append("--with-broker")
        if WITH_CLUSTER in sys.argv[1:]:
            build_apart(S3_SERVER)
            run([*own_setup, "--with-s3"])
            return 0
        run(own_setup)
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


def find_java() -> None:
    """Looks for the Java that Spark's launcher will use, before anything large is fetched: that of JAVA_HOME if set,
    else the one on the PATH."""
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
        raise SetupError(f"Java {major} was found, and Spark needs 17 or 21: {remedy}.")


def build_environment() -> None:
    locks = [ROOT / "requirements" / "build.lock", ROOT / "requirements" / "project.lock"]
    # pyspark comes as source only. The build tools come from a lock of their own, for an isolated build would fetch
    # whatever is newest that day.
    pip = [str(PYTHON), "-m", "pip", "install", *PIP_OPTIONS, "--no-build-isolation"]
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


def build_apart(folder: Path) -> None:
    """Builds an environment of its own from the lock file of the same name."""
    lock = ROOT / "requirements" / f"{folder.name.lstrip('.')}.lock"
    stamp = Stamp(folder / ".stamp", [lock])
    if not stamp.is_current():
        print(f"setup: building {folder.name}", flush=True)
        run([sys.executable, "-m", "venv", "--clear", str(folder)])
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", *PIP_OPTIONS]
        run([*pip, "--require-hashes", "--requirement", str(lock)])
        stamp.write()


class Stamp:
    """A file with the hash of the inputs that something was built from. The interpreter and the path are inputs too,
    since an environment can't be moved."""

    def __init__(self, path: Path, inputs: list[Path]) -> None:
        digest = hashlib.sha256(f"{sys.version}\n{ROOT}".encode())
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
