"""Measures whether a pass of `lag` costs more as the past grows.

Each case is a ledger with a past of --days: sampling rounds, commits, their rows of `lag`, and closed history, written
into the tables with a file for each day. A first pass has to read all of it, since the ledger has no state of the
earlier rounds. Then passes follow with a new round each, as `groupledger pipeline` makes them. The program prints the
seconds of the first pass, the median of the others, and the ratio of the median to that of the shortest past. It ends
with 1 if the ratio is above 1.2.

    python -m bench.lag_cost [--days 1 365] [--groups 20] [--rounds-a-day 96]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bench.history_cost import SHARES, write_closed_rows
from groupledger.jobs.derive.lag import update_lag
from groupledger.jobs.ingest.samples import batch_of
from groupledger.jobs.process.clock import DAY_MS
from groupledger.jobs.process.session import spark_session
from groupledger.jobs.warehouse.source import CAPTURE, LedgerSource, TopicIdentity, write_source
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.group_states import GROUP_STATES
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.transforms.coverage.rules.stretches import Reading
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table

PASSES, RATIO_MAX = 5, 1.2
START_MS = 1_760_000_000_000 // DAY_MS * DAY_MS
TOPICS, TOPIC_PARTITIONS, OFFSETS_PARTITIONS = 10, 2, 5
CLOSED_ROWS_A_DAY = 1_000
BACK = 2_000  # offsets, which is farther than the round before


@dataclass(frozen=True)
class Past:
    """Groups that each read one topic, and commit and are sampled in every round. Each day, one of so many groups as
    `rewound_every` says commits once what lies far back."""

    groups: int
    rounds_a_day: int
    rewound_every: int = 0

    def append(self, ledger: Ledger, first: int, count: int, *, with_lag: bool) -> None:
        """Appends rounds, the commits that each of them counts and, if they were computed, their lag."""
        numbers = np.arange(first, first + count)
        last_ms = self.at_ms(first + count - 1)
        ledger.commits.append(COORDINATOR_RECORDS, self.commits(ledger.cluster, numbers))
        ledger.commits.append(
            WATERMARKS, self.watermarks(ledger.cluster, numbers), batch_of(ledger, WATERMARKS, last_ms)
        )
        if with_lag:
            ledger.commits.append(LAG, self.lag(ledger.cluster, numbers), batch_of(ledger, LAG, last_ms))

    def at_ms(self, numbers: Any) -> Any:
        return START_MS + numbers * (DAY_MS // self.rounds_a_day)

    def commits(self, cluster: str, rounds: Any) -> pa.Table:
        number, group, partition = self._each(rounds, self.groups, TOPIC_PARTITIONS)
        at_ms = self.at_ms(number) - 1
        names = ("topic", "partition", "offset", "commit_timestamp_ms")
        offset = number * 40 - BACK * self._is_back(number, group)
        commit = pa.StructArray.from_arrays([_topic(group), partition, offset, at_ms], names)
        return table_rows(
            COORDINATOR_RECORDS,
            cluster,
            {
                "kafka_partition": group % OFFSETS_PARTITIONS,
                "kafka_offset": number * self.groups * TOPIC_PARTITIONS + group * TOPIC_PARTITIONS + partition,
                "kafka_timestamp": at_ms * 1_000,
                "record_type": ["offset_commit"] * len(number),
                "is_tombstone": np.zeros(len(number), bool),
                "group_id": [f"group-{each}" for each in group],
                "ingest_date": at_ms // DAY_MS,
                "offset_commit": commit,
            },
        )

    def watermarks(self, cluster: str, rounds: Any) -> pa.Table:
        number, topic, partition = self._each(rounds, TOPICS, TOPIC_PARTITIONS)
        round_, offsets_partition, _ = self._each(rounds, OFFSETS_PARTITIONS, 1)
        last_group = self.groups - 1 - (self.groups - 1 - offsets_partition) % OFFSETS_PARTITIONS
        of_log = (round_ * self.groups + last_group + 1) * TOPIC_PARTITIONS  # after the last commit of the round
        end = np.concatenate([number * 50, of_log])
        at_ms = self.at_ms(np.concatenate([number, round_]))
        return table_rows(
            WATERMARKS,
            cluster,
            {
                "sampled_at": at_ms * 1_000,
                "sample_date": at_ms // DAY_MS,
                "topic": _topic(topic) + [OFFSETS_TOPIC] * len(round_),
                "partition": np.concatenate([partition, offsets_partition]),
                "log_start_offset": np.zeros(len(end), np.int64),
                "high_watermark": end,
                "last_stable_offset": end,
            },
        )

    def lag(self, cluster: str, rounds: Any) -> pa.Table:
        number, group, partition = self._each(rounds, self.groups, TOPIC_PARTITIONS)
        at_ms = self.at_ms(number)
        return table_rows(
            LAG,
            cluster,
            {
                "sampled_at": at_ms * 1_000,
                "sample_date": at_ms // DAY_MS,
                "group_id": [f"group-{each}" for each in group],
                "topic": _topic(group),
                "partition": partition,
                "committed_offset": number * 40,
                "lag": number * 10,
                "kafka_offset": number * self.groups * TOPIC_PARTITIONS + group * TOPIC_PARTITIONS + partition,
                "no_progress_since": at_ms * 1_000,
            },
        )

    def _is_back(self, number: Any, group: Any) -> Any:
        """Returns 1 for the commits that go back, and 0 for others."""
        if not self.rewound_every:
            return number * 0
        day, of_day = number // self.rounds_a_day, number % self.rounds_a_day
        return ((of_day == 0) & (day > 0) & ((group + day) % self.rewound_every == 0)).astype(np.int64)

    @staticmethod
    def _each(rounds: Any, things: int, partitions: int) -> tuple[Any, Any, Any]:
        """Returns round, thing and partition of each row."""
        found = np.meshgrid(rounds, np.arange(things), np.arange(partitions), indexing="ij")
        return tuple(each.ravel() for each in found)


def _topic(numbers: Any) -> list[str]:
    return [f"topic-{each % TOPICS}" for each in numbers]


def write_whole_log(ledger: Ledger) -> LedgerSource:
    """Notes that the ledger has read the whole log of each partition of `__consumer_offsets`."""
    born = Reading(from_offset=0, complete_from=0, complete_from_ms=0)
    readings = {partition: [born] for partition in range(OFFSETS_PARTITIONS)}
    source = LedgerSource(CAPTURE, TopicIdentity("c", "t", OFFSETS_PARTITIONS), readings)
    write_source(ledger.storage, ledger.cluster, source)
    return source


def table_rows(table: Table, cluster: str, columns: dict[str, Any]) -> pa.Table:
    """Returns rows of a table; columns that are not given are null."""
    count = len(next(iter(columns.values())))
    given = {"cluster": [cluster] * count, **columns}
    arrays = []
    for field in arrow_schema(table.schema):
        values = given.get(field.name)
        if isinstance(values, pa.StructArray):
            every = {each.name: pa.nulls(count, each.type) for each in field.type}
            every |= {name.name: values.field(name.name).cast(field.type.field(name.name).type) for name in values.type}
            arrays.append(pa.StructArray.from_arrays(list(every.values()), fields=list(field.type)))
        elif values is None:
            arrays.append(pa.nulls(count, field.type))
        elif isinstance(values, np.ndarray) and not pa.types.is_boolean(field.type):
            whole = pa.int32() if pa.types.is_date32(field.type) else pa.int64()
            arrays.append(pa.array(values).cast(whole).cast(field.type))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=arrow_schema(table.schema))


def measure(ledger: Ledger, past: Past, days: int) -> tuple[float, str]:
    """Returns the median of the seconds of the passes after the first two, and the seconds of the first, which has no
    kept state."""
    ledger.create(COORDINATOR_RECORDS, WATERMARKS, GROUP_STATES, LAG, *SHARES)
    write_closed_rows(ledger, days * CLOSED_ROWS_A_DAY)
    rounds = days * past.rounds_a_day
    past.append(ledger, 0, rounds, with_lag=True)
    seconds = []
    for number in range(rounds, rounds + PASSES + 2):
        past.append(ledger, number, 1, with_lag=False)
        began = time.perf_counter()
        assert update_lag(ledger, threading.Event()) == 1
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[2:]), f"; with nothing kept {seconds[0]:.2f} s"


def by_history(doc: str | None, measure_one: Callable[[Ledger, Past, int], tuple[float, str]]) -> None:
    """Measures a ledger of each length that the command line gives, and prints the seconds of a pass, their ratio to
    those of the first, and the other figures. Ends with 1 if a ratio is too high."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, nargs="+", default=[1, 365])
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--rounds-a-day", type=int, default=96)
    parser.add_argument("--rewound-every", type=int, default=0, help="each day, one of so many groups goes back")
    arguments = parser.parse_args()
    past = Past(arguments.groups, arguments.rounds_a_day, arguments.rewound_every)
    spark = spark_session("groupledger cost of the past")
    costs: list[float] = []
    for days in arguments.days:
        with (
            tempfile.TemporaryDirectory(prefix="groupledger-cost-") as folder,
            open_test_ledger(spark, Path(folder)) as ledger,
        ):
            cost, notes = measure_one(ledger, past, days)
        costs.append(cost)
        print(f"{days:>4} days: {cost:6.2f} s a pass, {cost / costs[0]:5.2f} times the first{notes}", flush=True)
    spark.stop()
    sys.exit(1 if max(costs) > RATIO_MAX * costs[0] else 0)


if __name__ == "__main__":
    by_history(__doc__, measure)
