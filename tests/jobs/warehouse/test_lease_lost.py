"""Goal: a process that has lost its lease says who has it now, or that nobody has and why it stopped all the same."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.warehouse import lease as lease_module
from groupledger.jobs.warehouse.lease import Lease
from groupledger.jobs.warehouse.lease_files import Holder, LeaseFile
from groupledger.jobs.warehouse.storage import LocalStorage

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "_groupledger/c/lease"
DURATION_S = 60
OTHER = LeaseFile(Holder("elsewhere", 7, "groupledger pipeline"), now_ms() + 60_000, is_released=False)


def held(tmp_path: Path, storage: LocalStorage | None = None) -> Lease:
    return Lease(storage or LocalStorage(tmp_path), "c", "groupledger monitor", DURATION_S)


class Clock:
    """The clock of leases, which stands still unless a test sets it."""

    def __init__(self) -> None:
        self.now_s = 0.0


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(lease_module, "uptime_s", lambda: made.now_s)
    return made


def why(lease: Lease) -> str:
    with pytest.raises(OutsideError) as lost:
        lease.check()
    with pytest.raises(OutsideError) as again:
        lease.look()
    assert str(again.value) == str(lost.value)
    return str(lost.value)


def test_nobody_took_over(tmp_path: Path, clock: Clock) -> None:
    """Goal: a process that stood still past its lease says for how long, and blames nobody, however late it is asked
    again."""
    with held(tmp_path) as lease:
        clock.now_s = 90
        said = why(lease)
        clock.now_s = 900
        assert why(lease) == said
    assert said == (
        "This process stood still for 90 s, longer than its lease of 60 s, and therefore stopped. What it had written"
        " stays: run it again."
    )


@pytest.mark.parametrize("seconds", [0, 90])
def test_somebody_took_over(tmp_path: Path, clock: Clock, seconds: int) -> None:
    """Goal: the sentence names the new holder, whether or not the old one stood still."""
    with held(tmp_path) as lease:
        assert LocalStorage(tmp_path).create(f"{FOLDER}/2.json", OTHER.dump())
        clock.now_s = seconds
        with pytest.raises(OutsideError) as lost:
            lease.look()
    assert str(lost.value).startswith(
        "Another writer took over this warehouse, `groupledger pipeline`, process 7 on elsewhere, so this one stopped."
    )


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    """Goal: nobody is blamed either if the folder of leases was deleted."""
    with held(tmp_path) as lease:
        LocalStorage(tmp_path).delete(f"{FOLDER}/1.json")
        with pytest.raises(OutsideError, match="The file of this process's lease is gone"):
            lease.look()


class Away(LocalStorage):
    """A storage that does not answer once it is away."""

    is_away = False

    def names(self, folder: str) -> list[str]:
        if self.is_away:
            raise OSError(errno.EIO, "the disk did not answer")
        return super().names(folder)


def test_a_storage_that_is_away(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a process that ran all the time, and whose renewals failed, says that the warehouse did not answer."""
    storage = Away(tmp_path)
    monkeypatch.setattr(lease_module, "RENEWALS_PER_DURATION", 6_000)
    with held(tmp_path, storage) as lease:
        storage.is_away = True
        clock.now_s = 90
        assert lease.lost.wait(timeout=60)
        assert why(lease).startswith("The warehouse did not answer this process for 90 s, longer than its lease of 60")
