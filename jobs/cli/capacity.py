"""The command that shows whether a group has enough members."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.completion import group_names
from groupledger.jobs.cli.instants import SINCE, UNTIL
from groupledger.jobs.cli.question import question
from groupledger.jobs.process.output import print_answer, print_answers, print_json
from groupledger.jobs.process.terminal import escaped, printable
from groupledger.schemas.words import Source

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.cli.question import Question


@click.command()
@click.argument("name", shell_complete=group_names)
@question(Source.SAMPLES)
@SINCE
@UNTIL
@click.option(
    "--members",
    "asked",
    multiple=True,
    type=click.IntRange(1, 1_000),
    metavar="N",
    help="Also compute the result for N members; may be given several times.",
)
def capacity(
    job: Question,
    *,
    name: str,
    since: datetime | None,
    until: datetime | None,
    asked: tuple[int, ...],
    as_json: bool,
) -> None:
    """Show whether a group has enough members: how fast each processes records, how fast records are produced, hot
    partitions, and how many members would be enough. It uses the sampling rounds of the last hour, or those from
    --since on."""
    tables = job.rows()
    from groupledger.jobs.ask.capacity import MEMBER_COLUMNS, MEMBER_OPTIONAL, capacity_of, sentences

    found = capacity_of(tables, name, job.settings.lag.no_commit, since, until, asked)
    if as_json:
        print_json([found])
        return
    for sentence in sentences(found):
        click.echo(escaped(sentence))
    lists = ("findings", "hot_partitions", "by_member", "asked")
    plain = {key: value for key, value in found.items() if key not in lists}
    plain["even_members"] = ", ".join(map(str, found["even_members"])) or None
    print_answer(f"Capacity of {printable(name)}", plain)
    print_answers("Members", MEMBER_COLUMNS, found["by_member"], as_json=False, optional=MEMBER_OPTIONAL)
    if found["asked"]:
        print_answers("What if", tuple(found["asked"][0]), found["asked"], as_json=False)
