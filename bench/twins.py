"""`python -m bench.twins` plays the same life of groups on a real broker and on the coordinator on a socket.

Three clients, classic and KIP-848, eager, cooperative and static: the records of both coordinators show the same
generations, members, assignments and commits, and Java's client asks both the same (`lab.kafka.twins`). It exits with
what differs.
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
