"""Writes `share_partitions`: where share groups stand, by `__share_group_state` and beside it by the brokers.

A pass reads what is new of the topic (`jobs.ingest.share_state`). Then it folds all records from the logs' starts on,
which is what the brokers themselves would load: they prune the rest, so that the cost does not grow with the past, and
no state is carried from pass to pass. A hole in what was read earlier hides nothing of the present.

Then the brokers are asked for the ends of the partitions, and for their own figures. A round is a batch of the table
with its `sampled_at` as the number, as in `watermarks`.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from groupledger.jobs.ingest.samples import append_rows, check_sampled_cluster, last_sampled_at_ms, next_round_ms
from groupledger.jobs.ingest.share_state import read_share_state
from groupledger.jobs.kafka.brokers import connect
from groupledger.jobs.kafka.sampling import sample_watermarks
from groupledger.jobs.kafka.share_state_topic import described_offsets
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.warehouse.topic_names import known_names
from groupledger.schemas.tables.share_partitions import SHARE_PARTITIONS
from groupledger.schemas.tables.share_state_records import SHARE_STATE_RECORDS
from groupledger.transforms.shares.rules.share_state import share_lag, share_states, state_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.jobs.kafka.brokers import Brokers
    from groupledger.jobs.kafka.share_state_topic import StateTopic, Told
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.transforms.shares.rules.share_state import SharePartition, ShareState


def update_share_partitions(ledger: Ledger, bootstrap_servers: str) -> int:
    """Returns the number of share partitions; 0 if the cluster has none. Raises InputError if the ledger is fed from
    another cluster, or the topic is not the one that was read before."""
    check_sampled_cluster(ledger, bootstrap_servers)
    with connect(bootstrap_servers, ledger.settings) as brokers:
        topic = read_share_state(ledger, brokers, bootstrap_servers)
        if topic is None:
            return 0
        states = states_now(ledger, topic)
        if not states:
            return 0
        ledger.create(SHARE_PARTITIONS)
        sampled_at_ms = next_round_ms(now_ms(), last_sampled_at_ms(ledger, SHARE_PARTITIONS))
        rows = _rows(ledger, brokers, states)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    append_rows(ledger, SHARE_PARTITIONS, columns, sampled_at_ms)
    ledger.say(f"share groups: {len(rows):,} share partitions")
    return len(rows)


def states_now(ledger: Ledger, topic: StateTopic) -> dict[SharePartition, ShareState]:
    """Returns the states by the records from the logs' starts on."""
    partition, offset = pc.field("kafka_partition"), pc.field("kafka_offset")
    is_kept = reduce(or_, [(partition == each) & (offset >= start) for each, start in topic.log_starts.items()])
    rows = ledger.arrow(SHARE_STATE_RECORDS, is_kept).sort_by([(each, "ascending") for each in SHARE_STATE_RECORDS.key])
    return share_states(rows.to_pylist())


def _rows(ledger: Ledger, brokers: Brokers, states: Mapping[SharePartition, ShareState]) -> list[dict[str, Any]]:
    settings = ledger.settings.sampling
    told = described_offsets(brokers, settings, {key.group_id for key in states})
    names, _ = known_names(ledger)
    names |= {key.topic_id: each.topic for key, each in told.items()}
    ends = _ends(brokers, ledger, {names[key.topic_id] for key in states if key.topic_id in names})
    # The state of a topic that was deleted lives on for a while, beside that of one which was made under its name.
    there = {topic_id for topic_id, _ in ends} | {key.topic_id for key in told}
    return [
        _row(
            key,
            states[key],
            names[key.topic_id] if key.topic_id in there else key.topic_id,
            ends.get(key[1:]),
            told.get(key),
        )
        for key in sorted(states)
    ]


def _ends(brokers: Brokers, ledger: Ledger, topics: Iterable[str]) -> dict[tuple[str, int], int | None]:
    """Returns the high watermarks by topic id and partition."""
    wanted = sorted(topics)
    rows, _ = sample_watermarks(brokers, ledger.settings.sampling, wanted) if wanted else ((), {})
    return {(row.topic_id, row.partition): row.high_watermark for row in rows if row.topic_id is not None}


def _row(
    key: SharePartition, state: ShareState, topic: str, high_watermark: int | None, told: Told | None
) -> dict[str, Any]:
    known = state_columns(state)
    return {
        **key._asdict(),
        "topic": topic,
        "high_watermark": high_watermark,
        "lag": share_lag(known["start_offset"], known["delivery_complete_count"], high_watermark),
        "broker_start_offset": None if told is None else told.start_offset,
        "broker_lag": None if told is None else told.lag,
        **known,
    }
