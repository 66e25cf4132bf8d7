"""Serves the page that answers `groupledger what-if` for a group: a form for the settings, and their simulated results.

The form asks by GET, so that an answer has an address, and works without a script. The question has only those settings
that the user fills in. An answer is computed in a process of its own (`jobs.ask.what_if_process`), at most AT_ONCE at
the same time.
"""

from __future__ import annotations

from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from groupledger.coordinator.what_if.setting import ASSIGNED_BY, CONSUMER, MEMBERSHIP, TIMES
from groupledger.jobs.ask.answers import group_row, known_until
from groupledger.jobs.ask.what_if import WINDOW, WhatIfQuestion, settings_in
from groupledger.jobs.ask.what_if_process import ask
from groupledger.jobs.ask.what_if_savings import FIGURES, interval_text, saving, saving_text, would_be
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.path_names import name_in
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.serve.answers import QUESTION_S, Warehouse, instant_in, known_of
from groupledger.jobs.serve.question_pages import HISTORY
from groupledger.jobs.serve.readers import BusyError
from groupledger.jobs.serve.shown import group_path
from groupledger.transforms.coverage.rules.known import Time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jinja2 import Environment

    from groupledger.jobs.process.output import Answer

AT_ONCE = 2
WORDS: dict[str, tuple[str, ...]] = {"assignor": ASSIGNED_BY, "members": tuple(MEMBERSHIP)}
"""The settings that each field of the form accepts. The other fields for settings are TIMES, in milliseconds."""
FIELDS = (*WORDS, *TIMES, "actual", "since", "until")


def routes(warehouse: Warehouse, environment: Environment) -> APIRouter:
    """Returns the route of the page."""
    pages = APIRouter(default_response_class=HTMLResponse, include_in_schema=False)
    places = BoundedSemaphore(AT_ONCE)

    @pages.get("/clusters/{cluster}/groups/{group}/what-if")
    def what_if_page(cluster: str, group: str, request: Request) -> HTMLResponse:
        tables, name = warehouse.rows(cluster), name_in(group)
        group_row(tables, name)
        given = dict(request.query_params)
        time = Time(since=instant_in(given.get("since")), until=instant_in(given.get("until")))
        until = time.until or known_until(tables)
        question = WhatIfQuestion(
            since=time.since or until - WINDOW,
            until=until,
            settings=(tuple(settings_of(given)),),
            actual=settings_in(given.get("actual", "")),
            consumer_session_ms=warehouse.combined_settings(tables).history.consumer_session_timeout_s * 1_000,
        )
        answer = None
        if question.settings != ((),):
            if not places.acquire(blocking=False):
                raise BusyError(f"{AT_ONCE} of these questions are being answered already: ask again.")
            try:
                (answer,) = ask(warehouse.place, tables.cluster, name, question, QUESTION_S)
            finally:
                places.release()
        text = environment.get_template("what_if.html").render(
            cluster=tables.cluster,
            name=name,
            given=given,
            words=WORDS,
            times=TIMES,
            consumer=CONSUMER,
            question=question,
            answer=answer,
            rows=[] if answer is None else [*figures(answer)],
            lead=None if answer is None else lead(answer),
            to_group=group_path(tables.cluster, name),
            **known_of(tables, HISTORY, time, [name]),
        )
        return HTMLResponse(text)

    return pages


def settings_of(given: Mapping[str, str]) -> Iterator[str]:
    """Yields the settings to ask about, from the fields of a form: a word, or NAME=MILLISECONDS. Raises InputError for
    an unknown field or word."""
    unknown = next((field for field in given if field not in FIELDS), None)
    if unknown is not None:
        raise InputError(f"This page has no parameter {printable(unknown)}: it has {', '.join(FIELDS)}.")
    for field, words in WORDS.items():
        if given.get(field):
            if given[field] not in words:
                raise InputError(f"{field} is one of {', '.join(words)}.")
            yield given[field]
    yield from (f"{field}={given[field]}" for field in TIMES if given.get(field))


def lead(answer: Answer) -> tuple[str, str]:
    """Returns the most important number of an answer as text, and what it counts. If there is none, returns `unknown`
    or `unclear`, and the reason."""
    figure = answer["rebalances"]
    if answer["refusal"] is not None:
        return "unknown", str(answer["refusal"])
    number = saving(figure)
    if number is None:
        return "unclear", "It may save rebalances, or cost some: the runs differ."
    observed = interval_text(figure, "observed")
    if round(number) < 0:
        return f"{-round(number):,} more", f"rebalances than the {observed} that were observed"
    return f"{round(number):,} of {observed}", "rebalances that were observed would not have happened"


def figures(answer: Answer) -> Iterator[dict[str, Any]]:
    """Yields the values of a row of the page's table for each figure that is known."""
    for name, what in FIGURES.items():
        figure = answer[name]
        if figure is not None:
            yield {
                "what": what,
                "observed": interval_text(figure, "observed"),
                "replayed": interval_text(figure, "replayed"),
                "would_be": would_be(figure),
                "saving": saving_text(figure),
            }
