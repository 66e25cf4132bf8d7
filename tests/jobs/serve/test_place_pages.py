"""Goal: a host or a client has a page with all its groups, so that one bad node shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, fill, served, write

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "<b>pod/1"


def test_a_host_and_a_client(tmp_path: Path) -> None:
    """Goal: both pages have the groups of now and of the last week, who left why, and the episodes that name it."""
    for name in ("pay", "audit"):
        fill(tmp_path, name, "orders", "pod-b")
        row: dict[str, Any] = {"group_id": name, "incarnation": 1, "member_id": f"{name}-1", "client_id": HOSTILE}
        row |= {
            "client_host": "/10.0.0.7",
            "is_open": 0,
            "from_offset": 1,
            "to_offset": 5,
            "joined_at": AT,
            "left_at": AT + 5 * MINUTE,
        }
        write(tmp_path, "members", row | {"leave_cause": "session_expired"})
    row = {"group_id": "pay", "incident_id": "h", "episode_id": "h", "kind": "unknown_member", "severity": "error"}
    row |= {"client_host": "10.0.0.7", "explanation": "It was refused.", "evidence": "observed", "is_open": False}
    row |= {"occurrences": 1, "confidence": 1.0}
    write(tmp_path, "incidents", row | dict.fromkeys(("first_seen_at", "last_seen_at"), AT + 6 * MINUTE))
    with served(tmp_path) as client:
        for path in ("hosts/10.0.0.7", f"clients/{quote(HOSTILE, '')}"):
            page = client.get(f"/clusters/{CLUSTER}/{path}")
            assert (page.status, "2 groups" in page.text, "<b>pod" in page.text) == (200, True, False)
            assert page.text.count("<td>session_expired</td>") == 2
            assert ("It was refused." in page.text) == path.startswith("hosts")
        none = client.get(f"/clusters/{CLUSTER}/hosts/10.9.9.9").text
        assert "No group has had a member of this host" in none
        group = client.get(f"/clusters/{CLUSTER}/groups/pay?at=2026-01-01T12:01:00Z").text
        assert f'href="/clusters/{CLUSTER}/hosts/h"' in group
