"""Finds who reset, deleted or moved committed offsets, by joining `offset_events` with the request log.

No record names the client whose request moved an offset. The request log of the coordinator that wrote the record names
it, and has times of the same clock: the record's time lies between the arrival of the request and the time of the line,
which is written when the answer is sent. So a request is the cause if it names the group, was not refused, names the
partition with the offset that was committed (or deletes it), and was in progress at that time. If several requests
match, all are candidates and none is chosen.

Without such a request, a member's commit is attributed to the owner of the partition (`inferred`): in a classic group
another member can commit it, too. Other events have an unknown author, with the reason. Events that nobody asked for
(expiry, retention of the topic) have no author and are left out.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.words import Authorship, OffsetEventCause, OffsetEventKind
from groupledger.transforms.coverage.rules.coverage_at import iso

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

Row = dict[str, Any]

# Events that somebody caused, as opposed to those that just happened.
DONE_BY_SOMEBODY = (
    OffsetEventKind.REWOUND,
    OffsetEventKind.SKIPPED,
    OffsetEventKind.DELETED,
    OffsetEventKind.GROUP_DELETED,
    OffsetEventKind.TOPIC_DELETED,
    OffsetEventKind.REMOVED,
)
COMMITS = (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT)
APIS = (*COMMITS, ApiKey.OFFSET_DELETE, ApiKey.DELETE_GROUPS)
# A broker's log has whole milliseconds, and its line comes shortly after the answer.
CLOSE = timedelta(milliseconds=100)
OF_EVENT = ("topic", "partition", "kind", "offset_before", "offset_after", "records_repeated", "records_skipped")
OF_REQUEST = (
    *("principal", "client_id", "client_host", "member_id", "client_software_name", "client_software_version", "api"),
    *("happened_at", "source_file", "line_number"),
)
OF_OWNER = ("client_id", "client_host", "member_id")


@dataclass(frozen=True, slots=True)
class LogSpan:
    """The times of the first and of the last line of an imported request log."""

    first: datetime
    last: datetime


def acts(
    events: Iterable[Row],
    requests: Iterable[Row],
    owners: Iterable[Row],
    spans: Sequence[LogSpan],
    topics: Mapping[str, str],
) -> list[Row]:
    """Returns one row for each act, in order of time. An act is a change of a group's committed offsets, in one or many
    partitions, that one request or one member made at once. `events` are rows of `offset_events`, `requests` rows of
    `requests`, and `owners` rows of `assignments` with the members' hosts; `topics` has topic names by id."""
    by_group = _by_group(requests)
    owned = defaultdict(list)
    for row in owners:
        owned[row["group_id"], row["topic"], row["partition"]].append(row)
    together: defaultdict[tuple[Any, ...], list[tuple[Row, list[Row], list[Row]]]] = defaultdict(list)
    for event in events:
        asked = [each for each in by_group[event["group_id"]] if _did(each, event, topics)]
        owning = [] if asked else _owning(event, owned[event["group_id"], event["topic"], event["partition"]])
        by = tuple((each.get("source_file"), each.get("line_number"), each["member_id"]) for each in asked or owning)
        key = event["group_id"], event["happened_at"], _is_commit(event), by
        together[key].append((event, asked, owning))
    found = [_act(each, spans) for each in together.values()]
    return sorted(found, key=lambda act: (act["happened_at"], act["group_id"], act["record"]))


def name_of(author: Row) -> str:
    """Returns an author as text: principal, client and host, as far as they are known, or else the member id."""
    host = author["client_host"]
    parts = (author["principal"], author["client_id"], host and f"at {host.removeprefix('/')}")
    return " ".join(filter(None, parts)) or author["member_id"] or "a client without a name"


def _by_group(requests: Iterable[Row]) -> defaultdict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in requests:
        for name in {each["group_id"] for each in row["groups"] or ()}:
            found[name].append(row)
    return found


def _is_commit(event: Row) -> bool:
    return event["kind"] in {OffsetEventKind.REWOUND, OffsetEventKind.SKIPPED}


