"""Parses entries of a broker's server log into rows of `coordinator_events`.

An entry begins at a line with a time and a level; lines without them continue it. The lines up to the first that ends
in `(logger)` are the message, since a name may hold line breaks; the lines after that are a stack trace. Entries of
other loggers are about something else. A coordinator's entry whose end is missing was cut off, and is quarantined.
"""

from __future__ import annotations

from dataclasses import dataclass
from sys import maxsize
from typing import TYPE_CHECKING, Any, Final

from groupledger.schemas.kafka.coordinator_log import BEGIN, CLASSIC, LOGGERS, OTHERS, PREFIX, RUNTIME_LOGGER
from groupledger.schemas.kafka.log4j_line import begins_entry, ends_message, frame_of, timed
from groupledger.schemas.kafka.log_template import Split, Template
from groupledger.schemas.kafka.log_time import NO_EVIDENCE, NO_TIME
from groupledger.transforms.logs.rules.rebalance_reasons import (
    given_reason,
    instance_id,
    is_members_id,
    is_reason,
    parse_reason,
    split_ids,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from groupledger.schemas.kafka.log_time import ZoneEvidence
    from groupledger.transforms.privacy import Privacy

    # A number and a text; of a line that was taken out of a container's also how many lines of the file it is, and what
    # gives its instant.
    NumberedLine = tuple[int, str] | tuple[int, str, int, ZoneEvidence]

OTHER = "other"
CUT_OFF = "an entry of a group coordinator without a whole frame of time, level and logger"
ENTRY_LINES_MAX = 1_000
_INTEGERS = ("generation", "previous_generation", "member_count", "kafka_partition")
_TEXTS = ("group_id", "member_id", "previous_member_id", "state", "reason")
_INT_MAX = 2**31 - 1
_PLAIN: Final = 2  # fields of a numbered line without more
_PLAUSIBLE_IN_CLASSIC = {
    "member_id": is_members_id,
    "previous_member_id": is_members_id,
    "reason": is_reason,
}
_TEMPLATES = (
    *((kind, Template(text, _PLAUSIBLE_IN_CLASSIC)) for kind, text in CLASSIC),
    *((kind, Template(text, {})) for kind, text in OTHERS),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """Holds an entry of a server log. `text` has time, level, message and logger, without the stack trace that may
    follow; these take `line_count` lines of the file. If `is_too_long`, the text is cut off."""

    line_number: int
    line_count: int
    text: str
    is_too_long: bool = False
    evidence: ZoneEvidence = NO_EVIDENCE


def entries(lines: Iterable[NumberedLine], characters_max: int = maxsize) -> Iterator[Entry]:
    """Yields the entries in numbered lines. Lines before the first entry belong to the end of an entry in another file,
    and are left out. Lines after the place where an entry that is too long was cut are left out, too."""
    message: list[str] = []
    began_at, characters, line_count, evidence = 0, 0, 0, NO_EVIDENCE
    for line in lines:
        number, text = line[0], line[1]
        if begins_entry(text):
            if message:
                yield Entry(began_at, line_count, "\n".join(message), evidence=evidence)
            message, began_at, characters, line_count = [], number, 0, 0
            evidence = NO_EVIDENCE if len(line) == _PLAIN else line[3]
        elif not message or len(message) >= ENTRY_LINES_MAX:
            continue
        message.append(text)
        characters += len(text)
        line_count += 1 if len(line) == _PLAIN else line[2]
        is_too_long = characters > characters_max
        if is_too_long or ends_message(text):
            yield Entry(began_at, line_count, "\n".join(message), is_too_long, evidence)
            message = []
    if message:
        yield Entry(began_at, line_count, "\n".join(message), evidence=evidence)


def parse_entry(entry: Entry, time_zone: str, privacy: Privacy) -> dict[str, Any] | str | None:
    """Returns a row without cluster and file, or the reason for quarantine; None if the entry is about something
    else."""
    frame = frame_of(entry.text)
    if frame is None:
        return CUT_OFF if BEGIN in entry.text.split("\n", 1)[0] else None
    prefix = PREFIX.match(frame.message)
    if not frame.logger.startswith(LOGGERS) and not (frame.logger.startswith(RUNTIME_LOGGER) and prefix):
        return None
    line = timed(frame, time_zone, entry.evidence)
    if line is None:
        return NO_TIME
    kind, split = _recognize(line.message[prefix.end() if prefix else 0 :])
    fields = split.fields
    said = prefix.groupdict() if prefix else {}
    member_ids, is_whole = split_ids(fields["member_ids"]) if "member_ids" in fields else (None, True)
    row: dict[str, Any] = {
        "line_number": entry.line_number,
        "line_count": entry.line_count,
        "logged_at": line.logged_at_us,
        "is_time_ambiguous": line.is_time_ambiguous,
        "level": line.level,
        "logger": line.logger,
        "broker_id": _integer(said.get("broker_id")),
        "kind": kind,
        **{name: fields.get(name) for name in _TEXTS},
        **{name: _integer(fields.get(name)) for name in _INTEGERS},
        "group_ids": fields["group_ids"].split(", ") if "group_ids" in fields else None,
        "member_ids": None if member_ids is None else list(member_ids),
        "group_instance_id": instance_id(fields.get("group_instance_id")),
        "client_reason": given_reason(fields.get("client_reason")),
        "trigger": None,
        "details": _details(fields, privacy),
        "is_certain": split.is_certain and is_whole,
        "message": privacy.hosts_in_text(line.message),
    }
    if row["kafka_partition"] is None:
        row["kafka_partition"] = _integer(said.get("kafka_partition"))
    return row if kind != "preparing_rebalance" or row["reason"] is None else row | _reason_columns(row)


def _recognize(message: str) -> tuple[str, Split]:
    for kind, template in _TEMPLATES:
        split = template.split(message)
        if split is not None:
            return kind, split
    return OTHER, Split({}, is_certain=True)


def _reason_columns(row: dict[str, Any]) -> dict[str, Any]:
    reason = parse_reason(row["reason"])
    return {
        "trigger": reason.trigger,
        "member_id": reason.member_ids[0] if len(reason.member_ids) == 1 else None,
        "member_ids": list(reason.member_ids),
        "group_instance_id": reason.group_instance_id,
        "client_reason": reason.client_reason,
        "is_certain": row["is_certain"] and reason.is_certain,
    }


def _details(fields: dict[str, str], privacy: Privacy) -> dict[str, str] | None:
    columns = {*_TEXTS, *_INTEGERS, "group_ids", "member_ids", "group_instance_id", "client_reason"}
    found = {name: privacy.hosts_in_text(value) for name, value in fields.items() if name not in columns}
    return found or None


def _integer(text: str | None) -> int | None:
    """Returns the number; None for one that Kafka can't have written, as its ints have 32 bits."""
    value = None if text is None else int(text[:12])
    return value if value is not None and abs(value) <= _INT_MAX else None
