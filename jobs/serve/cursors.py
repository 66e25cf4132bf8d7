"""Cuts lists into pages: `next` of an answer is the cursor of the page after, null on the last one.

A cursor holds the sort key of the last row of its page, and the next page begins after that key. So rows that appear or
disappear between two requests make no other row fall out. A list has a limit even if the request gives none: a group
may have 100,000 partitions.
"""

from __future__ import annotations

import base64
import binascii
import json
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query

from groupledger.jobs.ask.group_list import in_order
from groupledger.jobs.process.errors import InputError
from groupledger.schemas.instants import us_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from groupledger.jobs.process.output import Answer

    Key = tuple[Any, ...]

PAGE_MAX = 1_000
PLACES_MAX = 10_000  # of rows by partition, of which one has some hundred bytes
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="The most that are returned.")]
PlacesLimit = Annotated[int, Query(ge=1, le=PLACES_MAX, description="The most rows of a page; next leads to the rest.")]
Cursor = Annotated[str | None, Query(description="The value of next on the previous page.")]


def page_of(rows: list[Answer], limit: int, cursor: str | None) -> tuple[list[Answer], str | None]:
    """Returns a page of groups, and the cursor of the next page, or None on the last one."""
    return cut(rows, in_order, (int, int, int, int, str), limit, cursor)


def page_of_places(rows: Sequence[Answer], name: str, limit: int, cursor: str | None) -> dict[str, Any]:
    """Returns a part of an answer, with a page of rows by topic and partition in the field `name`, and the fields
    `count` and `next`. A partition with several owners has a row for each."""
    found, following = cut(sorted(rows, key=_place), _place, (str, int, str), limit, cursor)
    return {name: found, "count": len(rows), "next": following}


def page_of_members(rows: Sequence[Answer], limit: int, cursor: str | None) -> dict[str, Any]:
    by_id = itemgetter("member_id")
    found, following = cut(sorted(rows, key=by_id), lambda row: (by_id(row),), (str,), limit, cursor)
    return {"members": found, "count": len(rows), "next": following}


def page_of_incidents(rows: Sequence[Answer], limit: int, cursor: str | None) -> dict[str, Any]:
    """Returns a part of an answer, with a page of incidents. `rows` must be in the order in which they began."""
    found, following = cut(rows, _began, (int, str, str), limit, cursor)
    return {"incidents": found, "count": len(rows), "next": following}


def page_by_number(rows: Sequence[Answer], name: str, limit: int, cursor: str | None) -> dict[str, Any]:
    """Returns a part of an answer, with a page of rows in the field `name`. The rows have no sort key, so the cursor
    has a row's number; the rows must be the same for every request."""
    numbers = {id(row): number for number, row in enumerate(rows)}
    found, following = cut(rows, lambda row: (numbers[id(row)],), (int,), limit, cursor)
    return {name: found, "count": len(rows), "next": following}


def cut(
    rows: Sequence[Answer], key: Callable[[Answer], Key], types: tuple[type, ...], limit: int, cursor: str | None
) -> tuple[list[Answer], str | None]:
    """Returns the page of rows after a cursor, and the next cursor, or None on the last page. `rows` must be in the
    order of `key`; `types` are the types of the key's parts. Raises InputError if the cursor is not one of this
    server's."""
    if cursor is not None:
        last = read_cursor(cursor, types)
        rows = [row for row in rows if key(row) > last]
    page = list(rows[:limit])
    if len(rows) <= limit:
        return page, None
    return page, base64.urlsafe_b64encode(json.dumps(key(page[-1])).encode()).decode()


def read_cursor(cursor: str, types: tuple[type, ...]) -> Key:
    refusal = InputError("The cursor is not one of this server's: begin again without one.")
    try:
        found = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise refusal from error
    if not isinstance(found, list) or [type(each) for each in found] != [*types]:
        raise refusal
    return tuple(found)


def _began(row: Answer) -> Key:
    return us_of(row["first_seen_at"]), row["episode_id"], row["kind"]


def _place(row: Answer) -> Key:
    return row["topic"], row["partition"], row.get("member_id") or ""
