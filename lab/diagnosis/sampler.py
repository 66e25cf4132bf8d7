"""Samples rounds as a monitor does, and writes them in the form that `pipeline --samples` reads.

`groupledger monitor` itself would be one more JVM on a machine that plays a hundred groups. Its rounds come from
`jobs.kafka.sampling` and `jobs.kafka.markers`, which this module calls, too. The monitor asks for transaction markers
only if a group rests close before an end. This module asks at each end that has not moved since the previous round,
which gives the same result for such groups.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from groupledger.jobs.kafka.brokers import connect
from groupledger.jobs.kafka.markers import Markers
from groupledger.jobs.kafka.sampling import sample_ends, take_round
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.lag.rules.resting import MARKERS_MAX, Resting

if TYPE_CHECKING:
    from pathlib import Path

    from groupledger.jobs.kafka.brokers import Brokers
    from groupledger.jobs.kafka.sampling import SampledRound

WATERMARKS = pa.schema(
    [
        ("sampled_at_ms", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("log_start_offset", pa.int64()),
        ("high_watermark", pa.int64()),
        ("last_stable_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("topic_id", pa.string()),
        ("error", pa.string()),
        ("markers_at_end", pa.int64()),
    ]
)
GROUP_STATES = pa.schema(
    [
        ("sampled_at_ms", pa.int64()),
        ("group_id", pa.string()),
        ("group_type", pa.string()),
        ("state", pa.string()),
        ("protocol_type", pa.string()),
        ("protocol", pa.string()),
        ("member_count", pa.int32()),
        ("group_epoch", pa.int32()),
        ("subscribed_topics", pa.list_(pa.string())),
        ("error", pa.string()),
    ]
)


class Sampler(threading.Thread):
    """Takes a sampling round every `interval_s` seconds until it is stopped, and then writes all rounds."""

    def __init__(self, bootstrap_servers: str, interval_s: float) -> None:
        super().__init__(daemon=True, name="sampler")
        self._servers, self._interval_s = bootstrap_servers, interval_s
        self._settings = load_settings()
        self._rounds: list[SampledRound] = []
        self._stopped = threading.Event()

    def stop(self, directory: Path) -> int:
        """Ends the sampling, writes the rounds into a directory, and returns the number of rounds."""
        self._stopped.set()
        self.join()
        for name, schema in (("watermarks", WATERMARKS), ("group_states", GROUP_STATES)):
            rows = [self._row(each, one.sampled_at_ms) for one in self._rounds for each in getattr(one, name)]
            (directory / name).mkdir(parents=True)
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), directory / name / "part-0.parquet")
        return len(self._rounds)

    def run(self) -> None:
        with connect(self._servers, self._settings) as brokers:
            markers = Markers()
            while not self._stopped.wait(self._interval_s):
                with suppress(OutsideError):  # the broker is away for a moment
                    self._rounds.append(self._round(brokers, markers))

    def _round(self, brokers: Brokers, markers: Markers) -> SampledRound:
        sampling = self._settings.sampling
        ends = sample_ends(brokers, sampling)
        sampled = take_round(brokers, sampling, None, time.time_ns() // 1_000_000, ends)
        return markers.add_to(sampled, self._resting(), brokers, sampling)

    def _resting(self) -> dict[TopicPartition, Resting]:
        found = {}
        for row in self._rounds[-1].watermarks if self._rounds else ():
            if row.topic != OFFSETS_TOPIC and row.offsets is not None and row.offsets[2] > row.offsets[0]:
                start, _, stable = row.offsets
                found[TopicPartition(row.topic, row.partition)] = Resting(max(start, stable - MARKERS_MAX), stable)
        return found

    @staticmethod
    def _row(row: Any, sampled_at_ms: int) -> dict[str, Any]:
        return {"sampled_at_ms": sampled_at_ms, **asdict(row)}
