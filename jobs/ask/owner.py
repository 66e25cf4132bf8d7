"""`groupledger owner`: who owned a partition at an instant: owned, reserved, unowned, not born or ended (the group was
not there), or unknown and why.

For a group, a topic or a partition that the ledger has never seen, the answer is unknown, with the most similar names.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.jobs.ask.answers import (
    NO_HISTORY,
    history_coverage,
    history_floor_ms,
    is_without_history,
    ownership_rows,
)
from groupledger.jobs.ask.commits import commit_log
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.instants import instant_if_known
from groupledger.schemas.words import GroupType, Ownership
from groupledger.transforms.coverage.rules.coverage_at import iso, why_unknown
from groupledger.transforms.history.rules.events import CONNECT, CONSUMER
from groupledger.transforms.history.rules.never_seen import unseen_group, unseen_place
from groupledger.transforms.history.rules.ownership_answer import owner_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer
    from groupledger.transforms.history.rules.never_seen import Unseen

MEMBER_COLUMNS = ("member_id", "client_id", "client_host", "group_instance_id")
GENERATION_COLUMNS = (
    *("incarnation", "generation", "kafka_offset", "to_offset", "started_at", "ended_at", "ended_by"),
    *("is_start_known", "is_ownership_known", "group_type", "protocol_type", "generation_gap"),
)
ABSENT = (Ownership.NOT_BORN, Ownership.ENDED)
WHY = {
    Ownership.RESERVED: "its static member is away: nobody reads it until the member is back or its session has ended",
    Ownership.NOT_BORN: "the group was not there yet: it has no record from before",
    Ownership.ENDED: "the group was gone: its last record from before is its removal",
}
# The highest partition of each topic that was seen, null where only its name was.
PLACES = """
SELECT topic, max(partition) AS partition
FROM (
    FROM assignments UNION ALL FROM share_assignments UNION ALL FROM watermarks
    UNION ALL SELECT unnest(subscribed_topics), NULL FROM members
) AS places (topic, partition)
GROUP BY topic
"""
COMMITTED_PLACES = "SELECT topic, max(partition) AS partition FROM commit_log GROUP BY topic"


def owner(tables: ClusterRows, name: str, topic: str, partition: int, at: datetime) -> list[Answer]:
    """Returns who owned a partition at an instant: one answer, or one for each member if several had the partition, as
    in a share group, or by an assignor that gave it to several. If the partition is reserved, the answer names the
    static member that is away."""
    found = _unknown(name, topic, partition, at)
    of_group = ("group_id", "=", name)
    groups = tables.rows("groups", of_group)
    if not groups:
        if is_without_history(tables, name):
            return [found | {"reason": NO_HISTORY}]
        every = tables.rows("groups", columns=("group_id",))
        return [found | _unseen_columns(unseen_group(name, (row["group_id"] for row in every)))]
    (group,) = groups
    coverage = history_coverage(tables, group["kafka_partition"])
    generations = tables.rows("generations", of_group, columns=GENERATION_COLUMNS)
    intervals = ownership_rows(tables, of_group, ("topic", "=", topic), ("partition", "=", partition))
    answer = owner_at(group, generations, intervals, coverage, topic, partition, at)
    unseen = None if intervals else unseen_in(tables, topic, partition)
    if unseen is not None:
        return [found | _unseen_columns(unseen)]
    found |= {
        "status": answer.status,
        "incarnation": answer.generation and answer.generation["incarnation"],
        "generation": answer.generation and answer.generation["generation"],
        "since": answer.interval and answer.interval["valid_from"],
        "until": answer.interval and answer.interval["valid_to"],
        "reason": WHY.get(answer.status) or _doubt(generations, answer.generation),
    }
    if answer.interval is None:
        if answer.status == Ownership.UNKNOWN:
            reason = _why_removed(history_floor_ms(tables), at) or why_unknown(coverage, at)
            found["reason"] = reason or _why_unreadable(group, answer.generation)
        elif answer.status == Ownership.UNOWNED:
            found["reason"] = found["reason"] or _last_owner(intervals, at)
        return [found]
    began = answer.interval["from_offset"]
    members = tables.rows(
        "members",
        of_group,
        ("incarnation", "=", answer.interval["incarnation"]),
        ("member_id", "in", answer.member_ids),
        ("from_offset", "<=", began),
        columns=(*MEMBER_COLUMNS, "to_offset"),
    )
    then = [member for member in members if member["to_offset"] is None or began < member["to_offset"]]
    by_id = {member["member_id"]: member for member in then}
    return [
        found
        | {"member_id": member_id}
        | {name: by_id[member_id][name] for name in MEMBER_COLUMNS if member_id in by_id}
        for member_id in answer.member_ids
    ]


def owner_in_all_groups(tables: ClusterRows, topic: str, partition: int, at: datetime) -> list[Answer]:
    """Returns the answers of `owner` for each group that ever had the partition and existed at the instant, those that
    owned it first. If there is no such group, returns one answer without a group."""
    place: list[Filter] = [("topic", "=", topic), ("partition", "=", partition)]
    had = {
        row["group_id"]
        for table in ("assignments", "share_assignments")
        for row in tables.rows_if_any(table, *place, columns=("group_id",))
    }
    found = [answer for name in sorted(had) for answer in owner(tables, name, topic, partition, at)]
    there = [answer for answer in found if answer["status"] not in ABSENT]
    if there:
        return sorted(there, key=lambda answer: answer["status"] != Ownership.OWNED)
    nobody = _unknown(None, topic, partition, at)
    unseen = None if had else unseen_in(tables, topic, partition)
    if unseen is not None:
        return [nobody | _unseen_columns(unseen)]
    return [nobody | {"status": Ownership.UNOWNED, "reason": "no group of that time ever had it"}]


def unseen_in(tables: ClusterRows, topic: str, partition: int) -> Unseen | None:
    """Returns the part of a place, topic or partition, that the ledger never saw; None if the place exists. Reads all
    commits only if neither ownership, subscriptions nor sampling rounds show the place."""
    place = ("topic", "partition")
    seen = tables.query(
        PLACES,
        assignments=tables.scan("assignments", columns=place),
        share_assignments=tables.scan_if_any("share_assignments", columns=place),
        watermarks=tables.scan_if_any("watermarks", columns=place),
        members=tables.scan("members", columns=("subscribed_topics",)),
    )
    last_partitions = {row["topic"]: row["partition"] for row in seen}
    if unseen_place(topic, partition, last_partitions) is None:
        return None
    for row in tables.query(COMMITTED_PLACES, commit_log=commit_log(tables)):
        last = last_partitions.get(row["topic"])
        last_partitions[row["topic"]] = row["partition"] if last is None else max(last, row["partition"])
    return unseen_place(topic, partition, last_partitions)


def _unknown(name: str | None, topic: str, partition: int, at: datetime) -> Answer:
    found: Answer = {"group_id": name, "topic": topic, "partition": partition, "at": at, "status": Ownership.UNKNOWN}
    found |= dict.fromkeys(("incarnation", "generation", "since", "until", *MEMBER_COLUMNS))
    return found | dict.fromkeys(("reason", "never_seen", "nearest_names"))


def _unseen_columns(unseen: Unseen) -> Answer:
    names = ", ".join(map(printable, unseen.nearest_names))
    nearest = f"the nearest that it saw: {names}" if names else "and nothing with a similar name"
    return {
        "reason": f"the ledger never saw the {unseen.what} {printable(unseen.name)}, {nearest}",
        "never_seen": unseen.what,
        "nearest_names": unseen.nearest_names,
    }


def _last_owner(intervals: Iterable[Answer], at: datetime) -> str | None:
    """Returns who is known to have owned a partition last before an instant at which nobody did."""
    owned = [row for row in intervals if not row.get("is_reserved")]
    ended = [row for row in owned if row["valid_to"] is not None and row["valid_to"] <= at]
    if not ended:
        return None
    last = max(ended, key=itemgetter("valid_to"))
    return f"{printable(last['member_id'])} is the last known owner, until {iso(last['valid_to'])}"


def _doubt(generations: Iterable[Answer], generation: Mapping[str, Any] | None) -> str | None:
    """Returns why the owner of a generation is doubtful: others without a record came after it, at unknown times."""
    if generation is None:
        return None
    later = [row for row in generations if row["kafka_offset"] > generation["kafka_offset"]]
    following = min(later, key=itemgetter("kafka_offset"), default=None)
    if following is None or following["incarnation"] != generation["incarnation"] or not following["generation_gap"]:
        return None
    gap = following["generation_gap"]
    return (
        f"{gap:,} {'generations' if gap > 1 else 'generation'} without a record came before"
        f" {iso(following['started_at'])}: from the first of them on, the owner is not known"
    )


def _why_removed(floor_ms: int | None, at: datetime) -> str | None:
    floor = instant_if_known(floor_ms)
    if floor is None or at >= floor:
        return None
    return f"retention has removed what ended before {iso(floor)} from the history: ask for a later time"


def _why_unreadable(group: Answer, generation: Mapping[str, Any] | None) -> str:
    if generation is not None and generation["group_type"] not in (None, GroupType.CLASSIC):
        return "not all members of then are known: their records lie in a part of the log that was not read in full"
    if generation is not None and generation["protocol_type"] not in (CONSUMER, CONNECT):
        protocol_type = printable(generation["protocol_type"])
        return f"the group's protocol type is {protocol_type}, and only assignments of consumers and Connect are read"
    if generation is not None:
        return "an assignment in the group's record of then can't be read: see the members' assignment_error"
    if group["is_simple"]:
        return "the group has commits and no members: a simple consumer does not report which partitions it reads"
    return "the group's record of then is not known: it was written before the log was followed, and may be superseded"
