"""Goal: at most one holder at any time, and a lease that a dead holder left behind stands in nobody's way."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.warehouse.lease import Holder, Lease, LeaseFile, this_host
from groupledger.jobs.warehouse.storage import LocalStorage

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "_groupledger/c/lease"


def lease(tmp_path: Path, duration_s: float = 60) -> Lease:
    return Lease(LocalStorage(tmp_path), "c", "groupledger ingest", duration_s)


def leave_behind(tmp_path: Path, holder: Holder, expires_in_ms: int) -> None:
    """A lease whose holder is gone without a word."""
    LocalStorage(tmp_path).write(
        f"{FOLDER}/7.json", LeaseFile(holder, now_ms() + expires_in_ms, is_released=False).dump()
    )


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_second_writer_is_refused_by_name(tmp_path: Path) -> None:
    """Goal: the sentence says who holds the warehouse, and the exit code is that of the outside."""
    with lease(tmp_path), pytest.raises(OutsideError, match=r"`groupledger ingest`, process \d+ on") as refused:
        lease(tmp_path).__enter__()
    assert refused.value.exit_code == 3


def test_a_released_lease_is_free(tmp_path: Path) -> None:
    """Goal: one writer after the other, without waiting."""
    for _ in range(3):
        with lease(tmp_path):
            pass


def test_of_many_at_once_one_wins(tmp_path: Path) -> None:
    """Goal: writers that start in the same instant don't all believe that they have it."""
    barrier, release = threading.Barrier(8), threading.Event()
    results: list[str] = []

    def try_it() -> None:
        one = lease(tmp_path)
        barrier.wait()
        try:
            with one:
                results.append("holds")
                release.wait()
        except OutsideError:
            results.append("refused")
            if results.count("refused") == 7:
                release.set()

    threads = [threading.Thread(target=try_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["holds"] + ["refused"] * 7


@pytest.mark.parametrize(
    ("host", "process", "expires_in_ms", "is_free"),
    [
        ("elsewhere", 1, 30_000, False),
        ("elsewhere", 1, -1, True),
        (this_host(), dead_process(), 30_000, True),
        (this_host(), 1, 30_000, False),
    ],
    ids=["other host", "expired", "dead here", "alive here"],
)
def test_a_lease_that_was_left(tmp_path: Path, host: str, process: int, expires_in_ms: int, is_free: bool) -> None:
    """Goal: an expired lease, and one of a dead process of this host, are taken over; any other is honoured."""
    leave_behind(tmp_path, Holder(host, process, "groupledger ingest"), expires_in_ms)
    if is_free:
        with lease(tmp_path):
            assert LocalStorage(tmp_path).names(FOLDER)[-1] == "8.json"
    else:
        with pytest.raises(OutsideError, match=host.split("/", maxsplit=1)[0]):
            lease(tmp_path).__enter__()


def test_a_holder_that_was_overtaken_is_told(tmp_path: Path) -> None:
    """Goal: a writer that slept past its expiry stops, and leaves the new holder's lease alone."""
    with lease(tmp_path, duration_s=0.3) as held:
        new = LeaseFile(Holder("elsewhere", 1, "groupledger ingest"), now_ms() + 60_000, is_released=False)
        assert LocalStorage(tmp_path).create(f"{FOLDER}/2.json", new.dump())
        assert held.lost.wait(timeout=30)
    assert LeaseFile.parse(LocalStorage(tmp_path).read(f"{FOLDER}/2.json") or "") == new


def test_the_holder_renews(tmp_path: Path) -> None:
    """Goal: a lease does not run out under a living holder."""
    with lease(tmp_path, duration_s=0.3):
        first = json.loads(LocalStorage(tmp_path).read(f"{FOLDER}/1.json") or "")["expires_at_ms"]
        renewed = threading.Event()
        for _ in range(300):
            if json.loads(LocalStorage(tmp_path).read(f"{FOLDER}/1.json") or "")["expires_at_ms"] > first:
                renewed.set()
                break
            renewed.wait(0.1)
        assert renewed.is_set()
