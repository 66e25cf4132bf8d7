"""Measures whether a pass of `offset_events` costs more as the past grows.

Each case is a ledger with a past of --days, written into the tables as by `bench.lag_cost`. The history folds the
records, and a first pass determines all events. Then passes follow, each with a new round of commits; one of these
commits goes back. The program prints the median time of the passes and its ratio to that of the shortest past. It ends
with 1 if the ratio is above 1.2.

    python -m bench.offset_cost [--days 1 365] [--groups 20] [--rounds-a-day 96]
"""

from __future__ import annotations

import statistics
import threading
import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bench.history_cost import SHARES, write_closed_rows
from bench.lag_cost import CLOSED_ROWS_A_DAY, TOPIC_PARTITIONS, Past, by_history, write_whole_log
from groupledger.jobs.derive.history import TABLES, update_history
from groupledger.jobs.derive.offset_events import update_offset_events
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS

if TYPE_CHECKING:
    from groupledger.jobs.warehouse.ledger import Ledger

PASSES = 5


def measure(ledger: Ledger, past: Past, days: int) -> tuple[float, str]:
    """Returns the median of the seconds of the passes after the first two, which warm up, and what the first took."""
    write_whole_log(ledger)
    ledger.create(COORDINATOR_RECORDS, *SHARES, *TABLES)
    write_closed_rows(ledger, days * CLOSED_ROWS_A_DAY)
    rounds = days * past.rounds_a_day
    ledger.commits.append(COORDINATOR_RECORDS, past.commits(ledger.cluster, np.arange(rounds)))
    seconds = []
    for number in range(rounds, rounds + PASSES + 2):
        ledger.commits.append(COORDINATOR_RECORDS, past.commits(ledger.cluster, np.array([number])))
        ledger.commits.append(COORDINATOR_RECORDS, gone_back(past, ledger.cluster, number))
        update_history(ledger, threading.Event())
        began = time.perf_counter()
        update_offset_events(ledger)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[2:]), f"; the first {seconds[0]:.2f} s"


def gone_back(past: Past, cluster: str, number: int) -> pa.Table:
    """Returns the first commit of the round before, at an offset of this round that is in use in another partition."""
    commit = past.commits(cluster, np.array([number - 1])).slice(0, 1)
    place = commit.schema.get_field_index("kafka_offset")
    offset = number * past.groups * TOPIC_PARTITIONS + TOPIC_PARTITIONS
    return commit.set_column(place, commit.schema.field(place), pa.array([offset], pa.int64()))


if __name__ == "__main__":
    by_history(__doc__, measure)
