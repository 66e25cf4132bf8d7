"""Goal: a group that only grows has no storm, however many processes come; one whose processes come again may have."""

from __future__ import annotations

from typing import Any

from groupledger.transforms.incidents.rules import incidents
from lab.truth.made import RULES, facts, rebalance, tenure


def joined(number: int, *more: str, client_id: str | None = None, **fields: Any) -> tuple[Any, Any]:
    """Returns the tenure and the rebalance of one process that came."""
    changes = [{"kind": kind} for kind in ("member_joined", *more)]
    came = tenure(f"m-{number}", 100 + number * 20, None, client_id=client_id or f"client-{number}", **fields)
    return came, rebalance(number, 100 + number * 20, changes=changes, member_count=1)


def kinds(*steps: tuple[dict[str, Any], dict[str, Any]]) -> set[str]:
    members, rebalances = zip(*steps, strict=True)
    return {row["kind"] for row in incidents(facts(members=list(members), rebalances=list(rebalances)), RULES)}


def test_a_group_that_grows() -> None:
    """Goal: a share group that gets ready partitions or new processes only grows, and has no incident."""
    assert kinds(*(joined(number, "partitions_initialized") for number in range(2, 20))) == set()
    assert kinds(*(joined(number, "leader_changed") for number in range(2, 20))) == set()


def test_a_group_that_is_migrated() -> None:
    """Goal: each process comes once more, under the new protocol."""
    before = [joined(number, client_id=f"{number}", is_classic=True) for number in range(2, 10)]
    after = [joined(number + 10, client_id=f"{number}", is_classic=False) for number in range(2, 10)]
    assert kinds(*before, *after) == set()


def test_processes_that_come_again() -> None:
    """Goal: a process that was there before, or somebody who went, is no growth."""
    assert kinds(*(joined(number, client_id="same") for number in range(2, 20))) == {"rebalance_storm"}
    assert kinds(*(joined(number, "member_left") for number in range(2, 20))) == {"rebalance_storm"}
