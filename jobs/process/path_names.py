"""Puts names of clusters, groups and topics into the paths of pages, and reads them there again.

A name is percent-encoded, a slash in it, too. But the empty name, `.` and `..` can't be in a path as they are. Browsers
and proxies take two slashes, with an empty name between, for one slash, and resolve the parts `.` and `..`, encoded or
not, as steps in the hierarchy (RFC 3986, 5.2.4; WHATWG URL). Kafka accepts each of the three as the name of a group. So
they get a tilde in front: `~`, `~.` and `~..`. Real names of that form get one more tilde, so that each path has one
meaning. Every other name gets no tilde.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from groupledger.jobs.process.errors import InputError

NAME_CHARACTERS_MAX = 4_096
AS_IF_NOTHING = re.compile(r"~*\.{0,2}")


def part(name: str) -> str:
    """Returns a name as a part of a path."""
    return quote(f"~{name}" if AS_IF_NOTHING.fullmatch(name) else name, "")


def name_in(part: str) -> str:
    """Returns the name that `part` encodes. Raises InputError if it is not UTF-8, or longer than any name in Kafka."""
    try:
        name = unquote(part, errors="strict")
    except UnicodeError as error:
        raise InputError("A name in the path is not UTF-8, percent-encoded.") from error
    if len(name) > NAME_CHARACTERS_MAX:
        raise InputError("A name in the path is longer than any that Kafka takes.")
    return name[1:] if name.startswith("~") and AS_IF_NOTHING.fullmatch(name) else name
