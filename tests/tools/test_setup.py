"""Goal: each way to set up fetches what its commands need, and no more."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from tools import setup

if TYPE_CHECKING:
    from pathlib import Path

OWN = "groupledger setup"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], [f"{OWN} --with-broker", "python -m lab.kafka.class_archive"]),
        (["--for-demo"], [f"{OWN} --without-archive"]),
        (["--with-cluster"], [f"{OWN} --with-broker --with-s3"]),
    ],
)
def test_what_is_fetched(monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: list[str]) -> None:
    ran: list[str] = []
    monkeypatch.setattr(sys, "argv", ["tools/setup.py", *arguments])
    for name in ("find_java", "build_environment", "install_browser", "build_apart"):
        monkeypatch.setattr(setup, name, lambda *_: None)
    monkeypatch.setattr(setup, "run", lambda command: ran.append(" ".join(command).rpartition("/")[2]))
    assert setup.main() == 0
    assert ran == expected


@pytest.mark.parametrize("lock", [setup.PROJECT_LOCK, setup.DEMO_LOCK])
def test_pyspark_is_split_from_a_lock(lock: Path) -> None:
    """Goal: pyspark and all other packages are in one of the two parts each, with their hashes."""
    pyspark, others = setup.split_lock(lock.read_text())
    assert re.findall(r"^\S+(?===)", pyspark, re.MULTILINE) == ["pyspark"]
    assert sorted((pyspark + others).splitlines()) == sorted(lock.read_text().splitlines())
    assert "pyspark==" not in others
    for line in re.sub(r"\\\n", "", pyspark + others).splitlines():
        assert "--hash=sha256:" in line


def test_an_environment_with_all_packages_serves_the_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Goal: `make demo` after `make setup` installs nothing, and `make setup` after `make demo` installs the rest."""
    environment = tmp_path / ".venv"
    built: list[Path] = []
    monkeypatch.setattr(setup, "ENVIRONMENT", environment)
    monkeypatch.setattr(setup, "run", lambda *_: environment.mkdir(exist_ok=True))
    monkeypatch.setattr(setup, "install_beside_pyspark", built.append)
    setup.build_environment(setup.PROJECT_LOCK, setup.DEMO_LOCK)
    setup.build_environment(setup.PROJECT_LOCK, setup.DEMO_LOCK)
    assert built == [setup.DEMO_LOCK]
    setup.build_environment(setup.PROJECT_LOCK)
    setup.build_environment(setup.PROJECT_LOCK, setup.DEMO_LOCK)
    assert built == [setup.DEMO_LOCK, setup.PROJECT_LOCK]
