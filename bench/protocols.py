"""`python -m bench.protocols` prints the tables of docs/protocols.md: every script of `coordinator.protocols` under
every protocol.

Times are virtual, so that the tables are the same on every machine. Each figure is the median of twenty seeds.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import click

from groupledger.coordinator.protocols.compare import PROTOCOLS, play
from groupledger.coordinator.protocols.script import SCRIPTS

if TYPE_CHECKING:
    from groupledger.coordinator.protocols.compare import ProtocolOutcome

SEEDS = 20
OF_ZOOKEEPER = ("script", "events", "notices", "tries", "tries refused", "members that gave up")
HEADINGS = ("protocol", "rebalances", "requests", "s unowned", "s doubled", "read twice", "settles in s (worst)")


def main() -> None:
    claims = []
    for script in SCRIPTS.values():
        click.echo(f"\n**{script.name}**\n\n{heading(HEADINGS)}")
        for name, make in PROTOCOLS.items():
            runs = [play(script, name, make, seed) for seed in range(1, SEEDS + 1)]
            settled = [max((each for each in run.converged_ms if each is not None), default=0) / 1_000 for run in runs]
            figures = (
                median(run.rebalances for run in runs),
                median(run.requests_for_rebalances for run in runs),
                median(run.cost.unowned_ms for run in runs) / 1_000,
                median(run.cost.doubled_ms for run in runs) / 1_000,
                median(run.cost.processed_twice for run in runs),
            )
            shown = " | ".join(f"{figure:,.0f}" for figure in figures)
            click.echo(f"| {name} | {shown} | {median(settled):,.1f} ({max(settled):,.1f}) |")
            if runs[0].conflicts is not None:
                claims.append(f"| {script.name} | {len(script.events)} | {of_zookeeper(runs)} |")
    click.echo(f"\n**ZooKeeper: herd effect and split brain**\n\n{heading(OF_ZOOKEEPER)}")
    click.echo("\n".join(claims))


def heading(columns: tuple[str, ...]) -> str:
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


def of_zookeeper(runs: list[ProtocolOutcome]) -> str:
    """Returns the medians, with the highest after them."""
    counts = (
        [run.notifications for run in runs],
        [run.rounds for run in runs],
        [run.conflicts or 0 for run in runs],
        [run.give_ups or 0 for run in runs],
    )
    return " | ".join(f"{median(each):,.0f} ({max(each):,})" for each in counts)


if __name__ == "__main__":
    main()
