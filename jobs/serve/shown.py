"""Renders pages from templates: every value is escaped, and a few filters format times, numbers and names."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from groupledger.jobs.ask.places import host_name
from groupledger.jobs.ask.verdict import pasted
from groupledger.jobs.ask.what_if_savings import saving_text
from groupledger.jobs.process.instants import lasted, lasted_seconds
from groupledger.jobs.process.path_names import part
from groupledger.jobs.process.terminal import escaped
from groupledger.transforms.coverage.rules.coverage_at import iso

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.ask.verdict import EpisodeSummary


def templates() -> Environment:
    """Returns the template environment. Every value is escaped, and characters without a glyph are shown as escapes:
    names come from clients."""
    loader = PackageLoader("groupledger.jobs.serve")
    found = Environment(loader=loader, autoescape=True, trim_blocks=True, undefined=StrictUndefined, finalize=readable)
    found.filters |= {
        "age_ms": age,
        "at": instant,
        "day": day,
        "duration": duration,
        "host": host_name,
        "lasted": lasted,
        "named": named,
        "number": number,
        "part": part,
        "pasted": line_of,
        "saving": saving_text,
        "when": when,
    }
    found.globals |= {"link": link, "has_objectives": False}
    return found


def readable(value: object) -> object:
    return escaped(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def instant(at: datetime | None) -> str:
    return "-" if at is None else iso(at)


def when(at: datetime | None) -> str | Markup:
    """Returns an instant as text, which the page's script converts to the user's zone; its title is the full
    instant."""
    if at is None:
        return "-"
    whole = iso(at)  # there is nothing to escape in an instant
    return Markup(f'<time datetime="{whole}" title="{whole}">{at.day} {at:%b %H:%M:%S}</time>')  # noqa: S704


def duration(seconds: float | None) -> str:
    return "-" if seconds is None else lasted_seconds(seconds)


def day(at: datetime) -> str:
    return f"{at:%A}, {at.day} {at:%B %Y}"


def named(name: str) -> str:
    """Returns a name to be shown; the empty name, which Kafka allows for a group, is made visible, too."""
    return name or "(the empty name)"


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if type(value) is float else f"{value:,}"


def age(milliseconds: int | None) -> str:
    return "-" if milliseconds is None else lasted(timedelta(milliseconds=milliseconds))


def line_of(each: EpisodeSummary, name: str) -> str:
    return pasted(name, each)


def group_path(cluster: str, name: str, at: datetime | None = None) -> str:
    return link(f"/clusters/{part(cluster)}/groups/{part(name)}", at=at and iso(at))


def topic_path(cluster: str, topic: str) -> str:
    return f"/clusters/{part(cluster)}/topics/{part(topic)}"


def place_path(cluster: str, kind: str, name: str) -> str:
    """Returns the URL of the page of a topic, a client or a host."""
    return f"/clusters/{part(cluster)}/{kind}s/{part(name)}"


def link(path: str, **parameters: object) -> str:
    given = {name: value for name, value in parameters.items() if value}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path
