"""Makes the rows that a monitor writes, for bench.log_size. All groups commit all their partitions every five seconds,
and each minute one group rebalances. Each group reads one topic with two members."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bench.lag import Load, topic_of
from bench.lag_cost import table_rows
from groupledger.jobs.kafka.sampling import SampledGroupState, SampledRound, SampledWatermark
from groupledger.jobs.process.clock import DAY_MS, HOUR_MS
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.committed_offsets import COMMITTED_OFFSETS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from groupledger.schemas.tables.rebalance_stats import REBALANCE_STATS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.words import Completeness
from groupledger.transforms.lag.lag import lag_table
from groupledger.transforms.lag.rules import LagState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.schemas.tables.table import Table

ROUND_MS, COMMIT_MS = 15_000, 5_000
OFFSETS_PARTITIONS, TOPICS = 50, 100
WARM_UP, LAG_ROUNDS = 4, 2


def id_of(*parts: object) -> str:
    """Returns a text like the ids that clients make at random."""
    return hashlib.md5(repr(parts).encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class MonitorRows:
    """The rows of some groups since `start_ms`."""

    groups: int
    partitions: int
    cluster: str
    start_ms: int

    @cached_property
    def lag(self) -> list[dict[str, Any]]:
        """Returns the columns of some rounds of lag, after their first ones."""
        load, state, found = Load(self.groups, self.partitions, TOPICS), LagState(), []
        facts = load.facts()
        for number in range(WARM_UP + LAG_ROUNDS):
            for commit in load.commits(number):
                state.commit(*commit)
            held = lag_table(list(state.round(load.round(number), facts)))
            found.append(
                {name: held.column(name).combine_chunks() for name in held.column_names if name != "sampled_at"}
            )
        return found[WARM_UP:]

    @cached_property
    def sampled(self) -> SampledRound:
        """Returns a round without its time."""
        places = [
            (topic_of(topic, TOPICS), partition) for topic in range(TOPICS) for partition in range(self.partitions)
        ]
        places += [(OFFSETS_TOPIC, partition) for partition in range(OFFSETS_PARTITIONS)]
        watermarks = [
            SampledWatermark(*place, 0, salt * 9_973, salt * 9_973, 3, id_of(place[0])[:22])
            for salt, place in enumerate(places)
        ]
        states = [
            SampledGroupState(
                f"group-{group}", "classic", "Stable", "consumer", "range", 2, None, (topic_of(group, TOPICS),)
            )
            for group in range(self.groups)
        ]
        return SampledRound(0, tuple(watermarks), tuple(states), {}, {})

    def records(self, number: int, at_ms: int) -> pa.Table:
        """Returns the commits of a round."""
        group, turn, partition = (
            each.ravel()
            for each in np.meshgrid(
                np.arange(self.groups), np.arange(ROUND_MS // COMMIT_MS), np.arange(self.partitions), indexing="ij"
            )
        )
        of_round = self.groups // OFFSETS_PARTITIONS * self.partitions * (ROUND_MS // COMMIT_MS)
        order = np.lexsort((partition, group, turn, group % OFFSETS_PARTITIONS))
        group, turn, partition = group[order], turn[order], partition[order]
        jitter = np.random.default_rng(number).integers(0, COMMIT_MS, len(group))
        committed_ms = at_ms - ROUND_MS + turn * COMMIT_MS + jitter
        fields = ("topic", "partition", "offset", "leader_epoch", "metadata", "commit_timestamp_ms")
        values = [topics(group), partition, number * 40 + turn * 13 + group, np.full(len(group), 3), [""] * len(group)]
        place = np.arange(len(group)) % max(of_round, 1)
        return table_rows(
            COORDINATOR_RECORDS,
            self.cluster,
            {
                "kafka_partition": group % OFFSETS_PARTITIONS,
                "kafka_offset": number * of_round + place,
                "kafka_timestamp": committed_ms * 1_000,
                "record_type": ["offset_commit"] * len(group),
                "value_version": np.full(len(group), 3),
                "is_tombstone": np.zeros(len(group), bool),
                "group_id": names(group),
                "ingest_date": np.full(len(group), at_ms // DAY_MS),
                "offset_commit": pa.StructArray.from_arrays([*values, committed_ms], fields),
            },
        )

    def coverage(self, number: int, at_ms: int) -> pa.Table:
        """Returns the stretch of each partition, which a round makes longer."""
        every = np.arange(OFFSETS_PARTITIONS)
        columns = {
            "kafka_partition": every,
            "from_offset": every * 0,
            "to_offset": (number + 1) * self.groups + every,
            "from_time": every * 0 + self.start_ms * 1_000,
            "to_time": every * 0 + at_ms * 1_000,
            "completeness": [str(Completeness.COMPLETE)] * len(every),
        }
        return table_rows(COVERAGE, self.cluster, columns)

    def of_commits(self, number: int, at_ms: int) -> Iterator[tuple[Table, pa.Table]]:
        """Yields the rows that each minute writes again, since all groups have committed."""
        every = np.arange(self.groups)
        now_us = np.full(self.groups, at_ms * 1_000) - every * 4_999
        offset = number * self.groups * 60 + every
        yield (
            GROUPS,
            self._rows(
                GROUPS,
                every,
                kafka_partition=every % OFFSETS_PARTITIONS,
                group_type=["classic"] * self.groups,
                is_alive=np.ones(self.groups, bool),
                is_simple=np.zeros(self.groups, bool),
                incarnation=np.ones(self.groups),
                generation=np.ones(self.groups),
                protocol_type=["consumer"] * self.groups,
                protocol=["range"] * self.groups,
                leader=[f"consumer-{id_of(group)}" for group in every],
                member_count=np.full(self.groups, 2),
                owned_count=np.full(self.groups, self.partitions),
                committed_partition_count=np.full(self.groups, self.partitions),
                first_seen_at=np.full(self.groups, self.start_ms * 1_000),
                last_seen_at=now_us,
                last_commit_at=now_us,
                last_kafka_offset=offset,
            ),
        )
        yield COMMITTED_OFFSETS, self._offsets(number, at_ms)
        yield (
            OPEN_GROUPS,
            self._rows(
                OPEN_GROUPS,
                every,
                kafka_partition=every % OFFSETS_PARTITIONS,
                last_kafka_offset=offset,
                coverage_offset=np.zeros(self.groups),
                state=[self._state(group, number, at_ms) for group in every.tolist()],
            ),
        )

    def _offsets(self, number: int, at_ms: int) -> pa.Table:
        group, partition = (
            each.ravel() for each in np.meshgrid(range(self.groups), range(self.partitions), indexing="ij")
        )
        offset = number * self.groups * 60 + np.arange(len(group))
        return self._rows(
            COMMITTED_OFFSETS,
            group,
            topic=topics(group),
            partition=partition,
            kafka_partition=group % OFFSETS_PARTITIONS,
            kafka_offset=offset,
            is_removed=np.zeros(len(group), bool),
            commit_kafka_offset=offset,
            committed_offset=number * 200 + group,
            leader_epoch=np.full(len(group), 3),
            committed_at_ms=at_ms - group * 5,
        )

    def _state(self, group: int, number: int, at_ms: int) -> str:
        """Returns a text of the length and the form of a stored state."""
        members = [
            {"member_id": f"consumer-{id_of(group, slot)}", "client_id": "consumer", "client_host": f"/10.0.{slot}.7"}
            for slot in range(2)
        ]
        offsets = {str(partition): [number * 200 + group, at_ms - group] for partition in range(self.partitions)}
        return json.dumps({"topic": topic_of(group, TOPICS), "members": members, "offsets": offsets, "seen": at_ms})

    def of_rebalance(self, number: int, at_ms: int) -> Iterator[tuple[Table, pa.Table]]:
        """Yields the rows that the rebalance of a minute ends and begins: the older of a group's two members goes."""
        group, turn = number % self.groups, number // self.groups + 2
        for table, of_member in ((GENERATIONS, 1), (MEMBERS, 1), (ASSIGNMENTS, self.partitions)):
            ended = turn - 1 if table is GENERATIONS else turn - 2
            rows = [*self._tenures(group, ended, at_ms, of_member, is_open=False)]
            rows += self._tenures(group, turn, at_ms, of_member, is_open=True)
            yield table, self._table(table, rows)
        row: dict[str, Any] = {"group_id": f"group-{group}", "incarnation": 1, "kafka_offset": number, "is_hole": False}
        explained = "A member left and another one joined, with the same client id."
        row |= {"happened_at": at_ms * 1_000, "inferred_trigger_explanation": explained, "member_count": 2}
        yield REBALANCES, self._table(REBALANCES, [row | {"from_generation": turn - 1, "to_generation": turn}])
        stats = {"group_id": f"group-{group}", "rebalances": turn, "partitions_moved": self.partitions}
        windows = (("hour", HOUR_MS), ("day", DAY_MS))
        begun = [stats | {"window": name, "window_start": at_ms // ms * ms * 1_000} for name, ms in windows]
        yield REBALANCE_STATS, self._table(REBALANCE_STATS, begun)

    def at_first(self) -> Iterator[tuple[Table, pa.Table]]:
        for table, of_member in ((GENERATIONS, 1), (MEMBERS, 1), (ASSIGNMENTS, self.partitions)):
            turns = (1,) if table is GENERATIONS else (0, 1)
            every = ((group, turn) for group in range(self.groups) for turn in turns)
            rows = [row for each in every for row in self._tenures(*each, self.start_ms, of_member, is_open=True)]
            yield table, self._table(table, rows)

    def _tenures(self, group: int, turn: int, at_ms: int, count: int, *, is_open: bool) -> Iterator[dict[str, Any]]:
        """Yields the rows of a generation, or of a member, that is the group's `turn`-th. Of the partitions a member
        has each other one."""
        member = f"consumer-{id_of(group, turn)}"
        end = None if is_open else at_ms * 1_000
        offset = turn * 1_000_000 + group
        row = {"group_id": f"group-{group}", "incarnation": 1, "member_id": member, "leader": member}
        row |= {"generation": turn, "revision": 0, "protocol": "range", "protocol_type": "consumer", "member_count": 2}
        row |= {"client_id": "consumer", "client_host": "/10.0.1.7", "kafka_offset": offset, "from_offset": offset}
        row |= dict.fromkeys(("started_at", "joined_at", "valid_from"), (at_ms - (not is_open) * DAY_MS) * 1_000)
        row |= dict.fromkeys(("ended_at", "left_at", "valid_to"), end)
        row |= {"is_open": int(is_open), "topic": topic_of(group, TOPICS), "is_carried_over": False}
        for partition in range(turn % 2 if count > 1 else 0, count, 2):
            yield row | {"partition": partition}

    def _table(self, table: Table, rows: list[dict[str, Any]]) -> pa.Table:
        columns = {name: [row.get(name) for row in rows] for name in table.schema.names if name != "cluster"}
        return table_rows(table, self.cluster, columns)

    def _rows(self, table: Table, group: Any, **columns: Any) -> pa.Table:
        return table_rows(table, self.cluster, {"group_id": names(group), **columns})


def names(groups: Any) -> list[str]:
    return [f"group-{each}" for each in groups]


def topics(groups: Any) -> list[str]:
    return [topic_of(each, TOPICS) for each in groups]
