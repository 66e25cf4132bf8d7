"""The command that shows lag: now, at a past instant, and how other rules would have judged past rounds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.instants import SINCE, UNTIL, instant
from groupledger.jobs.cli.names import group_name
from groupledger.jobs.cli.question import question
from groupledger.jobs.process.instants import in_zone
from groupledger.jobs.process.output import print_answers, print_json, say
from groupledger.jobs.process.terminal import print_table, printable
from groupledger.schemas.words import Source

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.cli.options import Job
    from groupledger.transforms.lag.rules import LagRow

BY = ("partition", "topic", "group")
WATCH_S = 5.0


@click.command()
@group_name
@question(Source.SAMPLES)
@click.option(
    "--at", type=instant, metavar="TIME", help="Use the last sampling round at or before this time, as 14:03 or 2h."
)
@click.option(
    "--by", type=click.Choice(BY), default="partition", show_default=True, help="Show sums by topic or by group."
)
@click.option(
    "--exact",
    type=click.IntRange(1, 1_000),
    metavar="N",
    help="For the N partitions with the most lag, read the age of the next record from the record itself.",
)
@click.option("--bootstrap-servers", metavar="HOST:PORT", help="The brokers that --exact reads from.")
@click.option("--watch", is_flag=True, help="Show each new sampling round, until Ctrl-C.")
@SINCE
@UNTIL
def lag(  # noqa: PLR0913 - one for each option
    job: Job,
    *,
    name: str | None,
    at: datetime | None,
    by: str,
    exact: int | None,
    bootstrap_servers: str | None,
    watch: bool,
    since: datetime | None,
    until: datetime | None,
    as_json: bool,
) -> None:
    """Show the lag of all groups, or of the group NAME, at any time, and whether it is a problem. The columns are those
    of kafka-consumer-groups --describe.

    With NAME and --since: when the statuses changed, computed again by the current settings.
    """
    if (exact is None) != (bootstrap_servers is None):
        raise click.UsageError("--exact needs --bootstrap-servers.")
    check_times(name, at, since, until, watch=watch)
    from groupledger.jobs.ask import lag_answers

    if name is not None and since is not None:
        from groupledger.jobs.ask.lag_changes import status_changes
        from groupledger.jobs.process.settings import rules_from
        from groupledger.transforms.lag.rules import LagRules

        tables = job.rows()
        found = status_changes(tables, name, since, until, rules_from(LagRules, job.combined_settings(tables).lag))
        title = f"Status changes of {printable(name)}"
        print_answers(title, lag_answers.CHANGE_COLUMNS, found, as_json=as_json)
        return
    shown = None
    while True:
        tables = job.rows()
        sampled_at = lag_answers.round_at(tables, name, at)
        if sampled_at != shown:
            if watch:
                click.clear()  # nothing where the answer goes into a file
            say(f"as of the sampling round of {in_zone(sampled_at)}")
            rows = None
            if exact is not None and bootstrap_servers is not None:
                from groupledger.jobs.kafka.exact_lag import with_exact_seconds

                rows = lag_answers.rows_of_round(tables, sampled_at, None if name is None else [name])
                rows = with_exact_seconds(rows, exact, bootstrap_servers, job.settings)
            print_round(tables, sampled_at, name, by, rows, as_json=as_json)
            if name is not None and not as_json:
                from groupledger.jobs.ask.forecasts import forecasts, sentences

                say(" ".join(sentences(forecasts(tables, name, sampled_at)[1])))
        if not watch:
            break
        shown = sampled_at
        time.sleep(WATCH_S)


def check_times(
    name: str | None, at: datetime | None, since: datetime | None, until: datetime | None, *, watch: bool
) -> None:
    if since is not None and (name is None or at is not None):
        raise click.UsageError("--since needs the NAME of a group: give it, and leave out --at.")
    if until is not None and since is None:
        raise click.UsageError("--until needs --since.")
    if watch and (at is not None or since is not None):
        raise click.UsageError("--watch shows new rounds: leave out --at and --since.")


def print_round(
    tables: ClusterRows, sampled_at: datetime, name: str | None, by: str, rows: list[LagRow] | None, *, as_json: bool
) -> None:
    """Prints the round at `sampled_at` by partition, or its sums by topic or by group (`by`). With `rows`, prints these
    in place of the table's rows; their lag in seconds may be exact, from the records themselves."""
    from groupledger.jobs.ask.lag_answers import ROLLUP_COLUMNS, ROLLUP_OPTIONAL, rollup_answers, rows_of_round
    from groupledger.jobs.ask.lag_sums import sums_of_round

    if by == "partition":
        rows = rows or rows_of_round(tables, sampled_at, None if name is None else [name])
        print_rows(rows, name, as_json=as_json)
        is_any = bool(rows)
    else:
        by_topic = by == "topic"
        sums = (
            rollup_answers(rows, by_topic=by_topic)
            if rows
            else sums_of_round(tables, sampled_at, name, by_topic=by_topic)
        )
        print_answers(f"Lag by {by}", ROLLUP_COLUMNS, sums, as_json=as_json, optional=ROLLUP_OPTIONAL)
        is_any = bool(sums)
    if name is not None and not is_any:
        say(f"the group {printable(name)} is known, and had no committed offsets then")


def print_rows(rows: list[LagRow], name: str | None, *, as_json: bool) -> None:
    from groupledger.jobs.ask import lag_answers

    if as_json:
        print_json(lag_answers.answer(row) for row in rows)
        return
    cells = [lag_answers.cells(row) for row in rows]
    title, optional = ("Lag", ()) if name is None else (f"Lag of {printable(name)}", ("GROUP",))
    print_table(title, list(lag_answers.COLUMNS), cells, (*optional, *lag_answers.OPTIONAL))
