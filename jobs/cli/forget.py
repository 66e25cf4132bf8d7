"""The command that removes a group, a client or a host from a warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.options import AS_JSON, on_warehouse
from groupledger.jobs.process.output import print_answers, say
from groupledger.jobs.process.terminal import printable

if TYPE_CHECKING:
    from groupledger.jobs.cli.options import Job

LEFT = (
    "Anything outside the warehouse stays: captures, the brokers' logs, reports, and the topic itself, from which a"
    " group that is still alive comes back with its next record. No table can be read as of an earlier time any more."
)


@click.command()
@on_warehouse
@AS_JSON
@click.option("--group", metavar="GROUP", help="Remove all rows about this group.")
@click.option("--client", metavar="ID", help="Take this client id, and member ids made of it, out of all rows.")
@click.option("--host", metavar="HOST", help="Take this address of clients out of all rows.")
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Show how many rows hold the name, and change nothing.")
def forget(
    job: Job, *, as_json: bool, group: str | None, client: str | None, host: str | None, is_dry_run: bool
) -> None:
    """Forget a group, a client or a host: in every table, and in their past.

    Run it while nobody writes or reads the tables of any cluster. It can't be undone."""
    given = [(kind, name) for kind, name in (("group", group), ("client", client), ("host", host)) if name]
    if len(given) != 1:
        raise click.UsageError("Give one of --group, --client and --host.")
    ((kind, name),) = given
    settings = job.settings
    from groupledger.jobs.process.session import spark_session
    from groupledger.jobs.warehouse.forget import forget as run
    from groupledger.transforms.forgetting import HOST, Forgotten

    hashed = settings.privacy.resolve().host(name) if kind == HOST else None
    bare = name.removeprefix("/") if kind == HOST else name
    forgotten = Forgotten(kind, tuple(dict.fromkeys(each for each in (bare, hashed) if each)))
    spark = spark_session("groupledger forget")
    outcome = run(spark, job.warehouse, settings, forgotten, is_dry_run=is_dry_run, say=say)
    if not outcome.changes:
        like = "; names like it: " + ", ".join(map(printable, outcome.nearest)) if outcome.nearest else ""
        say(f"No table of cluster {settings.cluster} holds the {kind} {printable(name)}{like}.")
        return
    answers = [
        {"table": each.table.name, "rows_removed": each.removed, "rows_changed": each.changed}
        for each in outcome.changes
    ]
    print_answers("Would forget" if is_dry_run else "Forgotten", tuple(answers[0]), answers, as_json=as_json)
    if not is_dry_run:
        say(LEFT)
