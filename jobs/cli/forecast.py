"""The command that forecasts when groups have caught up, and when they lose records or offsets."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.instants import instant
from groupledger.jobs.cli.names import group_name
from groupledger.jobs.cli.question import question
from groupledger.jobs.process.instants import in_zone
from groupledger.jobs.process.output import print_answers, say
from groupledger.jobs.process.terminal import fitted, printable
from groupledger.schemas.words import Source

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.cli.options import Job


@click.command()
@group_name
@question(Source.SAMPLES)
@click.option("--at", type=instant, metavar="TIME", help="Use the last sampling round at or before this time.")
@click.option("--top", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="How many rows.")
def forecast(job: Job, *, name: str | None, at: datetime | None, top: int, as_json: bool) -> None:
    """Show when groups will have caught up, and when retention will overtake their commits: at the present pace, at the
    earliest and at the latest. With NAME, also when its offsets expire."""
    tables = job.rows()
    from groupledger.jobs.ask.forecasts import COLUMNS, OPTIONAL, cells, expiry, forecasts, sentences

    as_of, found = forecasts(tables, name, at)
    say(f"as of the sampling round of {in_zone(as_of)}")
    shown = found[:top]
    if len(found) > top:
        say(f"{len(found) - top:,} partitions that are better off are left out: see --top")
    if name is not None and not as_json:
        retention = timedelta(seconds=job.combined_settings(tables).offsets.retention_s)
        for sentence in sentences(found, expiry(tables, name, retention) if at is None else None):
            click.echo("\n".join(fitted(sentence)))
    title, optional = ("Forecast", ()) if name is None else (f"Forecast of {printable(name)}", ("group_id",))
    rows = shown if as_json else map(cells, shown)
    print_answers(title, COLUMNS, rows, as_json=as_json, optional=(*optional, *OPTIONAL))
