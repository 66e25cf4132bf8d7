"""Runs a real broker with real consumers on this machine until Ctrl-C or SIGTERM, to try `doctor`, `monitor` and
`pipeline` on it.

    python -m lab.kafka.broker_to_try [--directory DIR] [--seconds 240]

The consumers play the plot of the demo (`lab.kafka.local_traffic`) again and again. Each round takes `--seconds`.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path

import click

from groupledger.jobs.process.output import say
from lab.kafka.local_broker import LocalBroker, LocalKafkaError
from lab.kafka.local_traffic import TrafficError, make_offsets_topic, run_demo_traffic


@click.command()
@click.option("--directory", type=click.Path(path_type=Path), default="build/kafka", show_default=True)
@click.option("--seconds", type=click.IntRange(20), default=240, show_default=True)
def main(*, directory: Path, seconds: int) -> None:
    """Run a broker with consumers until Ctrl-C; the directory has its data and its logs, and may be there already."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # else clients and broker would be cut off
    try:
        with suppress(KeyboardInterrupt), LocalBroker(directory, log_requests=True) as broker:
            make_offsets_topic(broker.bootstrap_servers)
            logs = f"logs in {broker.request_log} and {broker.server_log}"
            say(f"a broker with consumers at {broker.bootstrap_servers}, {logs}, until Ctrl-C")
            while True:
                play(broker.bootstrap_servers, seconds)
    except (LocalKafkaError, TrafficError) as error:
        sys.exit(str(error))


def play(bootstrap_servers: str, seconds: int) -> None:
    """Plays the plot once. If a client is too slow for its time, as on a busy machine, only this round ends. Raises
    TrafficError if the broker no longer answers."""
    try:
        run_demo_traffic(bootstrap_servers, seconds)
    except TrafficError as error:
        say(str(error))
        make_offsets_topic(bootstrap_servers)


if __name__ == "__main__":
    main()
