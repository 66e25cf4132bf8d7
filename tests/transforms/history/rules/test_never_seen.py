"""What in a question about an owner was never seen, and which names are near it."""

from __future__ import annotations

import pytest

from groupledger.transforms.history.rules.never_seen import Unseen, unseen_group, unseen_place

TOPICS = {"orders": 11, "orders-dlq": 2, "payments": 0, "subscribed": None}


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("biling", ["billing", "billing-2"]), ("BILLING", ["billing", "billing-2"]), ("zzz", []), ("", [])],
)
def test_group(name: str, nearest: list[str]) -> None:
    """Goal: the nearest names of groups come first, whatever their case, and no far one."""
    assert unseen_group(name, ["shop", "billing-2", "billing", "\ud800"]) == Unseen("group", name, nearest)


@pytest.mark.parametrize(
    ("topic", "partition", "expected"),
    [
        ("orders", 11, None),
        ("orders", 3, None),
        ("orders", 12, Unseen("partition", "orders 12", ["orders 11"])),
        ("subscribed", 0, Unseen("partition", "subscribed 0", [])),
        ("order", 0, Unseen("topic", "order", ["orders", "orders-dlq"])),
        ("Orders", 0, Unseen("topic", "Orders", ["orders", "orders-dlq"])),
    ],
)
def test_place(topic: str, partition: int, expected: Unseen | None) -> None:
    """Goal: partitions below the highest one that was seen exist; names are never taken for others."""
    assert unseen_place(topic, partition, TOPICS) == expected
