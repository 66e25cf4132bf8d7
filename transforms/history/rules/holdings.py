"""Maintains the intervals of each member in groups whose members can hold the same unit: partitions in a share group,
tasks in a streams group.

An interval of one member does not depend on other members, unlike ownership in `assignments`. It goes from the member's
first step that names the unit to the first one that does not, or to the member's end.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from groupledger.schemas.words import GroupType
from groupledger.transforms.history.rules.modern_state import OpenHolding
from groupledger.transforms.history.rules.rows import micros

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.transforms.history.rules.modern_state import Held, Reconciliation
    from groupledger.transforms.history.rules.rows import HistoryRows, IntervalEnd
    from groupledger.transforms.history.rules.state import OpenGroup

_TABLES = {
    GroupType.SHARE: ("share_assignments", ("topic", "partition")),
    GroupType.STREAMS: ("stream_tasks", ("subtopology", "partition", "role")),
}


def hold(
    group: OpenGroup, state: Reconciliation, member_id: str, now: Iterable[Held], rows: HistoryRows, here: IntervalEnd
) -> None:
    """Brings a member's intervals up to date: ends those that are not in `now`, and begins the new ones. `now` is all
    that the member holds. Does nothing for groups that are not share or streams groups."""
    if state.group_type not in _TABLES:
        return
    put = partial(_put, rows, group, _TABLES[state.group_type], member_id)
    open_ones = state.holdings.setdefault(member_id, {})
    wanted = set(now)
    for held in sorted(open_ones.keys() - wanted):
        put(held, open_ones.pop(held), here)
    for held in sorted(wanted - open_ones.keys()):
        open_ones[held] = OpenHolding(
            from_generation=group.number or 0,
            from_offset=here.kafka_offset,
            valid_from_ms=here.at_ms,
            is_start_known=here.is_known,
        )
        put(held, open_ones[held])
    if not open_ones:
        del state.holdings[member_id]


def close(group: OpenGroup, rows: HistoryRows, end: IntervalEnd) -> None:
    """Ends all intervals of a group, because it has ended, or because records that could end them were not read."""
    if group.reconciliation is not None:
        for member_id in [*group.reconciliation.holdings]:
            hold(group, group.reconciliation, member_id, (), rows, end)


def _put(
    rows: HistoryRows,
    group: OpenGroup,
    into: tuple[str, tuple[str, ...]],
    member_id: str,
    held: Held,
    holding: OpenHolding,
    end: IntervalEnd | None = None,
) -> None:
    table, columns = into
    rows.put(
        table,
        (group.incarnation, member_id, *held, holding.from_offset),
        {
            "group_id": group.group_id,
            "incarnation": group.incarnation,
            "member_id": member_id,
            **dict(zip(columns, held, strict=True)),
            "from_offset": holding.from_offset,
            "to_offset": end and end.kafka_offset,
            "client_id": group.members[member_id].facts.client_id,
            "from_generation": holding.from_generation,
            "to_generation": end and (group.number or 0),
            "valid_from": micros(holding.valid_from_ms),
            "valid_to": micros(None if end is None else end.at_ms),
            "is_start_known": holding.is_start_known,
            "is_end_known": end and end.is_known,
        },
    )
