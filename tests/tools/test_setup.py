"""Goal: each way to set up fetches what its commands need, and no more."""

from __future__ import annotations

import sys

import pytest

from tools import setup

OWN = "groupledger setup"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], [f"{OWN} --with-broker"]),
        (["--for-demo"], [f"{OWN} --without-archive"]),
        (["--with-cluster"], [f"{OWN} --with-broker --with-s3"]),
    ],
)
def test_what_is_fetched(monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: list[str]) -> None:
    ran: list[str] = []
    monkeypatch.setattr(sys, "argv", ["tools/setup.py", *arguments])
    for name in ("find_java", "build_environment", "install_browser"):
        monkeypatch.setattr(setup, name, lambda: None)
    monkeypatch.setattr(setup, "build_apart", lambda _: None)
    monkeypatch.setattr(setup, "run", lambda command: ran.append(" ".join(command).rpartition("/")[2]))
    assert setup.main() == 0
    assert ran == expected
