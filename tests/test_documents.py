"""Goal: the documents are where they are said to be, and say what is so."""

from __future__ import annotations

import re
from pathlib import Path

from groupledger.jobs.notify.episodes import Episode, Message
from groupledger.jobs.notify.receivers import BODIES, Context
from groupledger.jobs.process.settings import ReceiverSettings

TOP = Path(__file__).parents[1]
FOLDERS = ("conf", "coordinator", "docs", "jobs", "lab", "schemas", "tools", "transforms")
FILES = [file for folder in FOLDERS for file in (TOP / folder).rglob("*") if file.suffix in {".py", ".md", ".yaml"}]
PAGE = re.compile(r"\bdocs/\w+\.md\b")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def test_pages_are_there() -> None:
    """Goal: every page of docs that is named, and every link of a page, leads to a file."""
    missing = []
    for file in (*TOP.glob("*.md"), *FILES):
        text = file.read_text()
        links = LINK.findall(text) if file.suffix == ".md" else []
        missing += [(file, name) for name in PAGE.findall(text) if not (TOP / name).is_file()]
        missing += [(file, link) for link in links if not (file.parent / link).exists()]
    assert missing == []


def test_the_page_of_notify() -> None:
    """Goal: the page lists every kind of receiver, every condition, and every field of the JSON form."""
    page = (TOP / "docs/notify.md").read_text()
    rows = {name for line in page.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)}
    episode = Episode(
        episode_id="e",
        group_id="g",
        team=None,
        kinds=("k",),
        severity="error",
        sentence="s",
        settings=(),
        first_seen_ms=0,
        last_seen_ms=0,
        is_open=True,
    )
    body = BODIES["json"](
        Message("fired", "e", episode), Context(cluster="c", link=None, key=None, now_ms=0, alert_s=1)
    )
    assert body is not None
    assert {*BODIES, *ReceiverSettings.model_fields, *body.json} - {"kind", "url", "key"} <= rows
