"""Serves lists of events in a time, of a group or of all groups of a cluster, as JSON and as a page.

`audit_pages` and `deploy_pages` define the two lists. Only the last rows are sent or shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse, Response

from groupledger.jobs.process.path_names import name_in
from groupledger.jobs.serve.answers import Warehouse, instant_in, known_answer, known_of
from groupledger.jobs.serve.api import HISTORY
from groupledger.jobs.serve.shown import group_path
from groupledger.transforms.coverage.rules.known import Time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from jinja2 import Environment

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer

SHOWN_MAX = 200


@dataclass(frozen=True)
class ListInTime:
    """A list of events, such as deployments. `name` is the name of its rows, in the JSON and in the template. `find`
    returns the rows in the order of time, for the group in its second argument, or for all groups if that is None.
    `shown` has further values for the template."""

    warehouse: Warehouse
    name: str
    find: Callable[[ClusterRows, str | None, datetime | None, datetime | None], list[Answer]]
    template: str
    shown: Mapping[str, object]

    def answer(self, cluster: str, group: str | None, since: str | None, until: str | None, limit: int) -> Response:
        """Returns the last `limit` rows as JSON. `cluster` and `group` are encoded as in a URL's path."""
        tables, name, time, found = self._events(cluster, group, since, until)
        answer = {self.name: found[-limit:], "left_out": max(len(found) - limit, 0)}
        return known_answer(answer, tables, HISTORY, time, _names(name))

    def page(
        self, environment: Environment, cluster: str, group: str | None, since: str | None, until: str | None
    ) -> HTMLResponse:
        """Returns a page with the last SHOWN_MAX rows, the newest first."""
        tables, name, time, found = self._events(cluster, group, since, until)
        text = environment.get_template(self.template).render(
            cluster=tables.cluster,
            name=name,
            since=time.since,
            until=time.until,
            count=len(found),
            to_group=partial(group_path, tables.cluster),
            **{self.name: found[::-1][:SHOWN_MAX]},
            **self.shown,
            **known_of(tables, HISTORY, time, _names(name)),
        )
        return HTMLResponse(text)

    def _events(
        self, cluster: str, group: str | None, since: str | None, until: str | None
    ) -> tuple[ClusterRows, str | None, Time, list[Answer]]:
        tables, name = self.warehouse.rows(cluster), None if group is None else name_in(group)
        time = Time(since=instant_in(since), until=instant_in(until))
        return tables, name, time, self.find(tables, name, time.since, time.until)


def _names(name: str | None) -> list[str]:
    return [] if name is None else [name]
