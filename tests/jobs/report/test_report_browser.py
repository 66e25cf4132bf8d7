"""Goal: in a real browser the page works by keyboard alone, narrow and dark, with 500 groups and the worst of names,
and neither complains nor asks the network for anything.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lab.truth.histories import Log, member
from tests.jobs.report.browser import Browser, chromium, open_browser
from tests.jobs.report.report_pages import (
    HOSTILE,
    HOSTILE_NAME,
    HOUR,
    START,
    START_MS,
    group_rows,
    moving_group,
    page,
    renamed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.browser

GROUPS = 20
MANY_GROUPS = 500
SHIFT = 8
CONTRAST = """
(() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const luminance = (text) => {
    const parts = numbers(text).slice(0, 3).map((part) => part / 255);
    const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const found = getComputedStyle(each).backgroundColor;
      if (numbers(found)[3] !== 0) return found;
    }
  };
  const hasText = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const texts = [...document.querySelectorAll("body *")].filter((element) => element.checkVisibility()
    && !element.closest("svg, .chart") && hasText(element));
  const ratios = texts.map((element) => {
    const [a, b] = [getComputedStyle(element).color, paper(element)].map(luminance);
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
  return [texts.length, Math.min(...ratios)];
})()
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip(
            "NOT TESTED: the report's page in a browser, since no chromium is on the PATH (apt install chromium)"
        )
    with open_browser() as found:
        yield found


def write_page(directory: Path, groups: int) -> Path:
    """So many groups, the last of them with the worst of names."""
    owner = member(HOSTILE, units=[(HOSTILE, 0)], client_id=HOSTILE, client_host=HOSTILE)
    log = Log().wait(START_MS).record(1, owner).wait(600_000).record(2, owner, member("b"))
    incident: dict[str, Any] = {
        "kind": "offset_rewind",
        "severity": "error",
        "evidence": "inferred",
        "member_id": HOSTILE,
    }
    incident |= {"explanation": HOSTILE, "first_seen_at": START, "last_seen_at": START + HOUR / 2, "occurrences": 1}
    lag: list[dict[str, Any]] = [
        {"sampled_at": START + timedelta(minutes=minute), "lag": minute * 10, "lag_seconds": minute / 2}
        | {"lag_seconds_lower_bound": None, "lag_partitions": 1, "lag_unknown_partitions": 0}
        for minute in range(60)
    ]
    model = moving_group("orders", 30)
    found = [renamed(model, f"orders-{number:03}") for number in range(groups - 1)]
    found.append(group_rows(HOSTILE_NAME, log.entries, incidents=[incident], lag=lag))
    file = directory / "report.html"
    file.write_text(page(found, START, START + HOUR), encoding="utf-8", newline="\n")
    return file


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("page"), GROUPS)


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


def drawn(browser: Browser, index: int) -> None:
    browser.wait(f"document.getElementById('group').dataset.drawn === '{index}'")


def test_keyboard(shown: Browser) -> None:
    """Goal: search, list, group, zoom and tables, with keys alone; what has the focus shows it."""
    shown.press("/", *"orders-01", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp")
    assert shown.evaluate("document.getElementById('found').textContent") == "9 of 20 groups"
    assert shown.evaluate("document.activeElement.textContent") == "orders-011"
    assert shown.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)") >= 2
    shown.press("Enter")
    drawn(shown, 11)
    assert shown.evaluate("document.activeElement.textContent") == "Group orders-011"
    assert shown.evaluate("document.querySelectorAll('#ownership .bars path').length") > 30
    whole = shown.evaluate("document.getElementById('shown-period').textContent")
    press_at(shown, "[data-zoom=in]", "Enter")
    narrowed = shown.evaluate("document.getElementById('shown-period').textContent")
    assert narrowed != whole
    begins = [f"document.getElementById('{chart}').layout.xaxis.range[0]" for chart in ("tenures", "ownership")]
    shown.wait(f"{begins[0]} === {begins[1]}")
    press_at(shown, "[data-zoom=all]", "Enter")
    assert shown.evaluate("document.getElementById('shown-period').textContent") == whole
    press_at(shown, "#ownership-table", "Enter")
    shown.wait("document.querySelectorAll('#ownership-table tbody tr').length > 50")
    text = shown.evaluate("document.getElementById('ownership-table').textContent")
    assert "unowned" in text
    assert "unknown" not in text


def press_at(browser: Browser, selector: str, key: str) -> None:
    """Go there by Tab, on or back, and press; where it is folded away, at the summary above it."""
    target = f"document.querySelector('{selector}')"
    target = f"({target}.closest('details')?.querySelector('summary') ?? {target})"
    for modifiers in [0] * 30 + [SHIFT] * 60:
        browser.press("Tab", modifiers=modifiers)
        if browser.evaluate(f"document.activeElement === {target}"):
            browser.press(key)
            return
    raise AssertionError(f"No Tab leads to {selector}.")


