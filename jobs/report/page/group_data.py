"""One group of the report, as the page's own script reads it: values by name, with instants in milliseconds.

The names are those that `group.js` reads; what comes straight from a table has its column's name. A list of rows costs
the page each name once (`embed.in_columns`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groupledger.jobs.ask.group_timeline import lines
from groupledger.jobs.report.page.names import shown, shown_text, whole
from groupledger.jobs.report.page.times import clock, milliseconds
from groupledger.schemas.words import Ownership
from groupledger.transforms.history.rules.group_timeline import timeline
from groupledger.transforms.report.rules.report_ownership import bars, shown_from, spans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from groupledger.transforms.report.rules.report_ownership import Bar, Span

    Row = Mapping[str, Any]
    Data = dict[str, Any]

DETAIL_LINES_MAX = 40
INCIDENT_PARTITIONS_MAX = 20
LAG_COLUMNS = ("lag", "lag_seconds", "lag_seconds_lower_bound")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRows:
    """Holds all that is known of a group in a period; `coverage` is of its partition. `lag` and `incidents` are None
    where the warehouse has no such table."""

    group: Row
    generations: Sequence[Row]
    rebalances: Sequence[Row]
    members: Sequence[Row]
    intervals: Sequence[Row]
    coverage: Sequence[Row]
    incidents: Sequence[Row] | None
    lag: Sequence[Row] | None
    lag_partitions: Sequence[Row] | None


def group_data(rows: GroupRows, since: datetime, until: datetime) -> Data:
    bounded = ((rows.intervals, "valid_to"), (rows.members, "left_at"), (rows.generations, "started_at"))
    begin = shown_from(since, until, bounded)
    of_group = spans(rows.group, rows.generations, rows.coverage, begin, until)
    drawn = bars(rows.intervals, of_group, rows.coverage)
    members = _members(rows, drawn, begin)
    name = rows.group["group_id"]
    return {
        "name": shown(name),
        "whole": whole(name),
        "characters": len(name),
        "facts": facts(rows.group),
        "from": milliseconds(begin),
        "to": milliseconds(until),
        "known_to": milliseconds(max((row["to_time"] for row in rows.coverage if row["to_time"]), default=until)),
        "members": [_member(row) for row in members],
        **_ownership(drawn, of_group, members, begin),
        "records": _records(rows, begin, until),
        "lag": None if rows.lag is None else _lag(rows.lag, begin),
        "lag_partitions": [_lag_partition(row) for row in rows.lag_partitions or ()],
        "incidents": None if rows.incidents is None else [_incident(row) for row in rows.incidents],
        "notes": left_out(rows, since, begin),
    }


def facts(group: Row) -> dict[str, str]:
    """Returns what `groups` says, in words by their labels; what does not apply is not there."""
    state = {True: "alive", False: "gone (its end was read)", None: "not known since last seen"}[group["is_alive"]]
    if group["is_alive"] and group["is_simple"]:
        state = "commits without members"
    found = {
        "Type": group["group_type"],
        "State": state,
        "Sampled state": group["group_state"],
        "Incarnation": group["incarnation"],
        "Generation": group["generation"],
        "Group epoch": group["group_epoch"],
        "Protocol": " ".join(filter(None, (group["protocol_type"], group["protocol"]))),
        "Members": group["member_count"],
        "Partitions owned": group["owned_count"],
        "Partitions committed": group["committed_partition_count"],
        "Last commit": group["last_commit_at"] and clock(group["last_commit_at"]),
        "Seen": f"{clock(group['first_seen_at'])} to {clock(group['last_seen_at'])}",
        "Log": f"__consumer_offsets-{group['kafka_partition']}",
    }
    return {label: shown(value) for label, value in found.items() if value not in (None, "")}


def _members(rows: GroupRows, drawn: Sequence[Bar], begin: datetime) -> list[Row]:
    """Returns members in the order of their coming. An owner whose tenure was left out has what its intervals say."""
    found = [row for row in rows.members if _lasts(row["left_at"], begin)]
    known = {(row["incarnation"], row["member_id"]) for row in found}
    for row in (bar.interval for bar in drawn if bar.interval is not None):
        names = ("incarnation", "member_id", "group_instance_id", "client_id", "from_generation", "from_offset")
        unknown = ("client_host", "leave_cause", "leave_cause_confidence", "to_generation", "left_at", "is_end_known")
        owner = {name: row[name] for name in names} | dict.fromkeys(unknown)
        owner |= {"joined_at": row["valid_from"], "is_start_known": False}
        if (row["incarnation"], row["member_id"]) not in known:
            known.add((row["incarnation"], row["member_id"]))
            found.append(owner)
    return sorted(found, key=lambda row: (row["from_offset"], row["member_id"]))


def _lasts(end: datetime | None, begin: datetime) -> bool:
    return end is None or end > begin


def _member(row: Row) -> Data:
    names = ("member_id", "client_id", "client_host", "group_instance_id")
    known = ("leave_cause", "leave_cause_confidence", "from_generation", "to_generation")
    return _picked(row, ("joined_at", "left_at"), names, (*known, "is_start_known", "is_end_known"))


def _picked(row: Row, instants: Sequence[str], names: Sequence[str], values: Sequence[str]) -> Data:
    """Returns columns of a row under their own names: instants in milliseconds, names from data as they are shown, and
    the values of the others."""
    return {
        **{column: milliseconds(row[column]) for column in instants},
        **{column: None if row[column] is None else shown(row[column]) for column in names},
        **{column: row[column] for column in values},
    }


def _ownership(drawn: Sequence[Bar], of_group: Sequence[Span], members: Sequence[Row], begin: datetime) -> Data:
    """Returns the bars of the chart. Their `unit` and `owner` are places in `units` and `members`, an owner that is not
    a member is a status; times count from the page's begin."""
    units = {unit: index for index, unit in enumerate(dict.fromkeys(bar.unit for bar in drawn))}
    places = {(row["incarnation"], row["member_id"]): index for index, row in enumerate(members)}
    found = []
    for bar in drawn:
        owner: int | str = bar.status
        others = 0
        if bar.status == Ownership.OWNED and bar.interval is not None:
            owner = places[bar.interval["incarnation"], bar.interval["member_id"]]
            others = len(bar.interval["other_member_ids"])
        since_begin, length = bar.begin - begin, bar.end - bar.begin
        found.append(
            {
                "unit": units[bar.unit],
                "owner": owner,
                "begin": round(since_begin.total_seconds() * 1_000),
                "length": round(length.total_seconds() * 1_000),
                "others": others,
            }
        )
    return {
        "units": [{"topic": shown(topic), "partition": partition} for topic, partition in units],
        "bars": found,
        "spans": [
            {"from": milliseconds(span.begin), "to": milliseconds(span.end), "status": span.status}
            for span in of_group
            if span.is_whole_group
        ],
    }


