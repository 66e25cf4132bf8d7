"""Shows an error to a person: the sentence that programs get as problem details, and where to go from there.

If the ledger does not know a name, the page has links to similar names. For any other error it has a link to ask again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from groupledger.jobs.process.errors import JobError
from groupledger.jobs.process.path_names import name_in, part
from groupledger.jobs.serve.shown import group_path
from groupledger.transforms.history.rules.never_seen import unseen_group

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request

    from groupledger.jobs.serve.answers import Warehouse

# Paths that programs ask for.
OF_PROGRAMS = ("/api/", "/v3/", "/static/")
CLUSTER = re.compile("/clusters/([^/]+)(?:/groups/([^/]+))?(?:/.*)?")
NOT_FOUND = 404


def is_for_people(request: Request) -> bool:
    """Returns whether a browser requests a page."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(OF_PROGRAMS)


def error_page(
    environment: Environment, warehouse: Warehouse, request: Request, status: int, detail: str, *, again: bool = True
) -> str:
    """Returns the page for an error, as HTML. `status` is the HTTP status, `detail` the sentence. `again`: whether the
    same address may be asked for again."""
    cluster: str | None = None
    links: list[tuple[str, str]] = []
    if status == NOT_FOUND:
        cluster, links = nearest(warehouse, request.scope["path"])
    values = {} if cluster is None else {"cluster": cluster}
    return environment.get_template("error.html").render(
        status=status, detail=detail, links=links, again=again and status != NOT_FOUND, **values
    )


def nearest(warehouse: Warehouse, path: str) -> tuple[str | None, list[tuple[str, str]]]:
    """Returns the cluster in a path, and the groups whose names are most like the one in the path, with their URLs. If
    the warehouse has no such cluster, returns None and all clusters with their URLs. If the tables can't be read,
    returns None and an empty list."""
    asked = CLUSTER.fullmatch(path)
    try:
        clusters = warehouse.clusters()
        if asked is None or name_in(asked[1]) not in clusters:
            return None, [(each, f"/clusters/{part(each)}") for each in clusters]
        tables = warehouse.rows(asked[1])
        if asked[2] is None:
            return tables.cluster, []
        names = [row["group_id"] for row in warehouse.groups(tables)]
        unseen = unseen_group(name_in(asked[2]), names)
    except JobError:
        # If the tables could not be read for the page, they can't be read for its error either.
        return None, []
    return tables.cluster, [(each, group_path(tables.cluster, each)) for each in unseen.nearest_names]
