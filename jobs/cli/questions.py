"""The commands that ask the warehouse: arguments in, a table or JSON out. They write nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.completion import group_names, topic_names
from groupledger.jobs.cli.instants import AT_OR_LAST, SINCE, UNTIL
from groupledger.jobs.cli.names import group_name, owned_place
from groupledger.jobs.cli.options import FORM, on_warehouse
from groupledger.jobs.cli.question import question
from groupledger.jobs.process.instants import in_zone
from groupledger.jobs.process.output import print_answer, print_answers, print_json, say, warn
from groupledger.jobs.process.terminal import fitted, print_table, printable
from groupledger.schemas.words import Source

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.cli.options import Job
    from groupledger.jobs.cli.question import Question

RETENTION_DAYS = 7.0  # Kafka's offsets.retention.minutes, since 2.0


TOP = click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="How many.")


@click.command()
@click.argument("name", shell_complete=group_names)
@question(Source.HISTORY)
@SINCE
@UNTIL
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Only the last N records.")
def group(
    job: Job,
    *,
    name: str,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    as_json: bool,
) -> None:
    """Show what happened to a group: its incarnations, generations, members and rebalances; and who owns what now."""
    tables = job.rows()
    from groupledger.jobs.ask.group_timeline import OWNER_COLUMNS, group_timeline, heading, lines, owners_now

    row, entries, left_out = group_timeline(tables, name, since, until, limit)
    if left_out:
        say(f"{left_out:,} records before these are left out: see --limit")
    if as_json:
        print_json(entries)
        return
    for line in (heading(row), *(line for entry in entries for line in lines(entry))):
        click.echo("\n".join(fitted(line)))
    owners = owners_now(tables, name)
    if owners:
        click.echo("Members now")
        print_table("", OWNER_COLUMNS, ([owner[column] for column in OWNER_COLUMNS] for owner in owners))


@click.command()
@group_name
@question(Source.HISTORY)
@SINCE
@UNTIL
@TOP
def rebalances(
    job: Job, *, name: str | None, since: datetime | None, until: datetime | None, top: int, as_json: bool
) -> None:
    """Show the groups that rebalance most, or the last rebalances of the group NAME."""
    tables = job.rows()
    from groupledger.jobs.ask import group_activity

    if name is None:
        found = group_activity.most_rebalancing(tables, since, until, top)
        columns, optional = group_activity.COUNT_COLUMNS, group_activity.COUNT_OPTIONAL
        print_answers("Most rebalances", columns, found, as_json=as_json, optional=optional)
    else:
        found = group_activity.rebalances_of(tables, name, since, until, top)
        title = f"Rebalances of {printable(name)}"
        rarer = group_activity.REBALANCE_OPTIONAL
        print_answers(title, group_activity.REBALANCE_COLUMNS, found, as_json=as_json, optional=rarer)


@click.command()
@owned_place
@question(Source.HISTORY)
@AT_OR_LAST
def owner(job: Job, *, name: str | None, topic: str, partition: int, at: datetime | None, as_json: bool) -> None:
    """Show who owned a partition at an instant: owned, reserved, unowned, not_born, ended, or unknown and why.
    Without the group's NAME: in each group that ever had it.

    It is reserved while a static member of a KIP-848 group is away: nobody reads it, and nobody else gets it. The group
    is not_born before its first record, and ended after its removal. A group, topic or partition that the ledger never
    saw is unknown; similar names are listed."""
    tables = job.rows()
    from groupledger.jobs.ask.answers import last_answered
    from groupledger.jobs.ask.owner import owner as owner_of
    from groupledger.jobs.ask.owner import owner_in_all_groups

    place = (topic, partition, at or last_answered(tables))
    found = owner_in_all_groups(tables, *place) if name is None else owner_of(tables, name, *place)
    if as_json:
        print_json(found)
        return
    for answer in found:  # the reason names the nearest names
        print_answer("Owner", {name: value for name, value in answer.items() if name != "nearest_names"})


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=group_names)
@question(Source.TOPIC)
@AT_OR_LAST
@FORM(help="csv: the file that kafka-consumer-groups --reset-offsets --from-file reads.")
def offsets(job: Job, *, names: tuple[str, ...], at: datetime | None, form: str, as_json: bool) -> None:
    """Show the committed offsets of one or several groups at an instant."""
    tables = job.rows()
    from groupledger.jobs.ask.answers import last_answered
    from groupledger.jobs.ask.offsets_at import COLUMNS, offsets_at, reset_file_lines
    from groupledger.jobs.ask.undo import moved_back_note

    names, at = tuple(dict.fromkeys(names)), at or last_answered(tables)
    found = offsets_at(tables, names, at)
    had_any = {row["group_id"] for row in found}
    for name in names:
        if name not in had_any:
            say(f"the group {printable(name)} is known, and had no committed offsets at {in_zone(at)}")
    if as_json or form != "csv":
        print_answers("Committed offsets", COLUMNS, found, as_json=as_json or form == "json")
        return
    reset = list(reset_file_lines(names, found))
    if len(reset) < len(found):
        say(f"{len(found) - len(reset):,} partitions are left out, since their offsets then are unknown: see --json")
    if reset:
        click.echo("\n".join(reset))
    note = moved_back_note(tables, names, found)
    if note is not None:
        warn(note)


@click.command()
@question(Source.TOPIC)
@click.option(
    "--retention-days",
    type=click.FloatRange(min=0, min_open=True),
    default=RETENTION_DAYS,
    show_default=True,
    help="The brokers' offsets.retention.minutes, in days.",
)
@click.option(
    "--fraction",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="The part of the retention time that must have passed: 0.5 is half.",
)
def idle(job: Job, *, retention_days: float, fraction: float, as_json: bool) -> None:
    """Show the groups whose committed offsets will expire.

    Offsets expire if the group has no members, if no member subscribes to the topic any more, or if the commit named
    its own expiry. Old offsets of a modern group are shown, too: they expire as soon as its members leave."""
    tables = job.rows()
    from groupledger.jobs.ask.idle import COLUMNS, OPTIONAL
    from groupledger.jobs.ask.idle import idle as idle_groups

    as_of, found = idle_groups(tables, timedelta(days=retention_days), fraction)
    print_answers(f"Idle groups as of {in_zone(as_of)}", COLUMNS, found, as_json=as_json, optional=OPTIONAL)


@click.command()
@click.argument("topic", shell_complete=topic_names)
@question(Source.TOPIC)
def readers(job: Job, *, topic: str, as_json: bool) -> None:
    """Show the groups that own, subscribe to or have committed offsets of a topic."""
    tables = job.rows()
    from groupledger.jobs.ask.group_activity import READER_COLUMNS, READER_OPTIONAL, nearest_topics
    from groupledger.jobs.ask.group_activity import readers as readers_of

    found = readers_of(tables, topic)
    nearest = () if found else nearest_topics(tables, topic)
    if nearest:
        say(f"the ledger never saw the topic {printable(topic)}: did you mean {' or '.join(map(printable, nearest))}?")
    title = f"Readers of {printable(topic)}"
    print_answers(title, READER_COLUMNS, found, as_json=as_json, optional=READER_OPTIONAL)


@click.command()
@group_name
@question(Source.HISTORY)
@AT_OR_LAST
@click.option("--client", metavar="ID", help="Only members with this client id.")
@click.option("--host", metavar="HOST", help="Only members on this host, as the broker saw its address.")
def members(
    job: Question, *, name: str | None, at: datetime | None, client: str | None, host: str | None, as_json: bool
) -> None:
    """Show the members of all groups, or of the group NAME, at an instant, and how many partitions each had."""
    tables = job.rows()
    from groupledger.jobs.ask.answers import last_answered, refuse_unknown
    from groupledger.jobs.ask.members import COLUMNS, OPTIONAL
    from groupledger.jobs.ask.members import members as members_at

    if name is not None:
        refuse_unknown(tables, name)
    at = at or last_answered(tables)
    found = members_at(tables, at, group=name, client=client, host=host)
    if not found:
        whose = "no such member" if name is None or client or host else f"{printable(name)} had no member"
        job.say_none(f"{whose} at {in_zone(at)}")
    if found or as_json:
        title, optional = ("Members", ()) if name is None else (f"Members of {printable(name)}", ("group_id",))
        title = f"{title} at {in_zone(at)}"
        print_answers(title, COLUMNS, found, as_json=as_json, optional=(*optional, *OPTIONAL))


@click.command()
@question(Source.SAMPLES)
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="How many; all of them unless given.")
def topics(job: Job, *, top: int | None, as_json: bool) -> None:
    """Show all topics with the lag of the groups that read them, those in trouble first."""
    tables = job.rows()
    from groupledger.jobs.ask.topics import COLUMNS, OPTIONAL
    from groupledger.jobs.ask.topics import topics as topics_with_lag

    found = topics_with_lag(tables)[:top]
    print_answers("Topics", COLUMNS, found, as_json=as_json, optional=OPTIONAL)


@click.command()
@group_name
@question(Source.TOPIC)
@SINCE
@UNTIL
@TOP
def committers(
    job: Job, *, name: str | None, since: datetime | None, until: datetime | None, top: int, as_json: bool
) -> None:
    """Show the groups that commit most, or how often the group NAME commits."""
    tables = job.rows()
    from groupledger.jobs.ask.answers import refuse_unknown
    from groupledger.jobs.ask.group_activity import COMMITTER_COLUMNS
    from groupledger.jobs.ask.group_activity import committers as most_committing

    if name is not None:
        refuse_unknown(tables, name)
    found = most_committing(tables, since, until, top, name)
    title = "Most commits" if name is None else f"Commits of {printable(name)}"
    print_answers(title, COMMITTER_COLUMNS, found, as_json=as_json)


@click.command()
@on_warehouse
@click.option("--group", metavar="GROUP", shell_complete=group_names, help="Only the records of this group.")
@click.option("--limit", type=click.IntRange(min=1), help="Only the last records of the log's order.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as DumpLogSegments prints them.")
def records(job: Job, *, group: str | None, limit: int | None, as_json: bool) -> None:
    """Show the decoded records in the order of the log."""
    tables = job.rows()
    from groupledger.jobs.ask.records import print_records

    print_records(tables, group=group, limit=limit, as_json=as_json)


QUESTIONS = (group, rebalances, owner, members, topics, offsets, idle, readers, committers, records)