@pytest.mark.parametrize("is_dark", [False, True])
def test_contrast(shown: Browser, is_dark: bool) -> None:
    """Goal: light and dark, every text has the contrast that WCAG AA asks for, and the charts follow the page."""
    shown.look(1280, is_dark=is_dark)
    shown.evaluate("location.hash = '#group-3'")
    drawn(shown, 3)
    count, least = shown.evaluate(CONTRAST)
    assert count > 200
    assert least >= 4.5
    papers = (
        "[getComputedStyle(document.body).backgroundColor, document.getElementById('ownership').layout.paper_bgcolor]"
    )
    assert shown.evaluate(papers) == (["rgb(20, 23, 27)", "#14171b"] if is_dark else ["rgb(255, 255, 255)", "#ffffff"])


@pytest.mark.parametrize("index", [0, GROUPS - 1])
def test_narrow(shown: Browser, index: int) -> None:
    """Goal: on a phone nothing is wider than the screen, with all tables open."""
    shown.look(390)
    shown.evaluate(f"location.hash = '#group-{index}'")
    drawn(shown, index)
    shown.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    shown.wait("document.querySelectorAll('#members tbody tr').length > 0")
    assert shown.evaluate("document.documentElement.scrollWidth") == 390
    assert shown.evaluate("document.querySelector('#ownership svg').getBoundingClientRect().right") <= 390


def test_hostile_name(shown: Browser) -> None:
    """Goal: markup in names is text everywhere, in charts and their hover as well, and the whole name can be read."""
    shown.press("/", *"</script>", "Enter")
    drawn(shown, GROUPS - 1)
    name = shown.evaluate("document.getElementById('group-name').textContent")
    assert "</script><script>alert(1)</script>'\"`../../etc/passwd\\n\\x00\\u202e" in name
    assert shown.evaluate("document.querySelector('#whole-name .whole').textContent.length") > 32_000
    assert "<a href=//x>" in shown.evaluate("document.getElementById('group-incidents').textContent")
    chart = "document.getElementById('ownership')"
    owner = f"{chart}.data.findIndex((trace) => trace.text?.[0] === '#1')"
    shown.evaluate(f"Plotly.Fx.hover({chart}, [{{ curveNumber: {owner}, pointNumber: 0 }}])")
    assert "</script>" in shown.evaluate("document.querySelector('#ownership .hoverlayer').textContent")
    assert shown.evaluate("document.querySelectorAll('svg a, svg script, #group script, a[href*=\"//\"]').length") == 0


def test_headings_and_language(shown: Browser) -> None:
    """Goal: a screen reader gets a language, one first heading, no level left out, and a name for charts and fields."""
    assert shown.evaluate("document.documentElement.lang") == "en"
    shown.evaluate(f"location.hash = '#group-{GROUPS - 1}'")
    drawn(shown, GROUPS - 1)
    headings = "[...document.querySelectorAll('h1,h2,h3,h4')].filter((each) => each.checkVisibility())"
    levels = shown.evaluate(f"{headings}.map((each) => Number(each.tagName[1]))")
    assert levels.count(1) == 1
    assert set(levels) == {1, 2, 3, 4}
    assert all(level <= before + 1 for level, before in zip(levels[1:], levels, strict=False))
    charts = "[...document.querySelectorAll('.chart')].filter((each) => !each.hidden)"
    named = "each.getAttribute('role') === 'img' && each.getAttribute('aria-label')"
    assert shown.evaluate(f"{charts}.every((each) => {named})")
    assert shown.evaluate("document.getElementById('search').labels.length") == 1


def test_many_groups(shown: Browser, tmp_path: Path) -> None:
    """Goal: 500 groups stay light: the file, a search, a sort, and the way from one to the next."""
    file = write_page(tmp_path, MANY_GROUPS)
    assert file.stat().st_size < 16_000_000
    shown.open(file, "#group-100")
    drawn(shown, 100)
    shown.requests.remove(file.as_uri())
    shown.evaluate("document.getElementById('next').click()")
    drawn(shown, 101)
    assert shown.evaluate("document.querySelectorAll('#group-list tbody tr').length") == MANY_GROUPS
    shown.evaluate("document.querySelectorAll('#group-list thead button')[4].click()")
    assert shown.evaluate("document.querySelector('#group-list thead [aria-sort]').ariaSort") == "descending"
    shown.press("/", *"orders-49")
    assert shown.evaluate("document.getElementById('found').textContent") == "9 of 500 groups"
