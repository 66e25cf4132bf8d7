"""Builds all that groupledger needs on a fresh machine: the environment, then the JARs.

It uses only the standard library, since it runs before anything is installed. Each step leaves a stamp with the hash of
its inputs, so a second run does nothing, and a changed lock file or JAR list is built again.
- `.venv/`   from requirements/build.lock and requirements/project.lock, every file checked by its hash. Pyspark, which
             is a download of 450 MB and has to be built, is installed beside all others.
- `.jars/`   by `groupledger setup` (`jobs.process.jars`): what Spark needs, and a whole Kafka broker for tests, demo
             and benchmarks. Then the archive of the broker's classes (`lab.kafka.class_archive`).
With `--for-demo`, for `make demo`, only what one run of it needs: the packages of requirements/spark.lock, no broker,
and no archive of Spark's classes. An environment with all packages is left as it is.
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
S3_SERVER = ROOT / ".s3-server"
REQUIREMENTS = ROOT / "requirements"
PROJECT_LOCK = REQUIREMENTS / "project.lock"
DEMO_LOCK = REQUIREMENTS / "spark.lock"
WITH_CLUSTER = "--with-cluster"
FOR_DEMO = "--for-demo"
# Python compiles the modules that it imports: a quarter of all modules that pip would compile.
PIP_OPTIONS = ("--quiet", "--disable-pip-version-check", "--require-virtualenv", "--no-deps", "--no-compile")
PYTHON = ENVIRONMENT / "bin" / "python"
JAVA_VERSIONS = (17, 21)
PYTHON_MINIMUM = (3, 10)


class SetupError(Exception):
    """One sentence that names the remedy."""


def main() -> int:
    try:
        check_python()
        find_java()
        own_setup = [str(ENVIRONMENT / "bin" / "groupledger"), "setup"]
        if FOR_DEMO in sys.argv[1:]:
            build_environment(PROJECT_LOCK, DEMO_LOCK)
            run([*own_setup, "--without-archive"])
            return 0
        build_environment(PROJECT_LOCK)
        own_setup.append("--with-broker")
        if WITH_CLUSTER in sys.argv[1:]:
            build_apart(S3_SERVER)
            run([*own_setup, "--with-s3"])
            return 0
        run(own_setup)
        run([str(PYTHON), "-m", "lab.kafka.class_archive"])
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
    """Raises SetupError if the Java that Spark's launcher will use is missing or unfit, before anything large is
    fetched: that of JAVA_HOME if set, else the one on the PATH."""
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


def build_environment(*locks: Path) -> None:
    """Builds the environment from the last of these lock files, unless it has been built from one of them."""
    build_lock = REQUIREMENTS / "build.lock"
    stamps = [Stamp(ENVIRONMENT / ".stamp", [build_lock, lock]) for lock in locks]
    if not any(stamp.is_current() for stamp in stamps):
        print("setup: building .venv (pyspark is a download of 450 MB; some minutes the first time)", flush=True)
        run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)])
        install("--require-hashes", "--requirement", str(build_lock))
        install_beside_pyspark(locks[-1])
        stamps[-1].write()
    project = Stamp(ENVIRONMENT / ".stamp-project", [ROOT / "pyproject.toml"])
    if not project.is_current():
        install("--editable", str(ROOT))
        project.write()


def install_beside_pyspark(lock: Path) -> None:
    """Installs the packages of a lock file with two processes, pyspark in its own: the other packages are built while
    it downloads."""
    pyspark, others = split_lock(lock.read_text())
    files = [ENVIRONMENT / "pyspark.lock", ENVIRONMENT / "others.lock"]
    for file, text in zip(files, (pyspark, others), strict=True):
        file.write_text(text)
    with ThreadPoolExecutor(len(files)) as pool:
        for done in [pool.submit(install, "--require-hashes", "--requirement", str(file)) for file in files]:
            done.result()


def split_lock(text: str) -> tuple[str, str]:
    """Returns the entry of pyspark in a lock file, with its hashes, and all other entries."""
    entry = re.search(r"^pyspark==(.*\\\n)+.*\n", text, re.MULTILINE)
    if entry is None:
        raise SetupError("The lock file names no pyspark: check out requirements/ again.")
    return entry[0], text.replace(entry[0], "")


def install(*arguments: str) -> None:
    """Installs packages into the environment. Pyspark comes as source only; the tools that build it are those of
    requirements/build.lock, since an isolated build would download the newest ones, and their settings those of
    requirements/build.cfg."""
    settings = {"DIST_EXTRA_CONFIG": str(REQUIREMENTS / "build.cfg")}
    run([str(PYTHON), "-m", "pip", "install", *PIP_OPTIONS, "--no-build-isolation", *arguments], settings)


def build_apart(folder: Path) -> None:
    """Builds a separate environment from the lock file of the same name."""
    lock = REQUIREMENTS / f"{folder.name.lstrip('.')}.lock"
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
    """Installs the browser and axe-core for the tests of pages, on CI machines only, never on a developer's machine."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    is_debian_root = os.geteuid() == 0 and shutil.which("apt-get") is not None
    if os.environ.get("CI") and is_debian_root and not any(map(shutil.which, names)):
        run(["apt-get", "update", "--quiet"])
        run(["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "chromium", "fonts-dejavu-core"])
    if os.environ.get("CI") and shutil.which("npm"):
        axe = ["npm", "ci", "--ignore-scripts", "--no-audit", "--prefix", str(REQUIREMENTS / "axe")]
        if subprocess.run(axe, check=False).returncode != 0:
            print("setup: axe-core is not here, so no test checks the pages by it", flush=True)


def run(command: list[str], settings: dict[str, str] | None = None) -> None:
    answer = subprocess.run(command, check=False, env={**os.environ, **(settings or {})})
    if answer.returncode != 0:
        raise SetupError(f"{Path(command[0]).name} {command[-1]} failed: its own message stands above this line.")


if __name__ == "__main__":
    sys.exit(main())
