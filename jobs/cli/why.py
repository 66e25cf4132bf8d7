"""The command that explains why a group is in trouble."""

from __future__ import annotations

import re
from operator import itemgetter
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
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from groupledger.jobs.cli.question import Question
    from groupledger.jobs.process.output import Answer

EPISODES_MAX = 5
REPEATS_MIN = 5
UNIQUE = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
VARIES = re.compile(r"[0-9] records?\b| before$")


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
    if as_json:
        print_json([*last(entries, limit), verdict])
        return
    if verdict["episodes"] or verdict["root"] is not None or job.not_known is None:
        for line in verdict_lines(verdict, begin):
            click.echo("\n".join(fitted(line)))
    for line in last(entry_lines(entries), limit):
        click.echo("\n".join(fitted(line)))
    if not entries:
        job.say_none(
            f"nothing happened to {printable(name)} from {in_zone(begin)} to {in_zone(job.end())}: no rebalance, no"
            " incident, no round of lag"
        )


def entry_lines(entries: Sequence[Answer]) -> list[str]:
    """Returns a line for each entry, for a terminal. Entries of one kind, cause and place are one line, if there are at
    least REPEATS_MIN of them: it stands at the first, and has the last time and their number."""
    together: dict[tuple[str, str | None, str], list[Answer]] = {}
    for entry in entries:
        together.setdefault((entry["what"], entry["how"], _place_of(entry)), []).append(entry)
    found = []
    for (_, _, place), alike in together.items():
        if len(alike) < REPEATS_MIN:
            found += [(each["at"], _line(each, "", each["text"])) for each in alike]
        else:
            times = f"{len(alike):,} times, the last at {in_zone(alike[-1]['at'])}"
            found.append((alike[0]["at"], _line(alike[0], times, place)))
    return [line for _, line in sorted(found, key=itemgetter(0))]


def _place_of(entry: Answer) -> str:
    """Returns the text of an entry without what is different each time: ids of members, numbers of records, the status
    of lag before, and all of a rebalance but its trigger. Incidents have nothing of the kind."""
    if entry["what"] == "incident":
        return str(entry["text"])
    if entry["what"] == "rebalance":
        return ""
    parts = UNIQUE.sub("*", entry["text"]).split("; ")
    return "; ".join(part for part in parts if not VARIES.search(part))


def _line(entry: Answer, times: str, text: str) -> str:
    head = " ".join(part for part in (printable(entry["how"] or ""), times) if part)
    return f"{in_zone(entry['at'])}  {entry['what']:9} {': '.join(part for part in (head, escaped(text)) if part)}"


def _of_round(row: Answer) -> str:
    from groupledger.jobs.ask.why import lag_text

    state = printable(row["group_state"] or "of an unknown state")
    return f"At {in_zone(row['sampled_at'])} the group was {state}, its lag {row['status']}: {escaped(lag_text(row))}"


def verdict_lines(verdict: Answer, since: datetime) -> Iterator[str]:
    """Yields the lines of a verdict for a terminal: first diagnosed trouble, then episodes without a diagnosis. If
    there are neither, the lines are about normal operation, such as a deployment; without that, about the root of most
    rebalances. How the group was at the end comes last."""
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
    if verdict["last_round"] is not None:
        yield _of_round(verdict["last_round"])
    for each in verdict["quiet_topics"]:
        yield f"{printable(each['topic'])} has had no new records since {in_zone(each['no_records_since'])}."
    yield ""
