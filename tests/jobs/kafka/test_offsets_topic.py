"""Goal: the ends of `__consumer_offsets` belong together, although they come by requests one after the other."""

from __future__ import annotations

from collections import namedtuple
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kafka.admin import OffsetSpec
from kafka.protocol.consumer import IsolationLevel

from groupledger.jobs.kafka import offsets_topic
from groupledger.jobs.process.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

GROWTH = 10  # records between two requests
Answer = namedtuple("Answer", "offset")  # noqa: PYI024 - as kafka-python answers


class GrowingTopic:
    """An admin client for partitions 0, without transactions, and 1, where one is open from offset 5 on."""

    def __init__(self) -> None:
        self.end = 100

    def describe_cluster(self) -> dict[str, Any]:
        return {"cluster_id": "c"}

    def describe_topics(self, _names: list[str]) -> list[dict[str, Any]]:
        partitions = [{"partition_index": 0}, {"partition_index": 1}]
        return [{"error_code": 0, "partitions": partitions, "topic_id": str(UUID(int=7))}]

    def list_partition_offsets(self, asked: dict[Any, OffsetSpec], isolation_level: IsolationLevel) -> dict[Any, Any]:
        self.end += GROWTH
        is_committed = isolation_level == IsolationLevel.READ_COMMITTED

        def offset(place: Any, spec: OffsetSpec) -> int:
            if spec == OffsetSpec.EARLIEST:
                return 0
            return 5 if is_committed and place.partition == 1 else self.end

        return {place: Answer(offset(place, spec)) for place, spec in asked.items()}


def test_a_log_that_grows_between_two_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: without an open transaction the last stable offset is the end, however fast the log grows; with one it is
    where the transaction began."""

    @contextmanager
    def growing(*_: Any) -> Iterator[GrowingTopic]:
        yield GrowingTopic()

    monkeypatch.setattr(offsets_topic, "admin_client", growing)
    _, topic = offsets_topic.describe_offsets_topic("b:9092", load_settings().kafka)
    assert (topic.high_watermark, topic.last_stable_offset) == ({0: 120, 1: 120}, {0: 120, 1: 5})
