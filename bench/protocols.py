"""`python -m bench.protocols` prints the tables of docs/protocols.md: every script of ours under every protocol.

Times are virtual, so that the tables are the same on every machine. Each figure is the median of twenty seeds.
"""

from __future__ import annotations

from statistics import median

import click

from groupledger.coordinator.protocols.compare import PROTOCOLS, play
from groupledger.coordinator.protocols.script import SCRIPTS

SEEDS = 20
HEADINGS = ("protocol", "rebalances", "requests", "s unowned", "s doubled", "read twice", "settles in s (worst)")


def main() -> None:
    for script in SCRIPTS.values():
        click.echo(f"\n**{script.name}**\n\n| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}")
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


if __name__ == "__main__":
    main()
