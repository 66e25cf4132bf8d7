"""Holds the names and passwords of `serve --auth-file`, a file as Apache's `htpasswd -B` writes it.

- Only bcrypt is accepted, since the other kinds of htpasswd (MD5, SHA-1, crypt, plain text) can be guessed by the
  million.
- The file is read again when it has changed, so that a user who is removed from it is refused at once. While the file
  can't be read, nobody is let in.
- A name that the file lacks costs as much time as one that it has.
- bcrypt is slow on purpose. So a verified password is remembered for some hours after its last use, as a digest whose
  key belongs to this process, and which covers the line of the file. No password stays in memory, and a changed line
  makes the digest useless.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

import bcrypt

from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HASH = re.compile(r"\$2[aby]\$([0-9]{2})\$[./A-Za-z0-9]{53}")
# A second for each try; htpasswd takes up to 17, which is eight.
COST_MIN, COST_MAX = 4, 14
# bcrypt looks at no more of a password, and htpasswd takes longer ones.
PASSWORD_BYTES_MAX = 72
# The salt and the digest of a hash that no password has.
NOTHING = b"$" + b"." * 53
FILE_BYTES_MAX = 1 << 20
REMEMBERED_S = 8 * 3_600.0
REMEMBERED_MAX = 1_024


class Passwords:
    """Verifies names and passwords against a file. The constructor and the methods raise InputError if a line of the
    file is not a name with a bcrypt hash, and OutsideError if the file can't be read."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._stamp: tuple[int, int, int] | None = None
        self._hashes: Mapping[str, bytes] = {}
        self._nobody = b""
        self._key = secrets.token_bytes(32)
        # Until when, by digest; the one that was used last at the end.
        self._remembered: OrderedDict[bytes, float] = OrderedDict()
        self._one = threading.Lock()
        self._refresh()

    def remembers(self, name: str, password: bytes) -> bool:
        """Returns whether this password of this name was verified, or used once more, in the last REMEMBERED_S seconds.
        It does not compute bcrypt, so it costs next to nothing."""
        self._refresh()
        digest, now = self._digest(name, self._hashes.get(name, b""), password), time.monotonic()
        with self._one:
            if self._remembered.pop(digest, now) <= now:
                return False
            self._remembered[digest] = now + REMEMBERED_S
        return True

    def are_right(self, name: str, password: bytes) -> bool:
        """Returns whether the file has this name with this password. It takes the time that bcrypt needs, unless the
        password was verified recently."""
        # A page asks for its files at once, each with the same password, which is tried once.
        if self.remembers(name, password):
            return True
        wanted = self._hashes.get(name)
        # No password has a zero byte: htpasswd ends there.
        is_right = bcrypt.checkpw(password[:PASSWORD_BYTES_MAX], wanted or self._nobody) and b"\0" not in password
        if wanted is None or not is_right:
            return False
        with self._one:
            self._remembered[self._digest(name, wanted, password)] = time.monotonic() + REMEMBERED_S
            if len(self._remembered) > REMEMBERED_MAX:
                self._remembered.popitem(last=False)
        return True

    def _digest(self, name: str, wanted: bytes, password: bytes) -> bytes:
        return hashlib.blake2b(b"\0".join((name.encode(), wanted, password)), key=self._key).digest()

    def _refresh(self) -> None:
        try:
            status = self.file.stat()
            stamp = status.st_mtime_ns, status.st_size, status.st_ino
            if stamp == self._stamp:
                return
            self._stamp = None  # a file that is refused is looked at again
            if status.st_size > FILE_BYTES_MAX:
                raise InputError(f"{self.file} is larger than {FILE_BYTES_MAX >> 20} MiB: it is no file of htpasswd.")
            text = self.file.read_text("utf-8")
        except UnicodeError as error:
            raise InputError(f"{self.file} is not UTF-8: write it by `htpasswd -B`.") from error
        except OSError as error:
            raise OutsideError(
                f"{self.file} can't be read ({error.strerror}): check the path and the access."
            ) from error
        self._hashes = hashes_in(text, self.file)
        cost = max(found[4:6] for found in self._hashes.values())
        self._nobody = b"$2b$" + cost + NOTHING
        # Verified passwords of a changed line are never looked up again.
        self._stamp = stamp


def hashes_in(text: str, file: Path) -> dict[str, bytes]:
    """Returns the bcrypt hash of each name in the text of a file. Raises InputError, which shows no hash, for a line
    without a name or a hash of permitted cost, for a name that comes twice, and for a text without names."""
    hashes: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, hashed = line.partition(":")
        shown = printable(name)
        kind = HASH.fullmatch(hashed.strip())
        if kind is None or not name:
            raise InputError(
                f"Line {number} of {file} is no name with a hash of bcrypt: write it by `htpasswd -B {file} NAME`."
            )
        if not COST_MIN <= int(kind[1]) <= COST_MAX:
            raise InputError(
                f"The hash of {shown} in {file} has a cost of {kind[1]}: write it by `htpasswd -B -C 12`, at most"
                f" {COST_MAX}."
            )
        if name in hashes:
            raise InputError(f"{file} names {shown} twice: remove one of the lines.")
        hashes[name] = hashed.strip().encode()
    if not hashes:
        raise InputError(f"{file} names nobody: add a name by `htpasswd -B {file} NAME`.")
    return hashes
