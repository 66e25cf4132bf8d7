"""Counts the incidents of a warehouse whose page says in the first screen what is wrong, since when, who, and what to
do: on a desk's screen and on a telephone's, light and dark.

    python -m bench.ten_seconds WAREHOUSE CLUSTER [--severity warning] [--keep FOLDER]

For each group it follows the link of its first incident, as a message has it. With `--keep` it stores a screenshot of
each look. It needs Chromium. The run ends with 1 if a part is missing, or lies outside the screen.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from urllib.parse import quote

from tests.jobs.report.browser import open_browser
from tests.jobs.serve.serving import served
from tests.jobs.serve.ten_seconds import PARTS, SCREENS, in_view

LOOKS = [(width, height, is_dark) for width, height in SCREENS for is_dark in (False, True)]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("warehouse")
    parser.add_argument("cluster")
    parser.add_argument("--severity", default="warning")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    missing = 0
    with served(arguments.warehouse) as client, open_browser() as browser:
        path = f"/clusters/{quote(arguments.cluster, '')}"
        found = client.get(f"/api/v1{path}/incidents?severity={arguments.severity}&limit=1000").json["incidents"]
        first = {row["group_id"]: row for row in reversed(found) if row["group_id"] is not None}
        for number, (group, row) in enumerate(sorted(first.items())):
            at = f"at={quote(row['first_seen_at'])}"
            browser.visit(f"http://127.0.0.1:{client.port}{path}/groups/{quote(group, '')}?{at}")
            for width, height, is_dark in LOOKS:
                browser.look(width, height, is_dark=is_dark)
                seen = browser.evaluate(in_view("#verdict article"))
                if seen != PARTS:
                    missing += 1
                    print(f"{group!r}, {row['kind']}, {width} wide: in the first screen is only {seen}", flush=True)
                if arguments.keep is not None:
                    arguments.keep.mkdir(parents=True, exist_ok=True)
                    browser.screenshot(arguments.keep / f"{number:03}-{width}-{'dark' if is_dark else 'light'}.png")
        browser.visit("about:blank")
    print(f"{len(first)} groups with incidents, {len(first) * len(LOOKS)} looks, {missing} with a part out of sight")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
