"""Parses a record of a group of KIP-848's kind into the contents of `OtherGroupType`, for each type of group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.transforms.history.rules import modern_records, share_records, streams_records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from groupledger.transforms.history.rules.modern_records import TopicNames

_READERS: dict[str, Callable[[Mapping[str, Any], TopicNames, bool], object]] = {
    **modern_records.READERS,
    **share_records.READERS,
    **streams_records.READERS,
}


def content_of(record_type: str, fields: Mapping[str, Any], names: TopicNames, *, is_tombstone: bool) -> object | None:
    """Returns the parsed record. None for records that do not matter to the group's history: the group's own tombstone,
    and the partition metadata of brokers before 4.1. `fields` are those of `record_json`, or of the key for a
    tombstone; `names` are the known names of topics by id."""
    read = _READERS.get(record_type)
    return None if read is None else read(fields, names, is_tombstone)
