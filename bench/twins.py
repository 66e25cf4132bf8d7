"""`python -m bench.twins` plays the same life of groups on a real broker and on the coordinator on a socket.

There are groups of three clients, classic and KIP-848, eager, cooperative and static ones. The records of both
coordinators must show the same generations, members, assignments and commits, and Java's client must send the same
requests to both (`lab.kafka.twins`). If they differ, the differences are printed, and the exit code is 1.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from lab.kafka import matrix, twins
from lab.kafka.local_broker import LocalBroker

CASES = (
    *matrix.LONG,
    matrix.Case(matrix.JAVA, matrix.CONSUMER),
    matrix.Case(matrix.JAVA, matrix.CONSUMER, is_static=True),
    matrix.Case(matrix.LIBRDKAFKA, matrix.CONSUMER),
    matrix.Case(matrix.LIBRDKAFKA, matrix.CONSUMER, is_static=True),
)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, LocalBroker(Path(directory), log_requests=True) as broker:
        found = twins.differences(broker, CASES)
    if found:
        sys.exit("\n".join(found))
    print(
        f"{len(CASES)} groups have the same generations, members, assignments and commits on both, and Java's requests"
    )


if __name__ == "__main__":
    main()
