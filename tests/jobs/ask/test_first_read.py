"""Goal: a question that comes while a process reads the topic for the first time says who reads, and proposes no second
writer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.warehouse.lease_files import Holder, LeaseFile, this_host
from groupledger.jobs.warehouse.storage import LocalStorage
from tests.jobs.cli.test_cli import run

if TYPE_CHECKING:
    from pathlib import Path


def leave(warehouse: Path, *, is_released: bool) -> None:
    holder = Holder(this_host(), os.getpid(), "groupledger monitor")
    text = LeaseFile(holder, now_ms() + 3_600_000, is_released).dump()
    LocalStorage(warehouse).write("_groupledger/east/lease/3.json", text)


@pytest.mark.parametrize("question", [("why", "orders"), ("groups",), ("lag",)])
@pytest.mark.parametrize("cluster", [(), ("--cluster", "east")])
def test_a_writer_reads(tmp_path: Path, question: tuple[str, ...], cluster: tuple[str, ...]) -> None:
    """Goal: as long as the lease is held, the remedy is to wait; afterwards, and for another cluster, it is the usual
    one."""
    asked = (*question, "--warehouse", str(tmp_path), *cluster)
    leave(tmp_path, is_released=False)
    code, said = run(*asked)
    assert code == 4
    assert f"`groupledger monitor`, process {os.getpid()} on " in said
    assert "is reading the topic of cluster east for the first time; ask again when it is done." in said
    assert "first time" not in run(*question, "--warehouse", str(tmp_path), "--cluster", "west")[1]
    leave(tmp_path, is_released=True)
    code, said = run(*asked)
    assert "first time" not in said
    assert "run `groupledger" in said


def test_a_wrong_option_stays_wrong(tmp_path: Path) -> None:
    """Goal: what no waiting puts right is reported as it is, also during the first read."""
    leave(tmp_path, is_released=False)
    settings = tmp_path / "settings.yaml"
    settings.write_text("monitor: {no_such_setting: 1}\n")
    code, said = run("groups", "--warehouse", str(tmp_path), "--conf", str(settings))
    assert code == 2
    assert "no_such_setting" in said
    assert "first time" not in said
