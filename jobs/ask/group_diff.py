"""`groupledger diff`: the differences of a group between two instants: generation, members, owners and lag.

The state of a group at an instant is a flat mapping from a kind and a name to a value, so that two states can be
compared entry by entry. Lag is that of the last sampling round by each instant, as a sum for each topic, with the
number of partitions left out because their lag is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.jobs.ask.lag_sums import sums_of_round
from groupledger.jobs.ask.owners import read_history
from groupledger.jobs.ask.rounds import last_round
from groupledger.jobs.process.errors import NotKnownError
from groupledger.schemas.words import Ownership
from groupledger.transforms.coverage.rules.coverage_at import iso, why_unknown

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.owners import GroupHistory
    from groupledger.jobs.process.output import Answer

    # The kind, the member or topic, and its partition.
    State = dict[tuple[str, str | None, int | None], Any]

COLUMNS = ("what", "name", "partition", "then", "now")
# In the order of the answer. The columns of a generation, and then what has names.
OF_GENERATION = ("incarnation", "generation", "group_type", "protocol", "leader", "member_count")
ORDER = (*OF_GENERATION, "member", "owner", "lag", "partitions_without_lag")


def group_diff(tables: ClusterRows, name: str, then: datetime, now: datetime | None) -> tuple[datetime, list[Answer]]:
    """Returns the later instant, and a row for each difference of a group between the two instants. Without `now`, the
    later instant is the last one that the ledger knows. A value is null if its entry did not exist at that instant.
    Raises NotKnownError if the group's state at one of the instants is unknown."""
    history = read_history(tables, name)
    now = now or history.known_until or then
    states = []
    for at in (then, now):
        reason = why_unknown(history.coverage, at)
        if reason is not None:
            raise NotKnownError(f"The state of the group at {iso(at)} is unknown: {reason}.")
        states.append(_state(history, at) | _lag(tables, name, at))
    return now, _differences(*states)


def _state(history: GroupHistory, at: datetime) -> State:
    generation = history.generation_at(at)
    state: State = {(column, None, None): generation[column] for column in OF_GENERATION} if generation else {}
    for member in history.members_at(at):
        # A static member stays the same when its process starts again under another id.
        who = member["group_instance_id"] or member["member_id"]
        state["member", who, None] = f"{member['member_id']} ({member['client_id']}, {member['client_host']})"
    for (topic, partition), answer in history.owners_at(at).items():
        members = ", ".join(answer.member_ids)
        is_reserved = answer.status == Ownership.RESERVED
        state["owner", topic, partition] = f"reserved for {members}" if is_reserved else members or answer.status
    return state


def _lag(tables: ClusterRows, name: str, at: datetime) -> State:
    sampled_at = last_round(tables, "lag", at) if tables.exists("lag") else None
    if sampled_at is None:
        return {}
    sums: State = {}
    for row in sums_of_round(tables, sampled_at, name, by_topic=True):
        if row["lag_sum"] is not None:
            sums["lag", row["topic"], None] = row["lag_sum"]
        if row["partitions_without_lag"]:
            sums["partitions_without_lag", row["topic"], None] = row["partitions_without_lag"]
    return sums


def _differences(then: State, now: State) -> list[Answer]:
    different = (key for key in then.keys() | now.keys() if then.get(key) != now.get(key))
    ordered = sorted(different, key=lambda key: (ORDER.index(key[0]), key[1] or "", -1 if key[2] is None else key[2]))
    return [
        {"what": key[0], "name": key[1], "partition": key[2], "then": then.get(key), "now": now.get(key)}
        for key in ordered
    ]
