"""Lets one process at a time write the tables of a cluster in a warehouse.

A lease is a chain of numbered files under `_groupledger/<cluster>/lease/`; the highest number counts. Taking over means
creating the next number, and of two that try, storage lets one succeed; so no lock server is needed and nothing has
to be deleted by hand. A lease is free when it was released, when it expired, or when its holder was a process of this
host that is gone, so that a restart after a crash need not wait.

A thread of the holder renews the lease. If it finds a higher number (it slept past its expiry, and another writer took
over), it sets `lost`, and the holder stops. Delta drops what the old holder may still commit in between, since both
write under the same transaction id.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.warehouse.storage import STATE_FOLDER

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from groupledger.jobs.warehouse.storage import Storage

# A third of the duration: two renewals may fail before the lease runs out.
RENEWALS_PER_DURATION = 3


def logs_of(cluster: str) -> str:
    """Returns the name of the lease on the tables of the logs, so that an import of logs and an ingest may run
    together."""
    return f"{cluster}/logs"


@dataclass(frozen=True)
class Holder:
    host: str
    process: int
    command: str


@dataclass(frozen=True)
class LeaseFile:
    holder: Holder
    expires_at_ms: int
    is_released: bool

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def parse(text: str) -> LeaseFile:
        fields = json.loads(text)
        return LeaseFile(Holder(**fields["holder"]), fields["expires_at_ms"], fields["is_released"])


class Lease:
    """A context manager that holds the lease. Entering it raises OutsideError with the holder's name if it is taken."""

    def __init__(self, storage: Storage, cluster: str, command: str, duration_s: float) -> None:
        self.lost = threading.Event()
        self._storage = storage
        self._folder = f"{STATE_FOLDER}/{cluster}/lease"
        self._holder = Holder(this_host(), os.getpid(), command)
        self._duration_ms = round(duration_s * 1000)
        self._number = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_stopped, name="lease", daemon=True)

    def __enter__(self) -> Self:
        highest = self._highest_number()
        if highest:
            self._refuse_if_held(highest)
        self._number = highest + 1
        if not self._storage.create(self._name(self._number), self._content()):
            self._refuse_if_held(self._number)
            raise OutsideError("Another writer came and went in the same moment: run the command again.")
        for number in range(max(1, highest - 1), highest + 1):
            self._storage.delete(self._name(number))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if not self.lost.is_set():
            self._storage.write(self._name(self._number), self._content(is_released=True))

    def check(self) -> None:
        """Raises OutsideError if the lease is lost."""
        if self.lost.is_set():
            raise OutsideError("Another writer took over the lease of this warehouse, so this one stopped.")

    def _refuse_if_held(self, number: int) -> None:
        text = self._storage.read(self._name(number))
        if text is None:
            return
        lease = LeaseFile.parse(text)
        left_s = (lease.expires_at_ms - now_ms()) / 1000
        if lease.is_released or left_s <= 0 or is_dead_here(lease.holder):
            return
        raise OutsideError(
            f"Another writer holds this warehouse: `{lease.holder.command}`, process {lease.holder.process} on"
            f" {lease.holder.host}. Stop it, or wait until its lease runs out in {left_s:.0f} s."
        )

    def _renew_until_stopped(self) -> None:
        while not self._stop.wait(self._duration_ms / 1000 / RENEWALS_PER_DURATION):
            if self._highest_number() > self._number:
                self.lost.set()
                return
            self._storage.write(self._name(self._number), self._content())

    def _highest_number(self) -> int:
        found = (re.fullmatch(r"(\d+)\.json", name) for name in self._storage.names(self._folder))
        return max((int(match[1]) for match in found if match), default=0)

    def _name(self, number: int) -> str:
        return f"{self._folder}/{number}.json"

    def _content(self, *, is_released: bool = False) -> str:
        return LeaseFile(self._holder, now_ms() + self._duration_ms, is_released).dump()


def this_host() -> str:
    """Returns the host's name and, where the system tells, its boot and process namespace: two containers that share a
    name and a volume must not take each other's process numbers for their own."""
    marks = [socket.gethostname()]
    boot = Path("/proc/sys/kernel/random/boot_id")
    namespace = Path("/proc/self/ns/pid")
    if boot.is_file() and namespace.is_symlink():
        marks += [boot.read_text().strip(), str(namespace.readlink())]
    return "/".join(marks)


def is_dead_here(holder: Holder) -> bool:
    if holder.host != this_host():
        return False
    try:
        os.kill(holder.process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
