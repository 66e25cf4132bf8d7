"""What the console script runs first: a signal that comes before there is anything to end, or when all is ended, ends
the process without a word.

Python imports for half a second, and would end there with a traceback, or with the exit code of who was killed.
"""

from __future__ import annotations

import os
import signal

ENDED_BY_A_SIGNAL = 128  # as `jobs.process.signals`, which takes a while to import


def run() -> None:
    """Runs the command line. While a command runs, `jobs.process.signals` says what becomes of a signal."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os._exit(ENDED_BY_A_SIGNAL + number))
    from groupledger.jobs.cli.main import main

    main()


if __name__ == "__main__":
    run()
