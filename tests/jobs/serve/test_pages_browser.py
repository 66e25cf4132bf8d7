"""Goal: in a real browser the pages find one of 10,000 groups, move through time by slider and keys, can be read narrow
and dark, and run nothing that a name says."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING
from urllib.parse import quote

import bcrypt
import pytest

from bench.asking import make
from groupledger.jobs.demo.shipped import unpack
from groupledger.jobs.serve.pages import STATIC
from groupledger.jobs.serve.passwords import Passwords
from tests.jobs.report.browser import CONTRAST, OVERFLOW, SMALLEST, WITHOUT_CAPTION, Browser, chromium, open_browser
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, Client, fill, served, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.browser

GROUPS = 10_000
# Of the first page of so many groups, which has a hundred of them.
OVERVIEW_BYTES_MAX, OVERVIEW_ELEMENTS_MAX = 250_000, 8_000
HOSTILE = "a/owners?x=1#<script>window.isRun=1</script>&\"'<img src=x onerror=window.isRun=1>\u202e%2F"
FAR = (1 << 63) - 3
CTRL = 2  # of the DevTools protocol
PAY = f"/clusters/{CLUSTER}/groups/pay"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip("NOT TESTED: the pages in a browser, since no chromium is on the PATH (apt install chromium)")
    with open_browser() as found:
        yield found


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    warehouse = tmp_path_factory.mktemp("served")
    fill(warehouse, "pay", "orders", "pod-b")
    fill(warehouse, HOSTILE, HOSTILE, HOSTILE)
    again = {"group_id": "pay", "incarnation": 1, "from_generation": 2, "to_generation": 3, "kafka_offset": 8}
    again |= {"happened_at": AT + 8 * MINUTE, "inferred_trigger": "joined", "changes": []}
    write(warehouse, "rebalances", again)
    commit = {"topic": HOSTILE, "partition": 0, "offset": 5}
    record = {"kafka_partition": 7, "kafka_offset": 3, "kafka_timestamp": AT, "group_id": HOSTILE}
    record |= {"record_type": "offset_commit", "is_tombstone": False, "ingest_date": AT.date()}
    write(warehouse, "coordinator_records", record | {"offset_commit": commit})
    fill(warehouse, "far", "distances", "pod-f")
    lag = {"group_id": "far", "topic": "distances", "partition": 1, "sampled_at": AT + MINUTE, "flags": []}
    lag |= {"sample_date": AT.date(), "committed_offset": FAR, "high_watermark": FAR + 1, "lag": 1, "status": "ok"}
    write(warehouse, "lag", lag | {"burrow_status": "OK"})
    owned = {"group_id": "far", "incarnation": 1, "topic": "distances", "partition": 1, "member_id": "pod-f"}
    owned |= {"other_member_ids": [], "from_offset": 1, "to_offset": 5, "valid_from": AT, "valid_to": AT + 5 * MINUTE}
    write(warehouse, "assignments", owned | {"is_start_known": True, "is_end_known": True})
    with served(warehouse) as found:
        yield found


@pytest.fixture
def shown(browser: Browser, client: Client) -> Iterator[Browser]:
    """The browser, wide and light; after the test, nobody may have complained, nor asked anything of elsewhere."""
    browser.requests.clear()
    browser.complaints.clear()
    browser.look(1280)
    yield browser
    assert browser.complaints == []
    assert all(each.startswith((f"http://127.0.0.1:{client.port}/", "data:")) for each in browser.requests)


def go(browser: Browser, client: Client, path: str) -> None:
    browser.visit(f"http://127.0.0.1:{client.port}{path}")


def test_offsets_keep_their_digits(shown: Browser, client: Client) -> None:
    """Goal: an offset above 2^53, which a number of JavaScript's can't hold, has all its digits on the page and in the
    text of its JSON."""
    go(shown, client, f"/clusters/{CLUSTER}/groups/far?at=2026-01-01T12:01:00Z")
    cells = "[...document.querySelectorAll('td')].map((cell) => cell.textContent)"
    assert {f"{FAR:,}", f"{FAR + 1:,}"} <= {*shown.evaluate(cells)}
    text = client.get(f"/api/v1/clusters/{CLUSTER}/groups/far/lag?at=2026-01-01T12:01:00Z").text
    assert f'"committed_offset":{FAR},' in text
    assert f'"high_watermark":{FAR + 1},' in text


def the_instant(browser: Browser) -> str:
    return str(browser.evaluate("document.querySelector('section h2 time').dateTime"))


def test_search(browser: Browser, tmp_path: Path) -> None:
    """Goal: / leads to the search; among 10,000 groups it finds the one that is typed."""
    make(tmp_path, GROUPS, 1)
    browser.complaints.clear()
    browser.look(1280)
    with served(tmp_path) as client:
        browser.requests.clear()
        go(browser, client, "/")
        assert browser.evaluate("document.querySelector('.groups caption').textContent").startswith("10,000 groups")
        assert browser.evaluate("document.querySelectorAll('.groups tbody tr').length") == 100
        pages = [each for each in browser.requests if each.startswith("http")]
        assert len(pages) == 2 + len(STATIC)  # the first leads to the cluster; style and scripts
        page = client.get(f"/clusters/{CLUSTER}").text
        assert len(page) < OVERVIEW_BYTES_MAX
        assert browser.evaluate("document.querySelectorAll('*').length") < OVERVIEW_ELEMENTS_MAX
        browser.leave(lambda: browser.press(*"/g-777*", "Enter"))
        assert browser.evaluate("document.querySelector('.groups caption').textContent").startswith("11 groups")
        names = browser.evaluate(
            "[...document.querySelectorAll('.groups tbody tr')].map((row) => row.cells[0].innerText)"
        )
        assert sorted(names) == sorted(["g-777", *(f"g-777{digit}" for digit in range(10))])
        browser.leave(lambda: browser.evaluate("document.querySelector('.groups tbody a').click()"))
        assert browser.evaluate("document.querySelector('h1').textContent") == "g-777"
        browser.visit("about:blank")
    assert browser.complaints == []


def test_slider(shown: Browser, client: Client) -> None:
    """Goal: the slider moves the instant, and the link that comes of it holds the instant and the window."""
    go(shown, client, f"{PAY}?window=15m")
    before = the_instant(shown)
    shown.evaluate("document.getElementById('slider').focus()")
    shown.leave(lambda: shown.press("Home"))
    link, then = shown.evaluate("location.href"), the_instant(shown)
    assert then < before
    assert quote(then, "") in link
    assert "window=15m" in link
    shown.visit("about:blank")
    shown.visit(link)
    assert the_instant(shown) == then
    assert shown.evaluate("document.querySelector('[name=at]').value") == then
    assert float(shown.evaluate("document.getElementById('slider').value")) == pytest.approx(0, abs=1)


def test_rebalances_by_key(shown: Browser, client: Client) -> None:
    """Goal: [ and ] go to the rebalance before and after, and do nothing at the ends or in a field."""
    go(shown, client, f"{PAY}?at=2026-01-01T12:06:00Z&window=15m")
    shown.leave(lambda: shown.press("["))
    assert the_instant(shown) == "2026-01-01T12:05:00.000Z"
    shown.press("[")
    assert the_instant(shown) == "2026-01-01T12:05:00.000Z"
    shown.leave(lambda: shown.press("]"))
    assert the_instant(shown) == "2026-01-01T12:08:00.000Z"
    shown.evaluate("document.querySelector('[name=at]').focus()")
    shown.press("[")
    assert shown.evaluate("document.querySelector('[name=at]').value.includes('[')")


PATHS = [
    f"/clusters/{CLUSTER}",
    f"/clusters/{CLUSTER}/incidents",
    f"/clusters/{CLUSTER}/rows/rebalances?key={quote(HOSTILE, '')}%2F1%2F2",
    f"/clusters/{CLUSTER}/topics/{quote(HOSTILE, '')}",
    f"/clusters/{CLUSTER}/topics/{quote(HOSTILE.upper(), '')}",
    *(
        f"/clusters/{CLUSTER}/groups/{quote(name, '')}{rest}"
        for name in ("pay", HOSTILE)
        for rest in (
            "?at=2026-01-01T12:01:00Z&window=15m",
            "/why?since=2026-01-01",
            "/diff?from=2026-01-01T12:01:00Z&to=2026-01-01T12:06:00Z",
        )
    ),
]


@pytest.mark.parametrize("path", PATHS, ids=range(len(PATHS)))
def test_every_page(shown: Browser, client: Client, path: str) -> None:
    """Goal: no name runs as a script or asks for anything, the policy has nothing to report, tables have captions, and
    wide, 400 pixels wide and dark, everything can be read and the page is no wider than the screen."""
    for width, is_dark in ((1280, False), (1280, True), (400, False), (400, True)):
        shown.look(width, is_dark=is_dark)
        go(shown, client, path)
        assert shown.evaluate("window.isRun") is None
        assert shown.evaluate(WITHOUT_CAPTION) == 0
        assert shown.evaluate(OVERFLOW) <= 0
        texts, contrast = shown.evaluate(CONTRAST)
        assert texts > 5
        assert contrast >= 4.5
        if shown.evaluate("document.querySelector('figure svg') !== null"):
            assert shown.evaluate(SMALLEST) >= 11


def test_the_picture(shown: Browser, client: Client) -> None:
    """Goal: pointer and arrow keys say who owned a partition since when; + and the wheel with Ctrl come closer without
    another page; and on a telephone the instant is in view."""
    go(shown, client, f"{PAY}?at=2026-01-01T12:06:00Z&window=15m")
    tip = "document.querySelector('.tip').textContent"
    owner = "document.querySelector('rect.owner').getBoundingClientRect()"
    x, y = shown.evaluate(f"[{owner}.x + 9, {owner}.y + 5]")
    shown.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    shown.wait(f"{tip}.includes('orders 0: pod-b (x, /h) since 2026-01-01T12:00:00.000Z until')")
    shown.evaluate("document.querySelector('figure.picture').focus()")
    shown.press("ArrowRight", "ArrowRight")
    assert "unowned" in shown.evaluate(tip)
    since = shown.evaluate("document.querySelector('figure.picture').dataset.since")
    shown.evaluate("window.isSame = true")
    shown.press("+")
    shown.wait(
        "new URL(location.href).searchParams.get('window') === '600s' && document.querySelector('.patterns') !== null"
    )
    shown.wait(f"document.querySelector('figure.picture').dataset.since > '{since}'")
    wheel = {"x": x, "y": y, "deltaX": 0, "deltaY": -100}
    shown.call("Input.dispatchMouseEvent", type="mouseWheel", modifiers=CTRL, **wheel)
    shown.wait("new URL(location.href).searchParams.get('window') === '480s'")
    assert shown.evaluate("window.isSame")
    shown.look(400)
    left, right = shown.evaluate(
        "(({left, right}) => [left, right])(document.querySelector('line.at').getBoundingClientRect())"
    )
    assert 40 < left <= right < 400


def test_a_new_round(browser: Browser, tmp_path: Path) -> None:
    """Goal: the overview follows the sampling rounds without another page, and keeps what was opened."""
    fill(tmp_path, "pay", "orders", "pod-b")
    browser.look(1280)
    browser.requests.clear()
    browser.complaints.clear()
    with served(tmp_path) as client:
        go(browser, client, f"/clusters/{CLUSTER}")
        browser.evaluate("window.isSame = true")
        browser.wait_for_request("/events")
        at = AT + 6 * MINUTE
        row = {"group_id": "pay", "topic": "orders", "partition": 0, "sampled_at": at, "sample_date": at.date()}
        row |= {"flags": [], "committed_offset": 5, "high_watermark": 4_717, "lag": 4_712, "owner": "pod-b"}
        write(tmp_path, "lag", row | {"burrow_status": "STOP", "status": "stopped"})
        browser.wait("document.querySelector('.groups tbody').textContent.includes('4,712')")
        assert browser.evaluate("window.isSame")
        browser.visit("about:blank")
    assert browser.complaints == []


def test_selecting(shown: Browser, client: Client) -> None:
    """Goal: dragging over the histogram of the overview shows the selected time."""
    go(shown, client, f"/clusters/{CLUSTER}?window=1h")
    line = "document.querySelector('.times .timeline').getBoundingClientRect()"
    x, y, width = shown.evaluate(f"[{line}.x, {line}.y + 20, {line}.width]")
    mouse = {"button": "left", "buttons": 1, "clickCount": 1, "y": y}

    def drag() -> None:
        for kind, share in (("mousePressed", 0.5), ("mouseMoved", 0.6), ("mouseMoved", 0.75), ("mouseReleased", 0.75)):
            shown.call("Input.dispatchMouseEvent", type=kind, x=x + width * share, **mouse)

    shown.leave(drag)
    window = shown.evaluate("new URL(location.href).searchParams.get('window')")
    assert 880 <= int(window.removesuffix("s")) <= 920
    assert shown.evaluate("document.querySelector('nav.bar time').dateTime") > "2026-01-01T11:39"


IN_VIEW = """
((names) => names.filter((name) => {
  const box = document.querySelector(name)?.getBoundingClientRect();
  return !box || box.height === 0 || box.top < 0 || box.bottom > innerHeight || box.left < 0 || box.right > innerWidth;
}))(['.verdict .badge', '.verdict .what', '.verdict .who', '.verdict .since', '.verdict .do', '.verdict .known'])
"""


def test_ten_seconds(browser: Browser, tmp_path: Path) -> None:
    """Goal: for each group of the demo with an incident, the page shows what, who, since when and what to do at once,
    on a desk and on a telephone, by day and by night."""
    unpack(tmp_path, datetime(2026, 1, 2, tzinfo=timezone.utc))
    browser.complaints.clear()
    with served(tmp_path) as client:
        found = client.get("/api/v1/clusters/demo/incidents").json["incidents"]
        first = {row["group_id"]: row["first_seen_at"] for row in reversed(found)}
        assert len(first) >= 12
        for number, (name, at) in enumerate(sorted(first.items())):
            go(browser, client, f"/clusters/demo/groups/{name}?at={at}")
            for width, height in ((1400, 900), (400, 800)):
                browser.look(width, height, is_dark=bool(number % 2))
                assert (name, width, browser.evaluate(IN_VIEW)) == (name, width, [])
        browser.visit("about:blank")
    assert browser.complaints == []


def test_a_password(browser: Browser, tmp_path: Path) -> None:
    """Goal: without a password the browser shows nothing of a group; with one the page has its style, its script and
    its news."""
    fill(tmp_path, "pay", "orders", "pod-b")
    file = tmp_path / "users"
    file.write_bytes(b"ann:" + bcrypt.hashpw(b"s3cret", bcrypt.gensalt(4)) + b"\n")
    browser.look(1280)
    with served(tmp_path, Passwords(file)) as client:
        browser.visit("about:blank")
        browser.call("Page.navigate", url=f"http://127.0.0.1:{client.port}/")
        # The browser shows a page of its own in place of the refusal; while it comes there is no document to ask.
        browser.wait("location.protocol != 'about:' && !!document.documentElement")
        assert "pay" not in browser.evaluate("document.documentElement.textContent")
        browser.requests.clear()
        browser.complaints.clear()
        browser.visit(f"http://ann:s3cret@127.0.0.1:{client.port}/")
        assert browser.evaluate("document.querySelector('.groups tbody a').textContent") == "pay"
        assert browser.evaluate("getComputedStyle(document.querySelector('caption')).textAlign") == "left"
        browser.wait_for_request("/events")  # answered for as long as the page is open
        browser.visit("about:blank")
    asked = {re.sub(r"^.*:\d+", "", each) for each in browser.requests}
    assert asked >= {"/static/page.css", "/static/page.js", f"/api/v1/clusters/{CLUSTER}/events"}
    assert browser.complaints == []
