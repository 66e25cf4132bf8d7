"""Asks a server every question with hostile values: each parameter of each path, and each part of each path.

    python -m bench.fuzz_http

The run prints each response with status 5xx, and ends with 1 if there was one. The warehouse is that of bench.asking. A
test sends a part of these requests.
"""

from __future__ import annotations

import base64
import re
import sys
import tempfile
from collections import Counter
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode

from fastapi.routing import APIRoute

from bench.asking import CLUSTER, make, served, status_of
from groupledger.jobs.process.path_names import part
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.serve import (
    api,
    burrow,
    group_page,
    incident_pages,
    overview_page,
    pages,
    place_pages,
    question_pages,
    shown,
)
from groupledger.jobs.serve.answers import Warehouse

NAMES = {
    "cluster": CLUSTER,
    "group": "g-7",
    "topic": "orders-7",
    "name": "page.css",
    "table": "incidents",
    "query": "lag-now",
}


def cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


INSTANTS = (
    *("0001-01-01", "0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00-23:59", "1969-12-31T23:59:59.999999Z"),
    *("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-23:59", "9998-01-01", "9997-12-31T23:59:59Z", "1970-01-01"),
    *("999999999w", "99999w", "0s", "-1d", "1e9", "now", "24:00", "14:03+01:00", "2026-02-29", "2026-W01-1"),
)
CURSORS = tuple(
    map(
        cursor,
        (
            *('[1e400,1,1,1,"a"]', '[Infinity,1,1,1,"a"]', '[NaN,1,1,1,"a"]', '[1,-Infinity,1,1,"a"]', "[" * 20_000),
            *('[true,1,1,1,"a"]', '["1",1,1,1,"a"]', "[1,1,1,1,null]", '[1,1,"a"]', "[1,1]", "{}", "1", ""),
            *('[1,1,1,1,"\\ud800"]', f'[{"9" * 4_000},1,1,1,"a"]'),
        ),
    )
)
TEXTS = (
    *("", " ", "\0", "'", '"', "a" * 5_000, "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")),
    *("\u202e", "*", "*a" * 1_000, "[" * 500, "[!", "(?i)", "%", "%00", "%FF", "..", "/", "<script>", "maybe", "none"),
    *("1e400", "NaN", "Infinity", "-1", "0", "9" * 5_000, "1001", "366d", "9999999999d", "1s"),
)
VALUES = (*INSTANTS, *CURSORS, *TEXTS)
# The values of each kind of parameter; for any other, the texts.
INSTANT_NAMES = {"at", "since", "until", "from", "to"}


def routes() -> list[tuple[str, list[str]]]:
    """Returns each path that is answered to its end, with the names of its parameters."""
    warehouse = Warehouse("nowhere", load_settings())
    modules = (overview_page, group_page, incident_pages, place_pages, question_pages)
    apart = [each.routes(warehouse, shown.templates()) for each in modules]
    routers = (api.routes(warehouse), burrow.routes(warehouse), pages.routes(warehouse), *apart)
    found = {each.path: each for router in routers for each in router.routes if isinstance(each, APIRoute)}
    return [(path, [field.alias for field in each.dependant.query_params]) for path, each in found.items()]


def filled(path: str, **names: str) -> str:
    return path.format_map({name: part(value) for name, value in names.items()})


def values_of(parameter: str) -> tuple[str, ...]:
    return VALUES if parameter in INSTANT_NAMES else (*CURSORS, *TEXTS) if parameter == "cursor" else TEXTS


def questions_of(path: str, parameters: list[str], names: dict[str, str]) -> list[str]:
    """Returns the requests for a path; all its parts and parameters have valid values except the one under test."""
    good = filled(path, **names)
    asked = [f"{good}?{urlencode({name: value})}" for name in parameters for value in values_of(name)]
    tried = re.findall(r"{(\w+)}", path)
    return asked + [filled(path, **{**names, name: value}) for name in tried for value in TEXTS]


def main() -> None:
    statuses: Counter[int] = Counter()
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), 10, 4)
        server, port, _ = served(Path(folder))
        try:
            for path, parameters in routes():
                for asked in questions_of(path, parameters, NAMES):
                    status = status_of(port, asked)
                    statuses[status] += 1
                    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                        failed.append((status, asked[:200]))
        finally:
            server.terminate()
            server.wait(timeout=60)
    print(f"{statuses.total():,} questions to {len(routes())} paths; by status {dict(sorted(statuses.items()))}")
    for status, asked in failed:
        print(status, asked)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
