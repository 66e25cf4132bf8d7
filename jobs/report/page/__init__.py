"""The report's page: one HTML file that needs nothing else, and asks no network for anything.

    page.html    the template: headings, tables, and places for charts; autoescaped
    page.css     its look, light and dark, wide and narrow
    *.js         draw one group at a time from the data in the page, by Plotly, with tables that say the same
    names        names from data, fit to be read     overview    the page's upper half, as the template's words
    embed        data and code inside `<script>`     group_data  one group, as parts.js reads it
    times        instants and lengths of time

Plotly's JavaScript comes from the Python package, as one file; with it a page is never smaller than 5 MB. Each group
is a JSON block of its own, which the browser parses when the group is asked for.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from groupledger.jobs.report.page.embed import code_for_script, content_security_policy, json_for_script
from groupledger.jobs.report.page.names import readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Each builds on those before it.
SCRIPTS = ("parts.js", "charts.js", "group.js", "page.js")


def assemble(overview: Mapping[str, Any], groups: Iterable[Mapping[str, Any]]) -> str:
    """Returns the page's text. `groups` come from `group_data.group_data`, in the order of groups of the overview."""
    environment = Environment(
        loader=PackageLoader("groupledger.jobs.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    scripts = [code_for_script(plotly_script()), code_for_script(own_script())]
    return environment.get_template("page.html").render(
        readable(dict(overview)),
        policy=content_security_policy(scripts),
        scripts=scripts,
        style=code_for_script(_own("page.css")),
        group_blocks=(json_for_script(readable(dict(group))) for group in groups),
        json_for_script=json_for_script,
    )


def own_script() -> str:
    """Returns the files as one script, in a block of their own, since Plotly shares the page and its names."""
    return "\n".join(['"use strict";', "{", *map(_own, SCRIPTS), "}"])


@cache
def plotly_script() -> str:
    # Browsers turn the ends of lines into line feeds, and the hash is taken of what they see.
    text: str = get_plotlyjs()
    return text.replace("\r\n", "\n")


def _own(name: str) -> str:
    return (resources.files(__name__) / name).read_text(encoding="utf-8")
