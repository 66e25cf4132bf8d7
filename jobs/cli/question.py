"""Provides the common parts of commands that ask the warehouse: their options, and until when an answer is known.

A command names the sources of its answer. A question about time that none of them covers is refused with a sentence and
exit code 4. If they cover a part of the time, the answer is printed, and the command ends with the same sentence and
exit code. With --json each line has `known_until`, by source, and a last line has the sentence as `not_known`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from groupledger.jobs.cli.instants import age_of, in_a_zone
from groupledger.jobs.cli.options import Job, on_warehouse
from groupledger.jobs.process.errors import NotKnownError, NotWrittenError, UnknownNameError
from groupledger.jobs.process.instants import in_zone
from groupledger.jobs.process.output import KNOWN_UNTIL, print_json, say
from groupledger.schemas.words import Source
from groupledger.transforms.coverage.rules.known import LOGS, Time, is_nothing_known, last_instant, why_not_known

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.transforms.coverage.rules.known import Known

# The arguments that name groups, and those that are instants.
NAMES = ("name", "names", "group")
INSTANTS = ("at", "then", "now")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, with all fields.")


@dataclass
class Question(Job):
    """The arguments of a question, with the groups and the time that it is about. Once rows were read, it also has
    until when each source is known."""

    sources: tuple[str, ...]
    names: tuple[str, ...]
    time: Time
    known: Known = field(default_factory=dict)

    def rows(self) -> ClusterRows:
        """Returns the rows of the cluster. Raises NotKnownError if no source covers the time that was asked for."""
        from groupledger.jobs.ask.known import sources_known

        tables = super().rows()
        self.known = sources_known(tables, self.names)
        click.get_current_context().meta[KNOWN_UNTIL] = self.known
        if is_nothing_known(self.known, self.sources, self.time):
            from groupledger.jobs.ask.answers import refuse_unknown

            for name in self.names:
                refuse_unknown(tables, name)
            raise NotKnownError(self.not_known)
        return tables

    def end(self) -> datetime:
        """Returns the end of the question's window: the given one, or the last instant that any of the sources knows.
        Raises NotKnownError if the sources know none."""
        end = self.time.until or last_instant(self.known, self.sources)
        if end is None:
            raise NotKnownError(self.not_known)
        return end

    @property
    def not_known(self) -> str | None:
        since = self.time.since
        return why_not_known(self.known, self.sources, self.time, None if since is None else age_of(since))

    def say_none(self, text: str) -> None:
        """Prints `text`, which says that there is no result, if all of the time that was asked for is known."""
        if self.not_known is None:
            say(text)

    def close(self) -> None:
        """Prints until when the answer is known. Raises NotKnownError if the question asked about a later time."""
        topic = self.known[Source.TOPIC]
        further = [log for log in LOGS if topic and (at := self.known[log]) is not None and at > topic]
        logs = further if Source.INCIDENTS in self.sources else []  # these may have been seen in a log alone
        sources = [
            f"{source.replace('_', ' ')} until {in_zone(at)}"
            for source in (*self.sources, *logs)
            if (at := self.known[source]) is not None and at != topic
        ]
        if topic is not None:
            say(", ".join((f"known until {in_zone(topic)}", *sources)))
        if self.not_known is not None:
            raise NotKnownError(self.not_known)


def question(*sources: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Makes a command a question to the warehouse. `sources` are the words of `Source` that it is answered from.

    It adds --warehouse, --cluster, --conf, --json and --tz, and passes a Question as the first argument; groups and
    times come from the command's own options. After the answer it prints until when the sources are known. Raises
    NotKnownError (exit code 4) if the command asked about a later time.
    """

    def of_command(command: Callable[..., object]) -> Callable[..., object]:
        @wraps(command)
        def run(job: Job, **asked: Any) -> object:
            found = Question(job.name, job.warehouse, job.cluster, job.conf, sources, names_in(asked), time_in(asked))
            try:
                has_findings = command(found, **asked)
                found.close()
            except (NotWrittenError, NotKnownError, UnknownNameError) as raised:
                from groupledger.jobs.ask.first_read import first_read

                error = first_read(found.warehouse, found.cluster) or raised
                if asked["as_json"] and isinstance(error, NotKnownError):
                    print_json([{"not_known": str(error)}])
                raise error from raised.__cause__
            return has_findings

        return on_warehouse(AS_JSON(in_a_zone(run)))

    return of_command


def names_in(asked: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the groups in the arguments of a command."""
    given = [asked.get(argument) or () for argument in NAMES]
    return tuple(name for each in given for name in ([each] if isinstance(each, str) else each))


def time_in(asked: Mapping[str, Any]) -> Time:
    """Returns the time that the arguments of a command are about."""
    instants = tuple(asked[argument] for argument in INSTANTS if asked.get(argument) is not None)
    return Time(since=asked.get("since"), until=asked.get("until"), instants=instants)
