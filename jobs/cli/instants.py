"""The options that take instants, and the zone that they are read and shown in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.instants import ZONE, AmbiguousTimeError, read_instant, zone_of
from groupledger.schemas.instants import instant_of_ms

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta


def instant(text: str) -> datetime:
    now = instant_of_ms(now_ms())
    try:
        return read_instant(text, now, zone_of(click.get_current_context(silent=True)))
    except AmbiguousTimeError as error:
        raise click.BadParameter(f"{error}.") from error
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(
            f"{text!r} is not a valid time: write one as 2026-01-31T14:03:00Z, 14:03 (the last time that it was), or 2h"
            " (two hours ago)."
        ) from error


def age_of(at: datetime) -> timedelta:
    """Returns how long ago an instant was."""
    return instant_of_ms(now_ms()) - at


def _set_zone(ctx: click.Context, _option: click.Parameter, name: str | None) -> None:
    if name is None:
        return
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ctx.meta[ZONE] = ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError) as error:
        raise click.BadParameter(
            f"{name!r} is not the name of a time zone: write one as UTC or Europe/Vienna."
        ) from error


FORMS = "2026-01-31T14:03:00Z, 14:03, or 2h ago as 2h"
AT = click.option("--at", required=True, type=instant, metavar="TIME", help=f"The instant: {FORMS}.")
AT_OR_LAST = click.option(
    "--at", type=instant, metavar="TIME", help=f"The instant: {FORMS}; the last that is known unless given."
)
SINCE = click.option("--since", type=instant, metavar="TIME", help="Only from then on; forms as 2026-01-31T14:03, 2h.")
UNTIL = click.option("--until", type=instant, metavar="TIME", help="Only before then.")


def in_a_zone(command: Callable[..., object]) -> Callable[..., object]:
    """Adds the option --tz to a command. It is parsed before the command's instants."""
    return click.option(
        "--tz",
        metavar="ZONE",
        expose_value=False,
        is_eager=True,
        callback=_set_zone,
        envvar="GROUPLEDGER_TZ",
        help="Read and show instants in this zone, as Europe/Vienna; UTC unless given.",
    )(command)
