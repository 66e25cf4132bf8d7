"""Writes the pages of reference that follow from the code: `python -m tools.reference_docs`.

    docs/commands.md    every command with its arguments and options, in the sections of `groupledger --help`
    docs/settings.md    `conf/groupledger.yaml`, a section for each of its own
    docs/metrics.md     every metric that a monitor serves, with its HELP

So the pages always agree with the code; `tests/tools/test_reference_docs.py` compares them.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.main import main as command_line
from groupledger.jobs.cli.sections import SECTIONS
from groupledger.jobs.monitor.metric_list import METRICS
from tools.setup import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCS = ROOT / "docs"
SETTINGS = ROOT / "conf" / "groupledger.yaml"
MADE = "<!-- Made by `python -m tools.reference_docs`; a test compares it with the code. -->"
SECTION = re.compile(r"^(\w+):", re.MULTILINE)


def pages() -> dict[Path, str]:
    """Returns the text of each page."""
    return {
        DOCS / "commands.md": "\n".join(commands()),
        DOCS / "settings.md": settings(SETTINGS.read_text()),
        DOCS / "metrics.md": "\n".join(metrics()),
    }


def commands() -> Iterator[str]:
    yield f"# Commands\n\n{MADE}\n"
    yield "Each option can also be set by an environment variable: `GROUPLEDGER_WAREHOUSE` for `--warehouse`."
    yield "`groupledger --debug COMMAND` shows a traceback with an error; [how a command"
    yield "ends](promises.md#how-a-command-ends) lists the exit codes, and [asking](asking.md) says how instants are written."
    for title, names in SECTIONS.items():
        links = ", ".join(f"[`{name}`](#{name})" for name in names)
        yield f"\n**{title}:** {links}"
    for names in SECTIONS.values():
        for name in names:
            yield from command(name, command_line.commands[name])


def command(name: str, about: click.Command) -> Iterator[str]:
    arguments = [each.make_metavar(click.Context(about)) for each in about.params if isinstance(each, click.Argument)]
    yield f"\n## {name}\n"
    yield f"    groupledger {' '.join([name, *arguments, '[OPTIONS]'])}\n"
    yield cell(inspect.cleandoc(about.help or ""), "\n")
    options = [each for each in about.params if isinstance(each, click.Option) and not each.hidden]
    if options:
        yield "\n| option | says |\n|---|---|"
        yield from (option(each, click.Context(about)) for each in options)


def option(each: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in (*each.opts, *each.secondary_opts))
    value = "" if each.is_flag else f" `{each.make_metavar(context).replace('INTEGER RANGE', 'N')}`"
    default = f" Default: `{each.default}`." if each.show_default and each.default not in (None, False) else ""
    required = " Needed." if each.required else ""
    return f"| {names}{value.replace('|', chr(92) + '|')} | {cell(each.help or '', ' ')}{default}{required} |"


def cell(text: str, between: str) -> str:
    """Returns a text with Markdown's special characters escaped."""
    return between.join(line.strip() for line in text.splitlines()).replace("|", "\\|").replace("*", "\\*").strip()


def settings(text: str) -> str:
    """Returns the page of the settings: the file itself, split before the comment of each section."""
    lines = text.splitlines()
    parts: list[tuple[str, list[str]]] = [("", [])]
    waiting: list[str] = []
    for line in lines:
        match = SECTION.match(line)
        if match:
            parts.append((match[1], [*waiting, line]))
            waiting = []
        elif line.startswith("#"):
            waiting.append(line)
        elif line.startswith(" "):
            parts[-1][1].extend([*waiting, line])
            waiting = []
        else:
            parts[-1][1].extend([*waiting, line])
            waiting = []
    head = (
        f"# Settings\n\n{MADE}\n\nThese are all settings with their defaults, as they stand in"
        " [conf/groupledger.yaml](../conf/groupledger.yaml). A file of yours, given by `--conf FILE`, has those that you"
        " change; an unknown setting is an error. Secrets are never written there, only where they stand: `{env: NAME}`"
        " or `{file: PATH}`.\n\n"
        "`history`, `offsets`, `incidents`, `lag` (without `no_commit`) and `privacy` decide what the rows mean. So the"
        " warehouse keeps the values with which its tables are written. A command without your file uses the kept values,"
        " and says so. If your file has another value, that one is used and kept from then on; for `history` and `offsets`"
        " the history is made again. `validate` uses the kept values.\n"
    )
    named = [(name, "\n".join(block).strip()) for name, block in parts if name]
    return head + "".join(f"\n## {name}\n\n```yaml\n{block}\n```\n" for name, block in named)


def metrics() -> Iterator[str]:
    yield f"# Metrics\n\n{MADE}\n"
    yield "`monitor` serves them at `/metrics` in Prometheus' and OpenMetrics' text forms. [Alerts](alerts.md) says which to"
    yield "build rules on. What is not known has no sample.\n"
    yield "| metric | type | unit | labels | meaning |\n|---|---|---|---|---|"
    for each in sorted(METRICS):
        yield f"| `{each.name}` | {each.type} | {each.unit} | {', '.join(each.labels)} | {cell(each.help, ' ')} |"
    yield ""


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text.rstrip("\n") + "\n")
