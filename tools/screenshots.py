"""Takes the pictures of the documentation: `python -m tools.screenshots`.

They show the day that is shipped with groupledger, in Chromium at 1400 by 900: the overview, a group at an incident,
the incidents, and the report. The day is moved so that it ends now, so that ages read as in real life. Run it after a
change of how pages look. On a busy machine a page may lack diagnoses, or be refused, which ends the program: look at
each picture.
"""

from __future__ import annotations

import tempfile
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.demo.shipped import ends_now, unpack
from groupledger.jobs.report.report import write_report
from groupledger.transforms.coverage.rules.coverage_at import iso
from tests.jobs.report.browser import open_browser
from tests.jobs.serve.serving import served
from tools.setup import ROOT

DOCS = ROOT / "docs"
CLUSTER, GROUP = "demo", "shipping-labels"
WIDTH, HEIGHT = 1400, 900
BEFORE_THE_END = timedelta(minutes=50)
"""The incident of the group, at which its page is shown."""


def main() -> None:
    now = ends_now()
    pages = {
        "overview": f"/clusters/{CLUSTER}",
        "serve": f"/clusters/{CLUSTER}/groups/{GROUP}?at={quote(iso(now - BEFORE_THE_END))}&window=2h",
        "incidents": f"/clusters/{CLUSTER}/incidents",
    }
    with tempfile.TemporaryDirectory() as directory:
        warehouse, report = Path(directory) / "warehouse", Path(directory) / "report.html"
        warehouse.mkdir()
        unpack(warehouse, now)
        write_report(ClusterRows(str(warehouse), CLUSTER), report, print, (), now - timedelta(days=1), None, {})
        with served(warehouse) as client, open_browser() as browser:
            browser.look(WIDTH, HEIGHT)
            for name, path in pages.items():
                status = client.get(path).status
                if status != HTTPStatus.OK:
                    raise SystemExit(f"{path} was answered with {status}: take the pictures when the machine is idle.")
                browser.visit(f"http://127.0.0.1:{client.port}{path}")
                browser.screenshot(DOCS / f"{name}.png")
            browser.open(report)
            browser.screenshot(DOCS / "report.png")
    print(f"{DOCS}: {', '.join(f'{name}.png' for name in (*pages, 'report'))}")


if __name__ == "__main__":
    main()
