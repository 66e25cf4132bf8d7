"""`groupledger notify`: sends incidents to the receivers of the settings, as `monitor` and `pipeline` do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.options import AS_JSON, CLUSTER, CONF, Job, places_of, settings_of
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.output import print_answers, say

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = (
    "The settings name no receiver: write one under notify.receivers, as the comment in conf/groupledger.yaml shows."
)


@click.command()
@click.option("--warehouse", metavar="DIR", help="Send the incidents of this warehouse.")
@CLUSTER
@CONF
@click.option(
    "--test", "is_test", is_flag=True, help="Send each receiver a test message, and the message that ends it."
)
@AS_JSON
def notify(*, warehouse: str | None, cluster: str | None, conf: Path | None, is_test: bool, as_json: bool) -> bool:
    """Send notifications of incidents that were not sent yet; with --test, try the receivers. Exit code 1 if one of
    them was not reached."""
    if (warehouse is None) != is_test:
        raise click.UsageError("Give either --warehouse or --test.")
    settings = settings_of(conf, cluster)
    # As `monitor`, which watches all of them: each may have receivers of its own.
    clusters = [settings_of(conf, name) for name in places_of(settings, cluster, None)] if is_test else []
    clusters = clusters or [settings]
    if not any(each.notify.receivers for each in clusters):
        raise InputError(NOBODY)
    from groupledger.jobs.notify.notify import Notifier, send_test

    if warehouse is None:
        found = [
            {"receiver": name, "cluster": each.cluster, "outcome": problem or "sent"}
            for each in clusters
            for name, problem in send_test(each, now_ms())
        ]
        print_answers("Receivers", ("receiver", "cluster", "outcome"), found, as_json=as_json, optional=["cluster"])
        return any(each["outcome"] != "sent" for each in found)
    with Job("notify", warehouse, cluster, conf).ledger() as ledger:
        notifier = Notifier(ledger)
        say(f"{notifier.look(now_ms()):,} messages were sent")
    return any(outcome == "failed" for _, outcome in notifier.counts)