def _did(request: Row, event: Row, topics: Mapping[str, str]) -> bool:
    """Returns whether a request about the event's group can have done it."""
    if not request["happened_at"] - CLOSE <= event["happened_at"] <= request["logged_at"] + CLOSE:
        return False
    if request["api_key"] == ApiKey.DELETE_GROUPS:
        is_refused = any(each["error_code"] for each in request["groups"] if each["group_id"] == event["group_id"])
        return event["kind"] in {OffsetEventKind.GROUP_DELETED, OffsetEventKind.REMOVED} and not is_refused
    if request["api_key"] in COMMITS:
        return _is_commit(event) and any(
            _is_place(each, event, topics) and each["committed_offset"] == event["offset_after"]
            for each in request["partitions"] or ()
        )
    return event["kind"] in {OffsetEventKind.DELETED, OffsetEventKind.REMOVED} and any(
        _is_place(each, event, topics) for each in request["partitions"] or ()
    )


def _is_place(place: Row, event: Row, topics: Mapping[str, str]) -> bool:
    """Returns whether a request succeeded for the event's partition. False if the topic's name is not known."""
    topic = place["topic"] or topics.get(place["topic_id"])
    return not place["error_code"] and (topic, place["partition"]) == (event["topic"], event["partition"])


def _owning(event: Row, intervals: Iterable[Row]) -> list[Row]:
    """Returns who owned the partition of a member's commit."""
    if event["cause"] != OffsetEventCause.MEMBER:
        return []
    at = event["kafka_offset"]
    return [row for row in intervals if row["from_offset"] < at and (row["to_offset"] is None or at < row["to_offset"])]


def _act(parts: Sequence[tuple[Row, list[Row], list[Row]]], spans: Sequence[LogSpan]) -> Row:
    events = sorted((event for event, _, _ in parts), key=lambda row: (row["topic"], row["partition"]))
    _, asked, owning = parts[0]
    first = min(events, key=lambda row: row["kafka_offset"])
    known_by = _known_by(asked, owning)
    return {
        "group_id": first["group_id"],
        "happened_at": first["happened_at"],
        "record": f"{first['kafka_partition']}/{first['kafka_offset']}",
        "kinds": sorted({row["kind"] for row in events}),
        "causes": sorted({row["cause"] for row in events if row["cause"] is not None}),
        "partition_count": len(events),
        "records_repeated": _sum(row["records_repeated"] for row in events),
        "records_skipped": _sum(row["records_skipped"] for row in events),
        "known_by": known_by,
        "authors": [
            *({name: row[name] for name in OF_REQUEST} for row in asked),
            *({**dict.fromkeys(OF_REQUEST), **{name: row[name] for name in OF_OWNER}} for row in owning),
        ],
        "reason": None if known_by == Authorship.OBSERVED else _why(first, known_by, spans),
        "partitions": [{name: row[name] for name in OF_EVENT} for row in events],
    }


def _known_by(asked: Sequence[Row], owning: Sequence[Row]) -> str:
    if asked:
        return Authorship.OBSERVED if len(asked) == 1 else Authorship.CANDIDATES
    return Authorship.INFERRED if owning else Authorship.UNKNOWN


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = [each for each in numbers if each is not None]
    return sum(known) if known else None


def _why(event: Row, known_by: str, spans: Sequence[LogSpan]) -> str:
    """Returns why it is not certain who did it."""
    if known_by == Authorship.CANDIDATES:
        return "several requests asked for the same at that time"
    if event["kind"] == OffsetEventKind.TOPIC_DELETED:
        return "the topic was deleted, and deletions of topics are not read from request logs"
    return _without_request(event["happened_at"], spans)


def _without_request(at: datetime, spans: Sequence[LogSpan]) -> str:
    """Returns why no line of a request log says who it was."""
    if not spans:
        return "no request log was imported"
    first, last = min(span.first for span in spans), max(span.last for span in spans)
    if at < first - CLOSE:
        return f"the imported request logs begin at {iso(first)}"
    if at > last + CLOSE:
        return f"the imported request logs end at {iso(last)}"
    if any(span.first - CLOSE <= at <= span.last + CLOSE for span in spans):
        return "the request logs of that time have no such request; that of a broker that was not imported may"
    return "no imported request log covers that time"
