"""Goal: the timeline of a group is written in an order of its own, not in that of the rows."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from groupledger.transforms.history.rules.group_timeline import timeline


def test_the_order_of_rows_does_not_matter() -> None:
    """Goal: the members and moves at one record come in the order of their names, whatever the order of the rows."""
    generation: dict[str, Any] = dict.fromkeys(("changes", "finding", "generation_gap", "ended_by", "to_offset"))
    generation |= dict.fromkeys(("protocol_type", "protocol", "leader", "ended_at", "started_at"))
    generation |= {"incarnation": 1, "generation": 1, "revision": 0, "kafka_offset": 1, "member_count": 3}
    generation |= {"is_start_known": True}
    who = dict.fromkeys(
        ("client_id", "client_host", "group_instance_id", "left_at", "leave_cause", "leave_cause_confidence")
    )
    span = {"incarnation": 1, "from_offset": 1, "to_offset": None}
    for names in permutations("abc"):
        members = [{**who, **span, "member_id": name} for name in names]
        owned = [{**span, "topic": name, "partition": 0, "member_id": name} for name in names]
        (entry,) = timeline([generation], [], members, owned)
        assert [member["member_id"] for member in entry["joined"]] == ["a", "b", "c"]
        assert [move["topic"] for move in entry["moves"]] == ["a", "b", "c"]
