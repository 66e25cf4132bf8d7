"""Measures how soon a browser shows something of the overview: `python -m bench.first_paint [--groups 10000]`.

A warehouse of so many groups is served on this machine to a headless Chromium, which visits the overview again and
again. First paint is counted from the beginning of the navigation (`PerformancePaintTiming`); so is the answer, up to
its last byte. The first visit makes what the server keeps of the tables, the later ones find it.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

from bench.asking import CLUSTER, make
from tests.jobs.report.browser import Browser, open_browser
from tests.jobs.serve.serving import served

TIMES = """(() => {
    const [page] = performance.getEntriesByType("navigation"), [paint] = performance.getEntriesByType("paint");
    return [page.responseEnd, paint.startTime, page.decodedBodySize, document.querySelectorAll("tbody tr").length];
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
            print(f"first visit: answer {first[0]:,.0f} ms, first paint {first[1]:,.0f} ms")
            answer, paint = (median(each[number] for each in later) for number in (0, 1))
            print(f"later (median of {asked.times}): answer {answer:,.0f} ms, first paint {paint:,.0f} ms")


def visited(browser: Browser, address: str) -> list[float]:
    browser.visit("about:blank")
    browser.visit(address)
    browser.wait("performance.getEntriesByType('paint').length > 0")
    found: list[float] = browser.evaluate(TIMES)
    return found


if __name__ == "__main__":
    main()
