"""Reads the numbered files of a lease (`jobs.warehouse.lease`), without Spark.

The file with the highest number is in force, and names its holder. Writers and questions read these files: a question
holds no lease, and only has to know whether somebody writes the tables in which it found nothing.
"""

from __future__ import annotations

import json
import os
import re
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from groupledger.jobs.process.terminal import printable
from groupledger.jobs.warehouse.storage import STATE_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterable

NUMBERED = re.compile(r"([0-9]{1,18})\.json")


def lease_folder(held: str) -> str:
    """Returns the folder of the lease with the name `held`."""
    return f"{STATE_FOLDER}/{held}/lease"


def highest_number(names: Iterable[str]) -> int:
    """Returns the number of the file that is in force, of the names in a lease's folder; 0 if there is none."""
    return max((int(match[1]) for match in map(NUMBERED.fullmatch, names) if match), default=0)


@dataclass(frozen=True)
class Holder:
    host: str
    process: int
    command: str

    def __str__(self) -> str:
        return printable(f"`{self.command}`, process {self.process} on {self.host}")


@dataclass(frozen=True)
class LeaseFile:
    """The content of a lease's file. `secret` is chosen by the holder, so that it recognizes its own file even after
    the folder was deleted and made again."""

    holder: Holder
    expires_at_ms: int
    is_released: bool
    secret: str = ""

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def parse(text: str | None) -> LeaseFile | None:
        """Returns the content of a lease's file; None if the text is invalid."""
        try:
            fields = json.loads(text or "")
            holder = fields.pop("holder")
            numbers = (fields["expires_at_ms"], holder["process"])
            is_valid = all(isinstance(number, int) for number in numbers)
            return LeaseFile(holder=Holder(**holder), **fields) if is_valid else None
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    def is_in_force(self, at_ms: int) -> bool:
        """Returns whether the holder still holds the lease at an instant, as far as the file says."""
        return not self.is_released and at_ms < self.expires_at_ms and not is_dead_here(self.holder)


def this_host() -> str:
    """Returns the host's name and, if the system has them, its boot id and process namespace: two containers that share
    a name and a volume must not take each other's process numbers for their own."""
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