def _records(rows: GroupRows, begin: datetime, until: datetime) -> list[Data]:
    """Returns what `groupledger group` tells of each record, its details as lines of text."""
    # With partitions left out, what moved would be told in part: the numbers of the record stay right.
    intervals = () if _partitions_left_out(rows) else rows.intervals
    found = []
    for entry in timeline(rows.generations, rows.rebalances, rows.members, intervals):
        if begin <= entry["at"] < until:
            headline, *details = lines(entry)
            found.append(
                {
                    "at": milliseconds(entry["at"]),
                    "incarnation": entry["incarnation"],
                    "generation": entry["generation"],
                    "event": entry["event"],
                    "title": headline.split(": ", 1)[1],
                    "trigger": entry.get("trigger") or entry.get("inferred_trigger"),
                    "confidence": None if entry.get("trigger") else entry.get("inferred_trigger_confidence"),
                    "partitions_moved": entry.get("partitions_moved"),
                    "pause_lower_ms": entry.get("pause_lower_ms"),
                    "pause_upper_ms": entry.get("pause_upper_ms"),
                    "lines": [shown_text(line.strip()) for line in details[:DETAIL_LINES_MAX]],
                }
            )
    return found


def _lag(rows: Sequence[Row], begin: datetime) -> list[Data]:
    ordered = sorted((row for row in rows if row["sampled_at"] >= begin), key=lambda row: row["sampled_at"])
    partitions = ("lag_partitions", "lag_unknown_partitions")
    return [_picked(row, ["sampled_at"], (), (*LAG_COLUMNS, *partitions)) for row in ordered]


def _lag_partition(row: Row) -> Data:
    offsets = ("committed_offset", "high_watermark")
    picked = _picked(row, (), ("topic", "owner"), ("partition", *LAG_COLUMNS, "status", *offsets))
    return {**picked, "flags": " ".join(row["flags"] or ())}


def _incident(row: Row) -> Data:
    places = [f"{shown(each['topic'])} {each['partition']}" for each in row["partitions"] or ()]
    more = f" and {len(places) - INCIDENT_PARTITIONS_MAX} more" if len(places) > INCIDENT_PARTITIONS_MAX else ""
    values = ("severity", "kind", "evidence", "confidence", "occurrences", "is_open")
    return {
        **_picked(row, ("first_seen_at", "last_seen_at"), ["member_id"], values),
        "partitions": ", ".join(places[:INCIDENT_PARTITIONS_MAX]) + more,
        "explanation": shown_text(row["explanation"]),
        "setting_to_change": shown_text(row["setting_to_change"]),
    }


def left_out(rows: GroupRows, since: datetime, begin: datetime) -> list[str]:
    """Returns sentences that say with numbers what limits keep from the page."""
    counts = Counter(
        {
            "intervals of ownership": _missing(rows.intervals),
            "members' tenures": _missing(rows.members),
            "records": _missing(rows.generations),
        }
    )
    notes = []
    if begin > since and any(counts.values()):
        missing = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
        notes.append(
            f"Shown from {clock(begin)} on: {missing} from before are left out, as a page shows the newest ones."
        )
    if _partitions_left_out(rows):
        notes.append(f"{_partitions_left_out(rows):,} partitions are not drawn: those that changed hands most are.")
    if rows.incidents and _missing(rows.incidents):
        notes.append(f"{_missing(rows.incidents):,} less grave or older incidents are left out.")
    if rows.lag_partitions and _missing(rows.lag_partitions):
        notes.append(f"{_missing(rows.lag_partitions):,} partitions with less lag are left out.")
    return notes


def _missing(rows: Sequence[Row]) -> int:
    count: int = rows[0]["of_group"] - len(rows) if rows else 0
    return count


def _partitions_left_out(rows: GroupRows) -> int:
    count: int = rows.intervals[0]["partitions_left_out"] if rows.intervals else 0
    return count
