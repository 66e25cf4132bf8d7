"""Keeps the notes of writers: small files `_groupledger/<cluster>/<name>-<token>.json`.

Storage compares no tokens. A writer may sleep until another one has taken its lease, wake, and then replace or remove a
small file: that would undo the note of its successor. So each writer has a file of its own, whose name ends in the
token of the lease; the file with the highest token is the note in force. A note is taken back by writing an empty one.
A writer removes only files with tokens below its own, which are no longer in force. So a writer that slept can only
change a note that is not in force.

Earlier releases wrote `<name>.json`, which is in force until there is a file with a token.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from groupledger.jobs.warehouse.storage import STATE_FOLDER, read_parsed

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.jobs.warehouse.lease import Lease
    from groupledger.jobs.warehouse.storage import Listable, Storage

T = TypeVar("T")

NOTHING = "null"


def write_note(storage: Storage, lease: Lease, name: str, text: str) -> None:
    """Replaces the note `name` in the folder of the lease. Raises OutsideError if the lease is lost, or if a later
    writer has written the note."""
    lease.check()
    before = _files(storage, lease.held, name)
    if before and max(before)[0] > lease.token:
        lease.go_beyond(max(before)[0])
    storage.write(f"{STATE_FOLDER}/{lease.held}/{name}-{lease.token}.json", text)
    for token, file in before:
        if token < lease.token:
            storage.delete(file)


def take_back(storage: Storage, lease: Lease, name: str) -> None:
    """Replaces the note `name` by an empty one, if it exists."""
    if _files(storage, lease.held, name):
        write_note(storage, lease, name, NOTHING)


def read_note(storage: Listable, cluster: str, name: str, parse: Callable[[str], T], remedy: str) -> T | None:
    """Returns the parsed note; None if it was never written, or was taken back. Raises OutsideError with the remedy if
    the file is damaged."""
    while files := _files(storage, cluster, name):
        found = read_parsed(storage, max(files)[1], lambda text: (_said(text, parse),), remedy)
        if found is not None:  # else a later note has come in its place
            return found[0]
    return None


def _said(text: str, parse: Callable[[str], T]) -> T | None:
    return None if text == NOTHING else parse(text)


def _files(storage: Listable, cluster: str, name: str) -> list[tuple[int, str]]:
    """Returns the tokens and names of the files of a note; one of an earlier release has the token 0."""
    folder = f"{STATE_FOLDER}/{cluster}"
    found = [(each, re.fullmatch(rf"{name}(?:-([0-9]{{1,18}}))?\.json", each)) for each in storage.names(folder)]
    return [(int(match[1] or 0), f"{folder}/{each}") for each, match in found if match is not None]
