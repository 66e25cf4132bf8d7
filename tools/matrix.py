"""Runs the quick tests on every Python that is promised, and a part of Spark's tests on each Spark: `make test-matrix`.

    python -m tools.matrix                     # all parts
    python -m tools.matrix python-3.13 spark-4.0

Each part has an environment of its own under `.matrix/`, from the lock files by their hashes, which `uv` makes. A
Python is looked for on the PATH and among pyenv's, and then asked of uv, which may download it. One that cannot be had
is reported, and fails nothing. DuckDB is the newest that the lock has for the Python: 1.5 for 3.10, 2.0 from 3.11 on.
On the Sparks, `bench.spark_versions` then compares the tables of one simulated day.

The parts and how they ended are printed at last. Exit code 1: a part failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.setup import ROOT, SetupError, Stamp

HERE = ROOT / ".matrix"
REQUIREMENTS = ROOT / "requirements"
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
QUICK = "not spark and not broker and not fault and not java and not browser and not slow and not cluster"
QUICK_TESTS = (
    *("tests/coordinator", "tests/schemas", "tests/transforms", "tests/conf", "tests/jobs/cli", "tests/jobs/process"),
)
SPARKS = {"4.0": ("spark-4.0.lock",), "4.2": ()}
"""The locks of a Spark beside the project's."""
SPARK_TESTS = (
    *("tests/schemas", "tests/transforms/test_by_group.py", "tests/transforms/records", "tests/jobs/process"),
    *("tests/jobs/warehouse/test_tables.py", "tests/jobs/ingest/test_ingest_capture.py"),
    "tests/jobs/ask/test_spark_engine.py",
)
DOWNLOAD_S_MAX = 300


@dataclass(frozen=True)
class Part:
    """Some tests on an interpreter, in the environment of its name."""

    name: str
    python: str
    locks: tuple[str, ...]
    tests: tuple[str, ...]
    marks: str

    @property
    def folder(self) -> Path:
        return HERE / self.name

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "GROUPLEDGER_JARS": str(self.folder / "jars")}


def parts() -> list[Part]:
    own = ".".join(map(str, sys.version_info[:2]))
    return [
        *(Part(f"python-{each}", each, (), QUICK_TESTS, QUICK) for each in PYTHONS),
        *(
            Part(f"spark-{each}", own, locks, SPARK_TESTS, "spark and not cluster and not slow")
            for each, locks in SPARKS.items()
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="PART", help=", ".join(each.name for each in parts()))
    names = parser.parse_args().names
    if shutil.which("uv") is None:
        print("matrix: there is no uv: run `pip install uv`.", file=sys.stderr)
        return 2
    asked = [each for each in parts() if not names or each.name in names]
    results = {each.name: outcome(each) for each in asked}
    sparks = [HERE / each.name / "bin" / "python" for each in asked if each.name.startswith("spark-")]
    if len(sparks) > 1 and all(each.is_file() for each in sparks):
        results["equal tables"] = ended(
            [str(sparks[-1]), "-m", "bench.spark_versions", *map(str, sparks)], dict(os.environ)
        )
    print("\n".join(f"matrix: {name}: {words}" for name, words in results.items()))
    return 1 if "failed" in results.values() else 0


def outcome(part: Part) -> str:
    """Runs a part, and returns its outcome in a few words."""
    interpreter = interpreter_of(part.python)
    if interpreter is None:
        return f"not run, there is no Python {part.python} to be had"
    try:
        build(part, interpreter)
    except SetupError as error:
        print(f"matrix: {part.name}: {error}", flush=True)
        return "failed"
    python = str(part.folder / "bin" / "python")
    return ended([python, "-m", "pytest", "-n", "2", "-q", "-m", part.marks, *part.tests], part.environment)


def interpreter_of(version: str) -> str | None:
    """Returns an interpreter of a version; None if none can be found or installed."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for each in [shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))]:
        if each is not None and said([each, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]) == version:
            return each
    said(["uv", "python", "install", "--no-bin", version])
    return said(["uv", "python", "find", "--managed-python", version])


def said(command: list[str]) -> str | None:
    """Returns the output of a command; None if it fails or takes too long."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DOWNLOAD_S_MAX)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def build(part: Part, interpreter: str) -> None:
    """Builds the environment of a part, unless it is current."""
    build_lock, locks = REQUIREMENTS / "build.lock", [REQUIREMENTS / name for name in ("project.lock", *part.locks)]
    stamp = Stamp(part.folder / ".stamp", [build_lock, *locks, ROOT / "pyproject.toml"])
    if not stamp.is_current():
        print(f"matrix: building {part.name} over {interpreter}", flush=True)
        shutil.rmtree(part.folder, ignore_errors=True)
        install = ["uv", "pip", "install", "--quiet", "--python", str(part.folder), "--no-deps", "--no-build-isolation"]
        ran(["uv", "venv", "--quiet", "--python", interpreter, str(part.folder)])
        for lock in (build_lock, *locks):
            ran([*install, "--require-hashes", "--requirement", str(lock)])
        ran([*install, "--editable", str(ROOT)])
        stamp.write()
    if part.name.startswith("spark-"):
        ran([str(part.folder / "bin" / "groupledger"), "setup"], part.environment)


def ran(command: list[str], environment: dict[str, str] | None = None) -> None:
    if subprocess.run(command, check=False, env=environment).returncode != 0:
        raise SetupError(f"{Path(command[0]).name} failed: its own message stands above this line.")


def ended(command: list[str], environment: dict[str, str]) -> str:
    print(f"matrix: {' '.join(command)}", flush=True)
    return "passed" if subprocess.run(command, cwd=ROOT, check=False, env=environment).returncode == 0 else "failed"


if __name__ == "__main__":
    sys.exit(main())
