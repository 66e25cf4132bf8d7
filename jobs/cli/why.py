"""The command that explains why a group is in trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.completion import group_names
from groupledger.jobs.cli.instants import UNTIL, instant
from groupledger.jobs.cli.limits import last
from groupledger.jobs.cli.question import question
from groupledger.jobs.process.instants import in_zone
from groupledger.jobs.process.output import print_json
from groupledger.jobs.process.terminal import escaped, fitted, printable
from groupledger.schemas.words import Source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from groupledger.jobs.cli.question import Question
    from groupledger.jobs.process.output import Answer

EPISODES_MAX = 5


@click.command()
@click.argument("name", shell_complete=group_names)
@question(Source.HISTORY, Source.INCIDENTS)
@click.option(
    "--since",
    type=instant,
    metavar="TIME",
    help="From then on: 14:03, 2h or a date; the last two hours that are known if left out.",
)
@UNTIL
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Only the last N rows.")
def why(job: Question, *, name: str, since: datetime | None, until: datetime | None, limit: int, as_json: bool) -> None:
    """Show what is wrong with a group, since when, what to change and who can fix it; then incidents, rebalances,
    owners, offsets and lag in one order."""
    from groupledger.jobs.ask.why import WINDOW
    from groupledger.jobs.ask.why import why as reasons

    tables = job.rows()
    begin = since or job.end() - WINDOW
    entries, verdict = reasons(tables, name, begin, until)
    shown = last(entries, limit)
    if as_json:
        print_json([*shown, verdict])
        return
    if verdict["episodes"] or verdict["root"] is not None or job.not_known is None:
        for line in verdict_lines(verdict, begin):
            click.echo("\n".join(fitted(line)))
    for entry in shown:
        how = "" if entry["how"] is None else f"{printable(entry['how'])}: "
        line = f"{in_zone(entry['at'])}  {entry['what']:9} {how}{escaped(entry['text'])}"
        click.echo("\n".join(fitted(line)))
    if not entries:
        job.say_none(
            f"nothing happened to {printable(name)} from {in_zone(begin)} to {in_zone(job.end())}: no rebalance, no"
            " incident, no round of lag"
        )


def verdict_lines(verdict: Answer, since: datetime) -> Iterator[str]:
    """Yields the lines of a verdict for a terminal: first diagnosed trouble, then episodes without a diagnosis. If
    there are neither, the lines are about normal operation, such as a deployment; without that, about the root of most
    rebalances."""
    from groupledger.jobs.ask.diagnosis import diagnosis_lines, is_shown, left_over
    from groupledger.jobs.ask.incidents import episode_lines
    from groupledger.jobs.ask.verdict import others

    found = [each for each in verdict["diagnosis"] if is_shown(each)]
    episodes = left_over(verdict)
    shown = found if found or episodes else verdict["diagnosis"]
    as_of = verdict["as_of"]
    lines = [
        *(diagnosis_lines(each, since, as_of, others(each, verdict["episodes"])) for each in shown),
        *(episode_lines(each, since, as_of) for each in episodes),
    ]
    for each in lines[:EPISODES_MAX]:
        yield from each
    if len(lines) > EPISODES_MAX:
        yield f"and {len(lines) - EPISODES_MAX:,} more: see --json"
    if not lines and verdict["root"] is None:
        yield "No trouble is known of this time."
    elif not lines:
        yield f"Most rebalances of this time that have a known cause: {verdict['root']}. {verdict['advice']}"
        yield f"    change: {verdict['setting_to_change']}"
    yield ""
