"""Looks at the page of an incident as somebody on call does, who has ten seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from tests.jobs.report.browser import Browser
    from tests.jobs.serve.serving import Client

SCREENS = ((1400, 900), (400, 800))
PARTS = [".what", ".since", ".who", ".do"]


def in_view(of: str) -> str:
    """Returns the expression for which parts of a verdict lie in the viewport, whole and with some text."""
    return f"""{PARTS}.filter((part) => {{
        const each = document.querySelector("{of} " + part), box = each?.getBoundingClientRect();
        return box && each.textContent.trim() && each.checkVisibility()
            && box.top >= 0 && box.left >= 0 && box.bottom <= innerHeight && box.right <= innerWidth;
    }})"""


def looked_at(browser: Browser, client: Client, cluster: str, severity: str) -> list[str]:
    """Asserts that a link to an incident shows what happened, since when, to whom and what to do, on a desk's screen
    and on a telephone's; returns the kinds of those that were looked at, one for each group."""
    path = f"/clusters/{cluster}"
    found = client.get(f"/api/v1{path}/incidents?severity={severity}&limit=1000").json["incidents"]
    first = {row["group_id"]: row for row in found if row["group_id"] is not None}
    for group, row in first.items():
        browser.look(*SCREENS[0])
        name = quote(group, "")
        browser.visit(f"http://127.0.0.1:{client.port}{path}/groups/{name}?at={quote(row['first_seen_at'])}")
        for width, height in SCREENS:
            browser.look(width, height)
            assert browser.evaluate(in_view("#verdict article")) == PARTS, (group, row["kind"], width)
    return [row["kind"] for row in first.values()]
