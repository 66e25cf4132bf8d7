"""Goal: on the day that is shipped, axe-core finds nothing wrong with any page, and the page of an incident shows what
happened, since when, to whom and what to do without scrolling; a group of 500 partitions can be looked at, too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.jobs.demo.shipped import unpack
from groupledger.jobs.serve.lanes import LANES_MAX
from tests.jobs.report.browser import OVERFLOW, Browser, chromium, open_browser
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, Client, fill, served, write
from tests.jobs.serve.ten_seconds import PARTS, SCREENS, in_view, looked_at
from tests.jobs.serve.test_wide_groups import assigned, sampled
from tools.api_examples import END

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.browser

AXE = Path("requirements/axe/node_modules/axe-core/axe.min.js")
FOUND = """axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations.map(
    (each) => `${each.id}: ${each.nodes.map((node) => node.html).join(" ")}`))"""
LOOKS = ((1400, 900, False), (1400, 900, True), (400, 800, False), (400, 800, True))
DEMO = "/clusters/demo"
PAGES = {
    DEMO: 200,
    f"{DEMO}?q=nothing-has-this-name": 200,
    f"{DEMO}/incidents": 200,
    f"{DEMO}/groups/shipping-labels?at=2026-11-25T11:10:00Z": 200,
    f"{DEMO}/groups/shipping-labels/what-if?members=static&since=2026-11-25T10:00:00Z": 200,
    f"{DEMO}/groups/order-archive/deploys": 200,
    f"{DEMO}/audit": 200,
    f"{DEMO}/groups/nobody": 404,
    f"{DEMO}?window=wrong": 400,
}
STATUS = "performance.getEntriesByType('navigation')[0].responseStatus"
INCIDENTS_MIN = 12
LONG_NAME = "é" * 1_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip("NOT TESTED: the pages in a browser, since no chromium is on the PATH (apt install chromium)")
    with open_browser() as found:
        yield found


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    place: Path = tmp_path_factory.mktemp("day")
    unpack(place, END)
    with served(place) as found:
        yield found


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.exists():
        pytest.skip("NOT TESTED: the pages by axe-core, which is not here (npm ci --prefix requirements/axe)")
    return AXE.read_text()


def go(browser: Browser, client: Client, path: str) -> None:
    browser.visit(f"http://127.0.0.1:{client.port}{path}")


def found_by(axe: str, browser: Browser) -> Any:
    return browser.evaluate(f"{axe}\n{FOUND}")


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing(browser: Browser, client: Client, axe: str, path: str) -> None:
    """Goal: axe-core has no complaint by WCAG and good practice, on wide and narrow screens, light and dark."""
    for number, (width, height, is_dark) in enumerate(LOOKS):
        browser.look(width, height, is_dark=is_dark)
        if number == 0:
            go(browser, client, path)
            assert browser.evaluate(STATUS) == PAGES[path]
        assert found_by(axe, browser) == [], (width, is_dark)
        assert browser.evaluate(OVERFLOW) <= 0, (width, is_dark)


def test_axe_finds_what_is_wrong(browser: Browser, client: Client, axe: str) -> None:
    """Goal: axe-core really looks: a picture without a text and a pale one are found."""
    browser.look(1400)
    go(browser, client, f"{DEMO}/groups/nobody")
    browser.evaluate("document.querySelector('h1').insertAdjacentHTML('afterend', '<img src=\"data:,\">')")
    assert [each.partition(":")[0] for each in found_by(axe, browser)] == ["image-alt"]


@pytest.mark.parametrize("path", [f"{DEMO}/deploys", f"{DEMO}/groups/order-archive/deploys", f"{DEMO}/audit"])
def test_wide_tables_on_a_telephone(browser: Browser, client: Client, path: str) -> None:
    """Goal: on a narrow screen nothing of a table of many columns lies outside, and each value has its name."""
    browser.look(400, 800)
    go(browser, client, path)
    cells = "[...document.querySelectorAll('.cards tbody td')].filter((each) => each.checkVisibility())"
    assert browser.evaluate(f"{cells}.length") > 10
    assert browser.evaluate(f"{cells}.filter((each) => each.getBoundingClientRect().right > innerWidth).length") == 0
    named = f"{cells}.map((each) => getComputedStyle(each, '::before').content)"
    assert {'"rebalances "', '"what "'} & {*browser.evaluate(named)}


def test_ten_seconds(browser: Browser, client: Client) -> None:
    """Goal: a link to an incident shows what happened, since when, to whom and what to do, in the first screen of a
    desk's browser and of a telephone."""
    assert len(looked_at(browser, client, "demo", "warning")) >= INCIDENTS_MIN


@pytest.mark.parametrize("screen", SCREENS)
def test_ten_seconds_of_the_overview(browser: Browser, tmp_path: Path, screen: tuple[int, int]) -> None:
    """Goal: the first screen of the overview has the same of the gravest that is wrong now, whatever its group's page
    says."""
    fill(tmp_path, "pay", "orders", "pod-b")
    with served(tmp_path) as client:
        browser.look(*screen)
        go(browser, client, f"/clusters/{CLUSTER}")
        assert browser.evaluate(in_view(".now details[open]")) == PARTS
        browser.visit("about:blank")


def test_axe_finds_nothing_in_what_is_wrong_now(browser: Browser, tmp_path: Path, axe: str) -> None:
    fill(tmp_path, "pay", "orders", "pod-b")
    with served(tmp_path) as client:
        browser.look(400, 800, is_dark=True)
        go(browser, client, f"/clusters/{CLUSTER}")
        assert browser.evaluate("document.querySelectorAll('.now details').length") == 1
        assert found_by(axe, browser) == []
        browser.visit("about:blank")


def test_ten_seconds_of_a_long_name(browser: Browser, tmp_path: Path) -> None:
    """Goal: the same holds for a group whose name alone would fill a telephone's screen."""
    fill(tmp_path, LONG_NAME, "orders", "pod-b")
    with served(tmp_path) as client:
        assert looked_at(browser, client, CLUSTER, "warning") == ["session_expired"]
        browser.visit("about:blank")


def test_many_partitions(browser: Browser, tmp_path: Path) -> None:
    """Goal: with 500 partitions, the page draws those with the most lag, folds the lanes of a topic by one key, and
    says how many it leaves out."""
    fill(tmp_path, "wide", "orders", "m")
    write(tmp_path, "assignments", *(assigned(number) for number in range(1, 500)))
    write(tmp_path, "lag", *(sampled(number) for number in range(1, 500)))
    with served(tmp_path) as client:
        browser.look(1400)
        go(browser, client, f"/clusters/{CLUSTER}/groups/wide?at={(AT + MINUTE).isoformat().replace('+00:00', 'Z')}")
        lanes = "[...document.querySelectorAll('[data-lane]')].filter((each) => each.checkVisibility()).length"
        assert browser.evaluate(lanes) == LANES_MAX
        summary = "document.querySelector('details.topic summary')"
        text = browser.evaluate(f"{summary}.textContent")
        assert ("500 partitions" in text, f"the {LANES_MAX} with most lag are drawn" in text) == (True, True)
        browser.evaluate(f"{summary}.focus()")
        browser.press("Enter")
        browser.wait(f"{lanes} === 0")
        browser.press("Enter")
        browser.wait(f"{lanes} === {LANES_MAX}")
        browser.look(400, 800)
        assert browser.evaluate(OVERFLOW) <= 0
        browser.visit("about:blank")
