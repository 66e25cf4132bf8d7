"""Goal: a group that was in trouble for days is diagnosed without a look at all of its rows for each two episodes."""

from __future__ import annotations

from typing import Any

from tests.transforms.incidents.group_rows import (
    AT,
    MINUTE,
    found,
    generation,
    incident,
    lag,
    line,
    member,
    rebalance,
    request,
    sampled,
)
from tests.transforms.incidents.lines_run import lines_run

HOURS, LONGER = 8, 4


def rows_of(hours: int) -> dict[str, Any]:
    """Returns the rows of a group whose one member dies each hour, and is away for half an hour."""
    rows: dict[str, list[Any]] = {
        name: [] for name in ("incidents", "rebalances", "members", "generations", "events", "requests")
    }
    rounds = []
    for hour in range(hours):
        begin, end, name = 60 * hour, 60 * hour + 30, f"m{hour}"
        times = {"first_seen_at": AT + end * MINUTE, "last_seen_at": AT + (end + 20) * MINUTE, "member_id": name}
        rows["incidents"] += [
            incident("session_expired", episode_id=f"{hour}", **times),
            incident("group_without_members", episode_id=f"{hour} away", evidence="inferred", **times),
        ]
        rows["rebalances"] += [rebalance(begin, "joined"), rebalance(end, "session_expired")]
        rows["members"].append(member(name, begin, end, "session_expired", client_id="app", client_host="/10.0.0.1"))
        rows["generations"] += [
            generation(2, started_at=AT + begin * MINUTE, ended_at=AT + end * MINUTE),
            generation(0, started_at=AT + end * MINUTE, ended_at=AT + (begin + 60) * MINUTE, member_count=0),
        ]
        rows["events"].append(line("member_failed", name, end))
        rows["requests"].append(request(name, begin + 5))
        rounds += [
            lag(at, 0, 50 + hour, 90 + hour, "stopped" if at > end else "ok") for at in range(begin, end + 30, 10)
        ]
    return {**rows, "tenures": rows["members"], **sampled(*rounds), "known_until": AT + 60 * hours * MINUTE}


def lines_of(hours: int) -> int:
    """Returns how many lines a diagnosis runs."""
    rows = rows_of(hours)
    lines, diagnosed = lines_run(lambda: found(**rows))
    assert len(diagnosed) >= hours
    return lines.total()


def test_many_episodes() -> None:
    """Goal: four times the past takes at most six times the lines; it took eleven times as many when each episode
    looked for the changes of all members anew."""
    assert lines_of(HOURS * LONGER) < 1.5 * LONGER * lines_of(HOURS)
