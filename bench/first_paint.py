"""Measures how soon a browser shows something of the overview: `python -m bench.first_paint [--groups 10000]`.

A warehouse of this many groups is served on this machine to a headless Chromium, which visits the overview again and
again. First paint is counted from the beginning of the navigation (`PerformancePaintTiming`), and so is the answer, up
to its last byte. At the first visit the server computes what it then caches of the tables; later visits find that
cache. Processor time is that of this process, in which the server runs: other work on the machine changes it little.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from http import HTTPStatus
from pathlib import Path
from statistics import median

from bench.asking import CLUSTER, make
from tests.jobs.report.browser import Browser, open_browser
from tests.jobs.serve.serving import served

TIMES = """(() => {
    const [page] = performance.getEntriesByType("navigation"), [paint] = performance.getEntriesByType("paint");
    const rows = document.querySelectorAll("tbody tr").length;
    return [page.responseEnd, paint.startTime, page.decodedBodySize, rows, page.responseStatus];
})()"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        make(Path(directory), asked.groups, 1)
        with served(directory) as client, open_browser() as browser:
            browser.look(1400)
            address = f"http://127.0.0.1:{client.port}/clusters/{CLUSTER}"
            first = visited(browser, address)
            later = [visited(browser, address) for _ in range(asked.times)]
            print(f"{asked.groups:,} groups: {first[2]:,.0f} bytes of HTML, {first[3]:.0f} rows")
            shown = [*first[:2], first[-1]], [median(each[number] for each in later) for number in (0, 1, -1)]
            for visit, (answer, paint, busy) in zip(("first", f"median of {asked.times} later"), shown, strict=True):
                print(f"{visit}: answer {answer:,.0f} ms, first paint {paint:,.0f} ms, processor time {busy:,.0f} ms")


def visited(browser: Browser, address: str) -> list[float]:
    """Returns the milliseconds of answer and first paint, bytes, rows and, last, milliseconds of processor time."""
    browser.visit("about:blank")
    began = time.process_time()
    browser.visit(address)
    browser.wait("performance.getEntriesByType('paint').length > 0")
    *found, status = browser.evaluate(TIMES)
    if status != HTTPStatus.OK:
        raise SystemExit(f"The overview was answered with {status}: try again when the machine is quiet.")
    return [*found, 1_000 * (time.process_time() - began)]


if __name__ == "__main__":
    main()
