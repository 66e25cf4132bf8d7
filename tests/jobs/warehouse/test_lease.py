"""Goal: a lease has at most one holder at any time, and the lease of a dead holder stops nobody."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.warehouse import lease as lease_module
from groupledger.jobs.warehouse.lease import Lease
from groupledger.jobs.warehouse.lease_files import Holder, LeaseFile, this_host
from groupledger.jobs.warehouse.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow

FOLDER = "_groupledger/c/lease"


def lease(tmp_path: Path, duration_s: float = 60, storage: LocalStorage | None = None) -> Lease:
    return Lease(storage or LocalStorage(tmp_path), "c", "groupledger ingest", duration_s)


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


HOLDS = """
import pathlib, sys
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.warehouse.lease import Lease
from groupledger.jobs.warehouse.storage import LocalStorage
one = Lease(LocalStorage(pathlib.Path(sys.argv[1])), "c", "groupledger pipeline", 60)
print("ready", flush=True)
sys.stdin.readline()
try:
    with one:
        print(one.token, flush=True)
        sys.stdin.readline()
except OutsideError as refused:
    print(refused, flush=True)
    sys.exit(refused.exit_code)
"""


def test_of_ten_processes_one_wins(tmp_path: Path) -> None:
    """Goal: ten commands begin at once on a warehouse that does not exist yet: one gets the lease, and each of the
    others reports in a sentence who has it, and ends with 3."""
    command = [sys.executable, "-c", HOLDS, str(tmp_path / "warehouse")]
    ten = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(10)]
    for each in ten:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in ten:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    said = [each.stdout.readline().strip() for each in ten if each.stdout is not None]
    for each in ten:
        each.communicate("\n")
    ends = sorted(zip((each.returncode for each in ten), said, strict=True))
    assert ends[0] == (0, "1")
    for code, words in ends[1:]:
        assert code == 3
        assert words.startswith(("Another writer holds this warehouse: `groupledger pipeline`", "Another writer came"))


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
        with lease(tmp_path, duration_s=1):
            assert LocalStorage(tmp_path).names(FOLDER)[-1] == "8.json"
    else:
        with pytest.raises(OutsideError, match=host.split("/", maxsplit=1)[0]):
            lease(tmp_path).__enter__()


def test_a_holder_that_was_overtaken_is_reported(tmp_path: Path) -> None:
    """Goal: a writer that slept past its expiry stops, and leaves the new holder's lease alone."""
    with lease(tmp_path, duration_s=3) as held:
        new = LeaseFile(Holder("elsewhere", 1, "groupledger ingest"), now_ms() + 60_000, is_released=False)
        assert LocalStorage(tmp_path).create(f"{FOLDER}/2.json", new.dump())
        assert held.lost.wait(timeout=30)
    assert LeaseFile.parse(LocalStorage(tmp_path).read(f"{FOLDER}/2.json")) == new


def test_the_holder_renews(tmp_path: Path) -> None:
    """Goal: a lease does not run out under a living holder."""
    with lease(tmp_path, duration_s=3):
        first = json.loads(LocalStorage(tmp_path).read(f"{FOLDER}/1.json") or "")["expires_at_ms"]
        renewed = threading.Event()
        for _ in range(300):
            if json.loads(LocalStorage(tmp_path).read(f"{FOLDER}/1.json") or "")["expires_at_ms"] > first:
                renewed.set()
                break
            renewed.wait(0.1)
        assert renewed.is_set()


class Unreliable(LocalStorage):
    """A storage whose next writes fail."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.failures = 0
        self.writes = 0

    def write(self, name: str, text: str) -> None:
        self.writes += 1
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EIO, "the disk did not answer")
        super().write(name, text)


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(3_000):
        if holds():
            return
        threading.Event().wait(0.1)
    raise AssertionError("it never came true")


def test_a_renewal_that_fails(tmp_path: Path) -> None:
    """Goal: one error of the storage does not end the renewals; the next one succeeds."""
    storage = Unreliable(tmp_path)
    with lease(tmp_path, duration_s=6, storage=storage) as held:
        storage.failures = 1
        wait_until(lambda: storage.writes >= 3)
        held.check()


def test_renewals_that_all_fail(tmp_path: Path) -> None:
    """Goal: a holder whose renewals fail for the whole duration knows that the lease is lost, and another one takes
    it."""
    storage = Unreliable(tmp_path)
    with lease(tmp_path, duration_s=1, storage=storage) as held:
        storage.failures = 1_000_000
        assert held.lost.wait(timeout=300)
        with pytest.raises(OutsideError, match="The warehouse did not answer this process for"):
            held.check()


def test_a_holder_that_slept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a process that was stopped for longer than the lease knows it at its first look, before any renewal."""
    with lease(tmp_path) as held:
        monkeypatch.setattr(lease_module, "uptime_s", lambda: time.clock_gettime(time.CLOCK_BOOTTIME) + 61)
        with pytest.raises(OutsideError, match="This process stood still for"):
            held.check()


def test_a_lease_file_that_was_deleted(tmp_path: Path) -> None:
    """Goal: the holder notices that its file is gone, and does not make it again."""
    with lease(tmp_path, duration_s=3) as held:
        LocalStorage(tmp_path).delete(f"{FOLDER}/1.json")
        assert held.lost.wait(timeout=300)
    assert LocalStorage(tmp_path).names(FOLDER) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"holder": 7}', "\x00"])
def test_a_file_that_nobody_can_read(tmp_path: Path, text: str) -> None:
    """Goal: an empty or broken lease file holds nobody up for longer than a lease."""
    LocalStorage(tmp_path).write(f"{FOLDER}/7.json", text)
    with lease(tmp_path, duration_s=1):
        assert LocalStorage(tmp_path).names(FOLDER)[-1] == "8.json"


def test_a_clock_that_is_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a host whose clock is an hour ahead does not take over from a holder that renews."""
    with lease(tmp_path, duration_s=6) as held:
        monkeypatch.setattr(lease_module, "this_host", lambda: "elsewhere")
        monkeypatch.setattr(lease_module, "now_ms", ahead_in(threading.current_thread()))
        with pytest.raises(OutsideError, match="Another writer holds this warehouse"):
            lease(tmp_path, duration_s=6).__enter__()
        held.check()


def ahead_in(thread: threading.Thread) -> Callable[[], int]:
    """A clock that is an hour ahead in one thread: the newcomer's, not the one that renews."""
    return lambda: now_ms() + (3_600_000 if threading.current_thread() is thread else 0)


def test_a_lease_that_runs_too_long(tmp_path: Path) -> None:
    """Goal: a lease from a host with a clock far ahead is watched until it does not change any more, and its end is not
    waited for."""
    leave_behind(tmp_path, Holder("elsewhere", 1, "groupledger ingest"), 86_400_000)
    with lease(tmp_path, duration_s=1):
        assert LocalStorage(tmp_path).names(FOLDER)[-1] == "8.json"
