"""The command that plays a script under every protocol of Kafka's history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.options import AS_JSON
from groupledger.jobs.process.output import print_json, say
from groupledger.jobs.process.terminal import print_table

if TYPE_CHECKING:
    from groupledger.coordinator.protocols.compare import ProtocolOutcome

COLUMNS = (
    *("protocol", "rebalances", "rounds", "requests", "notices", "seconds unowned", "seconds doubled"),
    *("processed twice", "slowest to settle ms", "not settled in time", "conflicts", "gave up"),
)
OPTIONAL = ("not settled in time", "gave up", "conflicts", "rounds", "requests")


@click.command()
@click.option("--script", "name", required=True, metavar="NAME|FILE", help="One of ours, or a YAML file.")
@click.option("--seed", default=1, show_default=True, metavar="N", help="The seed of everything that is random.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Draw the lanes into this HTML file, too.")
@AS_JSON
def protocols(*, name: str, seed: int, out: Path | None, as_json: bool) -> None:
    """Play one script of joins, leaves, crashes and pauses under every protocol, from ZooKeeper to KIP-848, and show
    what each costs: partition-seconds that nobody or two consumed, records processed twice, requests, time to settle.

    Scripts of ours: rolling-deploy, crash, long-gc, slow-batch, scale-out, topic-grows.
    """
    from groupledger.coordinator.protocols.compare import compare
    from groupledger.jobs.protocols.script_file import find_script

    script = find_script(name)
    outcomes = compare(script, seed)
    rows = [cells(outcome) for outcome in outcomes]
    if as_json:
        print_json([fields(outcome) for outcome in outcomes])
    else:
        print_table(script.name, COLUMNS, rows, optional=OPTIONAL)
    if out is not None:
        from groupledger.jobs.protocols.page import page
        from groupledger.jobs.report.report import check_target, write_whole

        check_target(out)
        write_whole(out, [page(script, outcomes, rows, COLUMNS)])
        say(f"the page is {out}")


def cells(outcome: ProtocolOutcome) -> tuple[object, ...]:
    settled = [each for each in outcome.converged_ms if each is not None]
    return (
        *(outcome.protocol, outcome.rebalances, outcome.rounds, outcome.requests_for_rebalances),
        *(outcome.notifications, round(outcome.cost.unowned_ms / 1_000, 1), round(outcome.cost.doubled_ms / 1_000, 1)),
        *(outcome.cost.processed_twice, max(settled, default=None), outcome.converged_ms.count(None)),
        *(outcome.conflicts, outcome.give_ups),
    )


def fields(outcome: ProtocolOutcome) -> dict[str, object]:
    return {
        "protocol": outcome.protocol,
        "rebalances": outcome.rebalances,
        "rounds": outcome.rounds,
        "requests": dict(sorted(outcome.requests.items())),
        "notifications": outcome.notifications,
        "unowned_partition_ms": outcome.cost.unowned_ms,
        "doubled_partition_ms": outcome.cost.doubled_ms,
        "records_processed_twice": outcome.cost.processed_twice,
        "converged_ms": list(outcome.converged_ms),
        "conflicts": outcome.conflicts,
        "give_ups": outcome.give_ups,
    }
