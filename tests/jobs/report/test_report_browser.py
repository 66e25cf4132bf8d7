"""Goal: in a real browser the report works by keyboard alone, narrow and dark, with more groups than a list shows and
the worst of names, and neither complains nor asks the network for anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.asking import make
from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.report.report import write_report
from tests.jobs.report.browser import CONTRAST, OVERFLOW, SMALLEST, WITHOUT_CAPTION, Browser, chromium, open_browser
from tests.jobs.report.report_pages import HOSTILE, HOSTILE_NAME
from tests.jobs.serve.serving import CLUSTER, fill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.browser

GROUPS = 600
SHIFT = 8
GROUP, NAME = "document.getElementById('group')", "document.querySelector('#group h1').textContent"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip("NOT TESTED: the report in a browser, since no chromium is on the PATH (apt install chromium)")
    with open_browser() as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So many groups, and one with the worst of names, which nobody sampled in the end and so is the last."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    make(warehouse, GROUPS, 2)
    fill(warehouse, HOSTILE_NAME, HOSTILE, HOSTILE)
    file = warehouse / "report.html"
    write_report(ClusterRows(str(warehouse), CLUSTER), file, lambda _: None)
    assert file.stat().st_size < 4_000 * GROUPS
    return file


@pytest.fixture
def shown(browser: Browser, report: Path) -> Iterator[Browser]:
    """The page, wide and light; after the test, nobody may have complained, nor asked for anything."""
    browser.requests.clear()
    browser.complaints.clear()
    browser.look(1280)
    browser.open(report)
    yield browser
    assert browser.complaints == []
    assert {address for address in browser.requests if not address.startswith("data:")} == {report.as_uri()}


def go(browser: Browser, place: str) -> None:
    browser.evaluate(f"location.hash = '#{place}'")
    browser.wait(f"{GROUP}.dataset.shown === '{place}'")


def place_of(browser: Browser, part: str) -> str:
    """The place of the group with such a name: those in trouble come first."""
    link = f"[...document.querySelectorAll('#list .name > a')].find((each) => each.textContent.includes('{part}'))"
    return str(browser.evaluate(f"{link}.hash.slice(1)"))


def press_at(browser: Browser, target: str, key: str) -> None:
    """Goes there by Tab, and presses."""
    for _ in range(60):
        browser.press("Tab")
        if browser.evaluate(f"document.activeElement === {target}"):
            browser.press(key)
            return
    raise AssertionError(f"No Tab leads to {target}.")


def test_keyboard(shown: Browser) -> None:
    """Goal: search, list, group and its tables by keys alone; the list shows some of all groups, and more on demand."""
    visible = "[...document.querySelectorAll('#list tbody tr')].filter((row) => row.checkVisibility()).length"
    assert shown.evaluate("document.getElementById('found').textContent") == "601 of 601 groups"
    assert shown.evaluate(visible) == 100
    shown.evaluate("document.getElementById('more').click()")
    assert shown.evaluate(visible) == 200
    press_at(shown, "document.getElementById('search')", "g")
    shown.press(*"-59")
    assert shown.evaluate("document.getElementById('found').textContent") == "11 of 601 groups"
    link = "[...document.querySelectorAll('#list a')].find((each) => each.textContent === 'g-597')"
    press_at(shown, link, "Enter")
    shown.wait(f"!{GROUP}.hidden && {NAME} === 'g-597'")
    assert shown.evaluate("document.activeElement.textContent") == "g-597"
    assert shown.evaluate("document.querySelectorAll('#group svg rect.owner').length") == 3  # two lanes and the key
    press_at(shown, "document.querySelector('#group details.tables summary')", "Enter")
    text = shown.evaluate("document.querySelector('#group details.tables').innerText")
    assert "orders-597" in text
    assert "g-597-0 (app, /10.0.0.1)" in text
    shown.evaluate("history.back()")
    shown.wait(f"{GROUP}.hidden && document.getElementById('overview').checkVisibility()")


@pytest.mark.parametrize("place", ["", "g0", f"g{GROUPS}"])
def test_every_look(shown: Browser, place: str) -> None:
    """Goal: wide, 400 pixels wide and dark, all is readable, tables have captions, and nothing is wider than the screen
    with all tables open."""
    go(shown, place)
    for width, is_dark in ((1280, False), (1280, True), (400, False), (400, True)):
        shown.look(width, is_dark=is_dark)
        shown.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert shown.evaluate(OVERFLOW) <= 0
        assert shown.evaluate(WITHOUT_CAPTION) == 0
        texts, contrast = shown.evaluate(CONTRAST)
        assert texts > 5
        assert contrast >= 4.5
        if place:
            assert shown.evaluate(SMALLEST) >= 11


def test_hostile_name(shown: Browser) -> None:
    """Goal: markup in names is text everywhere, and a character without a glyph is shown as an escape."""
    go(shown, place_of(shown, "</script>"))
    name = shown.evaluate(NAME)
    assert "</script><script>alert(1)</script>'\"`../../etc/passwd\\n\\x00\\u202e" in name
    assert len(name) > 32_000
    assert "<a href=//x>" in shown.evaluate("document.querySelector('#group .incident').textContent")
    assert shown.evaluate("document.querySelectorAll('svg a, svg script, #group script, a[href*=\"//\"]').length") == 0


def test_headings_and_language(shown: Browser) -> None:
    """Goal: a screen reader gets a language, one first heading, no level left out, names for pictures and fields."""
    assert shown.evaluate("document.documentElement.lang") == "en"
    assert shown.evaluate("document.getElementById('search').labels.length") == 1
    for place in ("", "g0"):
        go(shown, place)
        headings = "[...document.querySelectorAll('h1,h2,h3,h4')].filter((each) => each.checkVisibility())"
        levels = shown.evaluate(f"{headings}.map((each) => Number(each.tagName[1]))")
        assert levels.count(1) == 1
        assert all(level <= before + 1 for level, before in zip(levels[1:], levels, strict=False))
    pictures = "[...document.querySelectorAll('#group figure.picture .timeline > svg')]"
    assert shown.evaluate(f"{pictures}.length") == 3  # what happened, the lanes of a topic, lag
    assert shown.evaluate(f"{pictures}.every((each) => each.role === 'img' && each.ariaLabel)")
