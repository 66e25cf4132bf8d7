"""Turns a record of `__share_group_state` into columns of `share_state_records`: decoded, or with the reason why it
can't be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.codec.engine import UNKNOWN_TAGGED_FIELDS
from groupledger.schemas.codec.errors import DecodeError
from groupledger.schemas.codec.records import SHARE_STATE
from groupledger.transforms.records.decode import undecoded

if TYPE_CHECKING:
    from groupledger.transforms.privacy import Privacy


def share_state_row(key: bytes | None, value: bytes | None, privacy: Privacy) -> dict[str, Any]:
    """Returns the columns of `share_state_records` that the key and the value give; columns left out are null."""
    try:
        record = SHARE_STATE.decode_record(key, value)
    except DecodeError as error:
        return undecoded(key, value, error, privacy)
    fields = {name: known for name, known in (record.value or {}).items() if name != UNKNOWN_TAGGED_FIELDS}
    has_unknown = record.value is not None and _has_unknown_fields(record.value)
    if "state_batches" in fields:
        fields["state_batches"] = [
            {name: known for name, known in batch.items() if name != UNKNOWN_TAGGED_FIELDS}
            for batch in fields["state_batches"]
        ]
    return {
        "record_type": record.record_type,
        "value_version": record.value_version,
        "is_tombstone": value is None,
        "raw_value": value if has_unknown and privacy.keeps_hosts else None,
        **record.key,
        **fields,
    }


def _has_unknown_fields(value: dict[str, Any]) -> bool:
    return any(UNKNOWN_TAGGED_FIELDS in each for each in (value, *value["state_batches"]))
