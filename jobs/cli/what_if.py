"""The command that shows what other settings would have saved."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.completion import group_names
from groupledger.jobs.cli.instants import UNTIL, instant
from groupledger.jobs.cli.question import question
from groupledger.jobs.process.output import print_json, say
from groupledger.jobs.process.terminal import escaped, print_table, printable
from groupledger.schemas.words import Source

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.ask.what_if import WhatIfQuestion
    from groupledger.jobs.cli.options import Job
    from groupledger.jobs.cli.question import Question
    from groupledger.jobs.process.output import Answer

COLUMNS = ("group", "setting", "what", "observed", "replayed", "it would have been", "spared")


@click.command("what-if")
@click.argument("names", metavar="[GROUP]...", nargs=-1, shell_complete=group_names)
@question(Source.HISTORY)
@click.option("--all", "is_all", is_flag=True, help="All groups that rebalanced in that time.")
@click.option(
    "--since",
    type=instant,
    metavar="TIME",
    help="From then on: 14:03, 2h or a date; the last week that is known if left out.",
)
@UNTIL
@click.option(
    "--setting",
    "asked",
    multiple=True,
    required=True,
    metavar="S[,S]...",
    help="static, dynamic, range, roundrobin, sticky, cooperative-sticky, consumer (KIP-848), session.timeout.ms=N,"
    " heartbeat.interval.ms=N, max.poll.interval.ms=N or group.initial.rebalance.delay.ms=N; with commas several at"
    " once. Give it again for another answer.",
)
@click.option(
    "--actual",
    default="",
    metavar="S[,S]...",
    help="Actual settings of the groups that records do not have, in the same form.",
)
@click.option("--keep", "is_kept", is_flag=True, help="Keep the answers in what_if_runs and what_if_effects, too.")
def what_if(  # noqa: PLR0913 - one argument for each option
    job: Question,
    *,
    names: tuple[str, ...],
    is_all: bool,
    since: datetime | None,
    until: datetime | None,
    asked: tuple[str, ...],
    actual: str,
    is_kept: bool,
    as_json: bool,
) -> None:
    """Show what other settings would have saved: rebalances, moves, stopped time, records processed twice.

    The history of the group's members is replayed with the actual settings, which has to give the observed result; then
    with the settings asked for. If the effect can't be computed, the answer says why.
    """
    if is_all == bool(names):
        raise click.UsageError("Give the names of groups, or --all.")
    tables = job.rows()
    from groupledger.jobs.ask.what_if import WINDOW, WhatIfQuestion, settings_in
    from groupledger.jobs.ask.what_if import what_if as answers
    from groupledger.jobs.ask.what_if_savings import saving, with_numbers
    from groupledger.jobs.ask.what_if_stored import sentence, totals

    question = WhatIfQuestion(
        since=since or job.end() - WINDOW,
        until=until or job.end(),
        settings=tuple(map(settings_in, asked)),
        actual=settings_in(actual),
        consumer_session_ms=job.combined_settings(tables).history.consumer_session_timeout_s * 1_000,
    )
    found: list[Answer] = []
    for of_group in answers(tables, None if is_all else names, question):
        say(f"{printable(of_group[0]['group_id'])} is played")
        found += of_group
    if is_kept:
        _keep(job, tables.cluster, question, found)
    if as_json:
        print_json(with_numbers(found))
        return
    for total in totals(found):
        if total["groups_told"]:
            click.echo(escaped(sentence(total)))
    print_table(
        "What if", COLUMNS, [row for answer in found for row in _rows(answer)], optional=("replayed", "observed")
    )
    for answer in found:
        why = answer["refusal"]
        if why is None and saving(answer["rebalances"]) is None:
            why = "It may spare rebalances, or cost some: the runs differ."
        if why is not None:
            click.echo(f"{escaped(answer['group_id'])}, {answer['setting']}: can't be computed. {why}")


def _keep(job: Job, cluster: str, question: WhatIfQuestion, found: list[Answer]) -> None:
    from groupledger.jobs.derive.what_if import keep
    from groupledger.jobs.warehouse.lease import what_ifs_of

    with replace(job, cluster=cluster).ledger(what_ifs_of(cluster)) as ledger:
        say(f"the answers are kept as run {keep(ledger, question.row(), found)}")


def _rows(answer: Answer) -> list[tuple[object, ...]]:
    from groupledger.jobs.ask.what_if_savings import FIGURES, interval_text, saving_text, would_be

    return [
        (
            *(answer["group_id"], answer["setting"], what, interval_text(answer[name], "observed")),
            *(interval_text(answer[name], "replayed"), f"{would_be(answer[name]):,}", saving_text(answer[name])),
        )
        for name, what in FIGURES.items()
        if answer[name] is not None
    ]
