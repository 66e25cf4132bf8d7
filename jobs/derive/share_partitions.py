"""Writes `share_partitions`: the state of share groups by the records of `__share_group_state`, and beside it the
brokers' own figures.

A pass reads the new records of the topic (`jobs.ingest.share_state`). Then it folds all records from the logs' starts
on, as the brokers do when they load the state. Brokers prune older records, so the cost does not grow with time, and no
state is carried from pass to pass. A hole in earlier reading hides nothing of the present state.

Then the brokers are asked for the ends of the partitions, and for their own figures. Each round is a numbered batch of
the table, with its `sampled_at` as the number, as in `watermarks`.
"""

from __future__ import annotations

from functools import reduce
from itertools import groupby
from operator import attrgetter, or_
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from groupledger.jobs.derive.troubles import look_for_anybody, note_troubles
from groupledger.jobs.ingest.samples import append_rows, check_sampled_cluster, last_sampled_at_ms, next_round_ms
from groupledger.jobs.ingest.share_state import read_share_state
from groupledger.jobs.kafka.brokers import connect
from groupledger.jobs.kafka.sampling import sample_watermarks
from groupledger.jobs.kafka.share_state_topic import described_offsets
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.warehouse.topic_names import known_names
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.share_partitions import SHARE_PARTITIONS
from groupledger.schemas.tables.share_state_records import SHARE_STATE_RECORDS
from groupledger.schemas.words import TroubledStep
from groupledger.transforms.by_group import judged_batches
from groupledger.transforms.shares.rules.share_state import share_lag, share_states, state_columns
from groupledger.transforms.troubles import Trouble, reporting_to, stop

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from groupledger.jobs.kafka.brokers import Brokers
    from groupledger.jobs.kafka.share_state_topic import DescribedSharePartition, StateTopic
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.transforms.shares.rules.share_state import SharePartition, ShareState
    from groupledger.transforms.troubles import Report

OF_STATES = SHARE_PARTITIONS.without("cluster", "sampled_at", "sample_date")


def update_share_partitions(ledger: Ledger, bootstrap_servers: str) -> int:
    """Folds and writes the state of all share partitions. Returns their number; 0 if the cluster has no share
    partition. Raises InputError if the ledger is fed from another cluster, or if the topic is not the one that was read
    before."""
    check_sampled_cluster(ledger, bootstrap_servers)
    with connect(bootstrap_servers, ledger.settings) as brokers:
        topic = read_share_state(ledger, brokers, bootstrap_servers)
        if topic is None:
            return 0
        troubles: dict[str, Trouble] = {}
        states = states_now(ledger, topic, reporting_to(troubles))
        rows = _rows(ledger, brokers, states, reporting_to(troubles)) if states else []
    if rows:
        ledger.create(SHARE_PARTITIONS)
        sampled_at_ms = next_round_ms(now_ms(), last_sampled_at_ms(ledger, SHARE_PARTITIONS))
        append_rows(ledger, SHARE_PARTITIONS, {name: [row[name] for row in rows] for name in rows[0]}, sampled_at_ms)
        ledger.say(f"share groups: {len(rows):,} share partitions")
    note_troubles(ledger, TroubledStep.SHARE_PARTITIONS, troubles)
    look_for_anybody(ledger, TroubledStep.SHARE_PARTITIONS, lambda: {row["group_id"] for row in rows})
    return len(rows)


def states_now(ledger: Ledger, topic: StateTopic, report: Report = stop) -> dict[SharePartition, ShareState]:
    """Returns the states of the share partitions, folded from the records since the logs' starts. A group on which the
    fold fails goes to `report`."""
    partition, offset = pc.field("kafka_partition"), pc.field("kafka_offset")
    is_kept = reduce(or_, [(partition == each) & (offset >= start) for each, start in topic.log_starts.items()])
    rows = ledger.arrow(SHARE_STATE_RECORDS, is_kept).sort_by([(each, "ascending") for each in SHARE_STATE_RECORDS.key])
    return share_states(rows.to_pylist(), report)


def _rows(
    ledger: Ledger, brokers: Brokers, states: Mapping[SharePartition, ShareState], report: Report
) -> list[dict[str, Any]]:
    settings = ledger.settings.sampling
    described = described_offsets(brokers, settings, {key.group_id for key in states})
    names, _ = known_names(ledger)
    names |= {key.topic_id: each.topic for key, each in described.items()}
    ends = _ends(brokers, ledger, {names[key.topic_id] for key in states if key.topic_id in names})
    # The state of a topic that was deleted lives on for a while, beside that of one which was made under its name.
    there = {topic_id for topic_id, _ in ends} | {key.topic_id for key in described}

    def of_group(_: str, keys: Iterable[SharePartition]) -> Iterator[dict[str, Any]]:
        for key in keys:
            topic = names[key.topic_id] if key.topic_id in there else key.topic_id
            yield _row(key, states[key], topic, ends.get(key[1:]), described.get(key))

    groups = groupby(sorted(states), attrgetter("group_id"))
    batches = judged_batches(groups, of_group, arrow_schema(OF_STATES), report)
    return [row for batch in batches for row in batch.to_pylist()]


def _ends(brokers: Brokers, ledger: Ledger, topics: Iterable[str]) -> dict[tuple[str, int], int | None]:
    """Returns the high watermarks by topic id and partition."""
    wanted = sorted(topics)
    rows, _ = sample_watermarks(brokers, ledger.settings.sampling, wanted) if wanted else ((), {})
    return {(row.topic_id, row.partition): row.high_watermark for row in rows if row.topic_id is not None}


def _row(
    key: SharePartition,
    state: ShareState,
    topic: str,
    high_watermark: int | None,
    of_broker: DescribedSharePartition | None,
) -> dict[str, Any]:
    known = state_columns(state)
    return {
        **key._asdict(),
        "topic": topic,
        "high_watermark": high_watermark,
        "lag": share_lag(known["start_offset"], known["delivery_complete_count"], high_watermark),
        "broker_start_offset": None if of_broker is None else of_broker.start_offset,
        "broker_lag": None if of_broker is None else of_broker.lag,
        **known,
    }
