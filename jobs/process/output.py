"""Prints answers to standard output, as a table or as JSON, and progress to standard error.

An answer is a dict whose instants are aware datetimes in UTC. JSON is one object a line, exact and ASCII only, so that
no name can control a terminal.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import select
import sys
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TextIO

import click

from groupledger.jobs.process.instants import in_zone
from groupledger.jobs.process.terminal import print_table
from groupledger.transforms.coverage.rules.coverage_at import iso

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Answer = dict[str, Any]
STDOUT, STDERR = 1, 2
KNOWN_UNTIL = "groupledger.known_until"
"""The key in click's context of the times until which a question's answer is known, by source (`jobs.cli.question`)."""


class _PlainLines(logging.Handler):
    """Prints messages as they are, for whoever waits for the command."""

    def emit(self, record: logging.LogRecord) -> None:
        show(record.getMessage())


LOG = logging.getLogger("groupledger")


def log_plainly() -> None:
    """Makes the logger `groupledger` print each message as it is from now on."""
    LOG.propagate = False
    LOG.setLevel(logging.INFO)
    LOG.handlers = [_PlainLines()]


log_plainly()


def say(text: str, level: int = logging.INFO, *, cluster: str | None = None) -> None:
    """Reports progress. `jobs.process.log_lines` formats it for commands that run unattended."""
    LOG.log(level, text, extra={} if cluster is None else {"cluster": cluster})


def warn(text: str) -> None:
    """Reports a warning."""
    say(text, logging.WARNING)


def show(line: str) -> None:
    """Prints a line to standard error. If nobody reads it, or the disk of the log is full, the work goes on."""
    try:
        click.echo(line, err=True)
    except OSError:
        is_unread(STDERR)


def is_unread(stream: int = STDOUT) -> bool:
    """Returns whether the reader of a standard stream is gone, as `head` is once it has its lines. Output that is still
    buffered is then discarded, so that the process can end without an error."""
    watch = select.poll()
    watch.register(stream, 0)
    if not any(event & (select.POLLERR | select.POLLHUP) for _, event in watch.poll(0)):
        return False
    _to_nowhere(stream)
    return True


def let_go(number: int, stream: TextIO) -> None:
    """Flushes a standard stream, and discards its output if that fails, as on a full disk. Otherwise Python would try
    once more when it ends, and exit with 120. `number` is the file descriptor of `stream`."""
    try:
        stream.flush()
    except OSError:
        _to_nowhere(number)


def _to_nowhere(stream: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream)
    os.close(nowhere)


def number_of(number: int, noun: str) -> str:
    """Returns a number with its noun, in the plural unless it is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_answers(
    title: str,
    columns: Sequence[str],
    answers: Iterable[Answer],
    *,
    as_json: bool,
    optional: Sequence[str] | None = None,
) -> None:
    """Prints all fields of the answers as JSON, or `columns` of them as a table. On a narrow terminal the `optional`
    columns are left out, the first of them first. If `optional` is None, all columns but the first two may be left out,
    the last of them first."""
    if as_json:
        print_json(answers)
        return
    if optional is None:
        optional = columns[:1:-1]
    # Spaces, so that a narrow terminal breaks the headings between words.
    print_table(
        title,
        [name.replace("_", " ") for name in columns],
        ([_cell(answer[name]) for name in columns] for answer in answers),
        [name.replace("_", " ") for name in optional],
    )


def print_answer(title: str, answer: Answer) -> None:
    """Prints a line for each field of one answer that has a value."""
    found = [(name, _cell(value)) for name, value in answer.items() if value is not None]
    print_table(title, ("what", "value"), found, is_counted=False)


def print_json(answers: Iterable[Mapping[str, Any]]) -> None:
    """Prints a line of JSON for each answer. In the answer of a question, `known_until` has the time until which each
    source is known."""
    context = click.get_current_context(silent=True)
    known = None if context is None else context.meta.get(KNOWN_UNTIL)
    beside = {} if known is None else {"known_until": known}
    for answer in answers:
        sys.stdout.write(json_text({**answer, **beside}) + "\n")


def json_text(value: object) -> str:
    """Returns compact JSON with instants and dates in ISO 8601, and bytes as base64."""
    return json.dumps(value, separators=(",", ":"), default=_plain)


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, date):
        return value.isoformat()
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _cell(value: object) -> object:
    return in_zone(value) if isinstance(value, datetime) else value
