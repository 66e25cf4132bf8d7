"""Measures whether looking for incidents costs more as the past grows.

Each case is a ledger with a past of --days, written into the tables as by `bench.lag_cost`, with the log known to be
complete. The history folds the records. Then passes follow, each with a new round of samples and commits, which the
history has folded. The program prints the median time of the passes and its ratio to that of the shortest past. It ends
with 1 if the ratio is above 1.2.

    python -m bench.incident_cost [--days 1 365] [--groups 20] [--rounds-a-day 96] [--rewound-every 0]

With `--rewound-every 100` one of a hundred groups has an incident each day.
"""

from __future__ import annotations

import statistics
import threading
import time
from typing import TYPE_CHECKING

import numpy as np

from bench.history_cost import write_closed_rows
from bench.lag_cost import (
    CLOSED_ROWS_A_DAY,
    OFFSETS_PARTITIONS,
    TOPIC_PARTITIONS,
    Past,
    by_history,
    table_rows,
    write_whole_log,
)
from groupledger.jobs.derive.history import TABLES, update_history
from groupledger.jobs.derive.incidents import update_incidents
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.schemas.words import Completeness

if TYPE_CHECKING:
    from groupledger.jobs.warehouse.ledger import Ledger

PASSES = 3


def measure(ledger: Ledger, past: Past, days: int) -> tuple[float, str]:
    """Returns the median of the seconds of the passes after the first, which looks at everything, and the seconds of
    that one."""
    write_whole_log(ledger)
    ledger.create(COORDINATOR_RECORDS, WATERMARKS, COVERAGE, *TABLES)
    write_closed_rows(ledger, days * CLOSED_ROWS_A_DAY)
    rounds = days * past.rounds_a_day
    past.append(ledger, 0, rounds, with_lag=False)
    known_to = rounds + PASSES + 1
    partitions = np.arange(OFFSETS_PARTITIONS)
    complete = {
        "kafka_partition": partitions,
        "from_offset": partitions * 0,
        "to_offset": partitions * 0 + known_to * past.groups * TOPIC_PARTITIONS,
        "from_time": partitions * 0 + past.at_ms(0) * 1_000,
        "to_time": partitions * 0 + past.at_ms(rounds) * 1_000,
        "completeness": [Completeness.COMPLETE] * OFFSETS_PARTITIONS,
    }
    ledger.commits.append(COVERAGE, table_rows(COVERAGE, ledger.cluster, complete))
    seconds = []
    for number in range(rounds, known_to):
        past.append(ledger, number, 1, with_lag=False)
        update_history(ledger, threading.Event())
        began = time.perf_counter()
        update_incidents(ledger)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[1:]), f"; with nothing kept {seconds[0]:.2f} s"


if __name__ == "__main__":
    by_history(__doc__, measure)
