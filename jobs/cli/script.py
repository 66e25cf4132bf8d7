"""Runs the command line as the console script. A signal that comes before a command starts, or after it has ended, ends
the process silently; with too little memory nothing is started.

Python spends half a second on imports. A signal in that time would end the process with a traceback, or with the exit
code of a killed process. Where the address space is limited (`ulimit -v`), libraries end the process in different ways,
one of them with the exit code of findings: they reserve much more memory than they use.

If the process is started without standard streams (`>&-`, some supervisors), nothing is printed. Left closed, their
file numbers would be given to the next files that are opened, and a message for standard error would end up in a
table's file.
"""

from __future__ import annotations

import os
import resource
import signal
import sys

ENDED_BY_A_SIGNAL = 128  # as `jobs.process.signals`, which takes a while to import
OUTSIDE = 3  # as `jobs.process.errors`
ADDRESS_SPACE_MIN_BYTES = 2_000_000 << 10


def run() -> None:
    """Runs the command line. While a command runs, `jobs.process.signals` handles signals."""
    open_all_streams()
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE_MIN_BYTES:
        sys.stderr.write(
            f"groupledger: The limit of memory (`ulimit -v {limit >> 10}`) is too low for Arrow, Delta and DuckDB,"
            f" which reserve more than they use: give {ADDRESS_SPACE_MIN_BYTES >> 10} or more, or `unlimited`.\n"
        )
        sys.exit(OUTSIDE)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os._exit(ENDED_BY_A_SIGNAL + number))
    from groupledger.jobs.cli.main import main
    from groupledger.jobs.process.output import STDERR, STDOUT, let_go

    try:
        main()
    finally:
        let_go(STDOUT, sys.stdout)
        let_go(STDERR, sys.stderr)


def open_all_streams() -> None:
    """Opens closed standard streams to the null device."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            if os.open(os.devnull, os.O_RDWR) != number:
                raise OSError(f"the stream {name} could not be opened")
            setattr(sys, name, open(number, mode))  # noqa: SIM115, PTH123 - for as long as the process lives


if __name__ == "__main__":
    run()
