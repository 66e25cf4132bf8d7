"""Decides whether a given place is a path on a disk of this machine, or a URI for Hadoop and delta-rs.

A URI begins with a scheme (RFC 3986, section 3.1), a colon and a slash: `hdfs://host/x`, and with one slash `hdfs:/x`
or `dbfs:/x`, where the configuration says which host. `file:` is the scheme of local disks, in all forms of RFC 8089
(`file:/x`, `file:///x`, `file://localhost/x`). All else is a path; a colon may be in it, as in `12:30` or `a:b`.
"""

from __future__ import annotations

import re
from pathlib import Path

from groupledger.jobs.process.errors import InputError

OF_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
OF_FILES = re.compile(r"file:(?://(?:localhost)?(?=/))?", re.IGNORECASE)
# In a local path delta-rs takes these for others, or panics.
MISREAD = re.compile(r"[\x00-\x1f\x7f\[\]\\^|]|%[0-9A-Fa-f]{2}")


def local_path(place: str) -> str | None:
    """Returns the path of a place on a local disk; None for any other URI."""
    of_files = OF_FILES.match(place)
    if of_files is not None:
        path = place[of_files.end() :]
        return None if path.startswith("//") else path  # another host's files
    return None if OF_ELSEWHERE.match(place) else place


def warehouse_uri(warehouse: str) -> str:
    """Returns the place of a warehouse in the form that delta-rs needs. Raises InputError for a place that delta-rs
    would interpret differently."""
    place = warehouse.rstrip("/")
    path = local_path(place)
    if path is None:
        return place
    misread = MISREAD.search(str(Path(path).absolute()))
    if misread is not None:
        raise InputError(
            f"The path of the warehouse {warehouse} has {misread[0]!r} in it, which Delta's library takes for something"
            " else: rename the folder, or choose another."
        )
    return path
