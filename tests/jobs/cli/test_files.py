"""Goal: only their owner can read the files that the commands make, and the commands leave no files elsewhere."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from groupledger.jobs.cli.main import main
from groupledger.jobs.process import jars, session

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]


def test_the_settings_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: files are their owner's alone from the first moment on, unless the settings say otherwise; Hadoop's client
    gets the same mask as the process."""
    monkeypatch.setattr(session, "local_jars", lambda: ["a.jar"])
    conf = tmp_path / "conf.yaml"
    conf.write_text("storage: {umask: '027'}")
    before = os.umask(0o022)
    try:
        CliRunner().invoke(main, ["simulate", "--list"])
        assert session.umask() == 0o077
        CliRunner().invoke(main, ["doctor", "--conf", str(conf), "--warehouse", str(tmp_path)])
        assert session.umask() == 0o027
        assert session.own_settings("")["spark.hadoop.fs.permissions.umask-mode"] == "027"
        assert session.own_settings("")["spark.driver.extraJavaOptions"].count(f"tmpdir={tempfile.gettempdir()}") == 1
    finally:
        os.umask(before)


def test_set_up_is_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: JARs that an administrator has fetched can be read by the user of the service; the last line says that all
    is done, and which command comes next."""
    monkeypatch.setenv("GROUPLEDGER_JARS", str(tmp_path / "jars"))
    monkeypatch.setattr(jars, "set_up", lambda folder, *_, **__: folder.mkdir())
    before = os.umask(0o022)
    try:
        done = CliRunner().invoke(main, ["setup"])
    finally:
        os.umask(before)
    assert done.exit_code == 0
    assert stat.S_IMODE((tmp_path / "jars").stat().st_mode) == 0o755
    assert done.stderr.startswith(f"setup: done, in {tmp_path / 'jars'}; next: `groupledger doctor ")


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose name has a space, and whose path is short enough for Spark's Unix sockets."""
    with tempfile.TemporaryDirectory(prefix="a ") as made:
        assert session.is_fit_for_sockets(made, 0o022)
        yield Path(made)


@pytest.mark.spark
def test_what_is_left_behind(tmp_path: Path, short_folder: Path) -> None:
    """Goal: after a pass nobody else may read a file of the warehouse, of the capture or of the report, and the working
    directory and the temporary one are empty."""
    work, made = (tmp_path / name for name in ("work", "made"))
    for folder in (work, made):
        folder.mkdir()
    scratch = short_folder
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)}
    environment["JAVA_TOOL_OPTIONS"] = session.SHORT_LIVED

    def run(*arguments: str) -> None:
        command = [sys.executable, "-m", "groupledger.jobs.cli.main", *arguments]
        done = subprocess.run(
            command, cwd=work, env=environment, capture_output=True, text=True, check=False, umask=0o022
        )
        assert done.returncode == 0, done.stderr

    simulated, warehouse = made / "simulated", str(made / "warehouse")
    run("simulate", "--scenario", "crash", "--out", str(simulated))
    run("pipeline", "--capture", str(simulated / "capture"), "--samples", str(simulated), "--warehouse", warehouse)
    run("report", "--warehouse", warehouse, "--out", str(made / "report.html"))
    found = [path for path in made.rglob("*") if not path.is_symlink()]
    assert {"_groupledger", "_checkpoints", "_delta_log", "capture", "report.html"} <= {path.name for path in found}
    open_to_others = [path for path in found if stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert open_to_others == []
    assert [*work.rglob("*"), *scratch.rglob("*")] == []
