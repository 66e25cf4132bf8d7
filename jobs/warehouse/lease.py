"""Lets one process at a time write the tables of a cluster in a warehouse.

A lease is a chain of numbered files under `_groupledger/<cluster>/lease/`; the file with the highest number is in
force. A process takes over by creating the file with the next number, and if two processes try, storage lets one of
them succeed; so no lock server is needed and nothing has to be deleted by hand. A lease is free if it was released, if
its holder was a process of this host that is gone, or if it ran out and the holder no longer renews it. The newcomer
watches for renewals for half of the duration: clocks of two hosts differ, and a host whose clock is ahead must not take
over from a holder that is alive. A file that can't be read is watched in the same way.

A thread of the holder renews the lease. A renewal that fails is tried again at the next one. The lease is lost, and the
holder stops, if there is a higher number, if the file is gone or is not the holder's own, or if no renewal succeeded
for the whole duration by a monotonic clock.

All this only keeps running writers apart. The tables are protected by the number itself, the fencing token of every
commit (`jobs.warehouse.commits`).
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.warehouse.lease_files import (
    Holder,
    LeaseFile,
    highest_number,
    is_dead_here,
    lease_folder,
    this_host,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from typing_extensions import Self

    from groupledger.jobs.warehouse.storage import Storage

# A third of the duration: two renewals may fail before the lease runs out.
RENEWALS_PER_DURATION = 3
# A holder that is alive renews within a third of the duration; the rest is for a slow storage.
WATCHED_PER_DURATION = 0.5
WATCH_POLLS = 10

STORAGE_ERRORS = (OSError, Py4JError)  # of a local directory, and of Hadoop's client

STAYS = "What it had written stays: run it again."
TAKEN_OVER = f"Another writer took over this warehouse, so this one stopped. {STAYS}"
GONE = f"The file of this process's lease is gone from the warehouse, or damaged, so the process stopped. {STAYS}"


def logs_of(cluster: str) -> str:
    """Returns the name of the lease on the tables of the logs, which lets an import of logs and an ingest run
    together."""
    return f"{cluster}/logs"


def what_ifs_of(cluster: str) -> str:
    """Returns the name of the lease on the tables of what-if, which lets a what-if run while others write."""
    return f"{cluster}/what-if"


def all_held(cluster: str) -> tuple[str, ...]:
    """Returns the names of all leases of a cluster."""
    return cluster, logs_of(cluster), what_ifs_of(cluster)


def held_for(cluster: str, written_by: str) -> str:
    """Returns the name of the lease on the tables that the command `written_by` writes."""
    return {"import-logs": logs_of(cluster), "what-if": what_ifs_of(cluster)}.get(written_by, cluster)


def all_leases(storage: Storage, clusters: Iterable[str], command: str, duration_s: float) -> Iterator[Lease]:
    """Yields all leases of some clusters, including those on the tables of logs and of what-if, for work on whole
    tables. They are not taken yet."""
    for cluster in clusters:
        for held in all_held(cluster):
            yield Lease(storage, held, command, duration_s)


def has_been_held(storage: Storage, held: str) -> bool:
    """Returns whether the lease of this name was ever taken."""
    return bool(storage.names(lease_folder(held)))


class Lease:
    """A context manager that holds a lease. Entering it raises OutsideError, with the holder's name, if another process
    holds the lease."""

    def __init__(self, storage: Storage, held: str, command: str, duration_s: float) -> None:
        self.held = held
        self.duration_s = duration_s
        self.lost = threading.Event()
        self._storage = storage
        self._folder = lease_folder(held)
        self._holder = Holder(this_host(), os.getpid(), command)
        self._secret = secrets.token_hex(16)
        self._number = 0
        self._ends_at_s = 0.0
        self._is_storage_away = False  # whether the last renewal failed
        self._why_lost = TAKEN_OVER
        self._lock = threading.Lock()  # of the number and the file under it
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_stopped, name="lease", daemon=True)

    @property
    def token(self) -> int:
        """The fencing token: each later holder's is higher."""
        return self._number

    def __enter__(self) -> Self:
        highest = self._highest_number()
        if highest:
            self._refuse_if_held(highest)
        self._take(highest + 1)
        for number in range(max(1, highest - 1), highest + 1):
            self._storage.delete(self._name(number))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        # A lease that can't be released runs out by itself, and must not hide why the work ended.
        with suppress(*STORAGE_ERRORS):
            if not self.lost.is_set() and self._is_own():
                self._storage.write(self._name(self._number), self._content(is_released=True))

    def check(self) -> None:
        """Raises OutsideError if the lease is lost."""
        if uptime_s() > self._ends_at_s:
            self._lose()
        if self.lost.is_set():
            raise OutsideError(self._why_lost)

    def look(self) -> None:
        """Reads the lease's files, and raises OutsideError if the lease is lost."""
        self.check()
        with self._lock:
            is_own = self._is_own()
        if not is_own:
            self._lose()
        self.check()

    def go_beyond(self, token: int) -> None:
        """Takes a number above `token`, which was found in a table. Raises OutsideError if the token is a later
        holder's.

        While this lease's file is the last of the chain, a higher token can only be from a chain that was deleted.
        """
        self.look()
        with self._lock:
            before = self._number
            if token >= before:
                self._take(token + 1)
                self._storage.delete(self._name(before))

    def _take(self, number: int) -> None:
        ends_at_s = uptime_s() + self.duration_s
        is_created = self._storage.create(self._name(number), self._content())
        # A storage that loses its answer and tries again finds our own file.
        if not is_created and not self._is_own(number):
            self._refuse_if_held(number)
            raise OutsideError("Another writer came and went in the same moment: run the command again.")
        self._number, self._ends_at_s = number, ends_at_s

    def _refuse_if_held(self, number: int) -> None:
        text = self._storage.read(self._name(number))
        lease = LeaseFile.parse(text)
        if text is None or (lease is not None and (lease.is_released or is_dead_here(lease.holder))):
            return
        left_s = self.duration_s if lease is None else (lease.expires_at_ms - now_ms()) / 1000
        if lease is not None and 0 < left_s <= self.duration_s:
            raise held_by(lease.holder, left_s)
        # It ran out by our clock, or can't be by it: only watching shows whether the holder is alive.
        for _ in range(WATCH_POLLS):
            time.sleep(self.duration_s * WATCHED_PER_DURATION / WATCH_POLLS)
            now = self._storage.read(self._name(number))
            if now is None:
                return
            renewed = LeaseFile.parse(now)
            if now != text and renewed is not None:
                if renewed.is_released:
                    return
                raise held_by(renewed.holder, self.duration_s)

    def _renew_until_stopped(self) -> None:
        while not self._stop.wait(self.duration_s / RENEWALS_PER_DURATION):
            try:
                self._renew()
            except STORAGE_ERRORS:
                self._is_storage_away = True
                if uptime_s() > self._ends_at_s:
                    self._lose()
            if self.lost.is_set():
                return

    def _renew(self) -> None:
        with self._lock:
            ends_at_s = uptime_s() + self.duration_s
            if not self._is_own() or uptime_s() > self._ends_at_s:
                self._lose()
                return
            self._storage.write(self._name(self._number), self._content())
            self._ends_at_s, self._is_storage_away = ends_at_s, False

    def _lose(self) -> None:
        """Marks the lease as lost, and keeps the sentence that says why, as it is now."""
        if not self.lost.is_set():
            self._why_lost = self._sentence()
            self.lost.set()

    def _sentence(self) -> str:
        """Returns who has the lease now. If the files name nobody else, returns that no renewal came in time, or that
        the file is gone."""
        last: LeaseFile | None = None
        with suppress(*STORAGE_ERRORS):
            last = LeaseFile.parse(self._storage.read(self._name(self._highest_number())))
        if last is not None and last.secret != self._secret:
            return f"Another writer took over this warehouse, {last.holder}, so this one stopped. {STAYS}"
        late_s = uptime_s() - self._ends_at_s
        if late_s <= 0:
            return GONE
        how_long = f"{self.duration_s + late_s:,.0f} s, longer than its lease of {self.duration_s:,.0f} s"
        if self._is_storage_away:
            return f"The warehouse did not answer this process for {how_long}, and therefore it stopped. {STAYS}"
        return f"This process stood still for {how_long}, and therefore stopped. {STAYS}"

    def _is_own(self, number: int | None = None) -> bool:
        """Returns whether a number, by default the present token, is this holder's and the last of the chain."""
        number = self._number if number is None else number
        if self._highest_number() != number:
            return False
        lease = LeaseFile.parse(self._storage.read(self._name(number)))
        return lease is not None and lease.secret == self._secret

    def _highest_number(self) -> int:
        return highest_number(self._storage.names(self._folder))

    def _name(self, number: int) -> str:
        return f"{self._folder}/{number}.json"

    def _content(self, *, is_released: bool = False) -> str:
        expires_at_ms = now_ms() + round(self.duration_s * 1000)
        return LeaseFile(self._holder, expires_at_ms, is_released, self._secret).dump()


def held_by(holder: Holder, left_s: float) -> OutsideError:
    return OutsideError(
        f"Another writer holds this warehouse: {holder}. Stop it, or wait until its lease runs out in {left_s:.0f} s."
    )


def uptime_s() -> float:
    """Returns the seconds of a monotonic clock. If the system has such a clock, it also runs while the machine
    sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
