"""Goal: the partitions' leaders are asked for their epochs, and a log that was cut and has grown again is reported."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import NotLeaderForPartitionError
from kafka.protocol.consumer import FetchResponse
from kafka.protocol.consumer.offsets import OffsetForLeaderEpochResponse
from kafka.protocol.metadata.metadata import MetadataResponse

from groupledger.jobs.ingest.evidence import cut_sentence, cuts
from groupledger.jobs.kafka.leader_epochs import HEAD, ends_of_epochs, epochs_at
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.kafka.names import OFFSETS_TOPIC

SETTINGS = load_settings().sampling.model_copy(update={"retry_backoff_ms": 1, "partitions_per_request": 2})
EPOCHS = {0: 5, 1: 6, 2: 7, 3: 8}


class Leaders:
    """Brokers 1 and 2: partition `p` is led by broker `p % 2 + 1`, its records are of the epoch 5 + p, in the format
    `magic`, and that epoch ends at 100 * p. A fetch returns one batch, of the first partition asked. `moves` is how
    often a leader has just moved when it is asked."""

    def __init__(self, *, moves: int = 0, magic: int = 2) -> None:
        self.moves, self.magic = moves, magic

    def nodes(self) -> list[int]:
        return [1, 2]

    def send(self, request: Any, node: int | None = None) -> Any:
        return getattr(self, type(request).__name__)(request, node)

    def _error(self) -> int:
        self.moves -= 1
        return NotLeaderForPartitionError.errno if self.moves >= 0 else 0

    def MetadataRequest(self, _request: Any, _node: int | None) -> Any:  # noqa: N802 - the message's own name
        topic = MetadataResponse.MetadataResponseTopic
        partitions = [
            topic.MetadataResponsePartition(partition_index=partition, leader_id=partition % 2 + 1)
            for partition in EPOCHS
        ]
        return MetadataResponse(topics=[topic(error_code=0, name=OFFSETS_TOPIC, partitions=partitions)])

    def FetchRequest(self, request: Any, node: int) -> Any:  # noqa: N802
        answer = FetchResponse.FetchableTopicResponse
        reported = [
            answer.PartitionData(
                partition_index=each.partition,
                error_code=self._error(),
                records=HEAD.pack(each.fetch_offset, 60, EPOCHS[each.partition], self.magic) if not number else None,
            )
            for number, each in enumerate(request.topics[0].partitions)
        ]
        assert {each.partition_index % 2 + 1 for each in reported} == {node}
        return FetchResponse(responses=[answer(topic=OFFSETS_TOPIC, partitions=reported)])

    def OffsetForLeaderEpochRequest(self, request: Any, node: int) -> Any:  # noqa: N802
        answer = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        reported = [
            answer.EpochEndOffset(
                partition=each.partition,
                error_code=self._error(),
                end_offset=100 * each.partition if each.leader_epoch == EPOCHS[each.partition] else -1,
            )
            for each in request.topics[0].partitions
        ]
        assert {each.partition % 2 + 1 for each in reported} == {node}
        return OffsetForLeaderEpochResponse(topics=[answer(topic=OFFSETS_TOPIC, partitions=reported)])


def test_the_epochs_of_records() -> None:
    """Goal: the leader of each partition gives the epoch of the record, though a fetch may return one at a time, and
    though a leader has moved; batches of an old format have no epochs."""
    assert epochs_at(Leaders(moves=1), SETTINGS, dict.fromkeys(EPOCHS, 40)) == EPOCHS
    assert epochs_at(Leaders(magic=1), SETTINGS, {0: 40}) == {}
    assert epochs_at(Leaders(), SETTINGS, {}) == {}
    with pytest.raises(OutsideError, match="do not report their epochs"):
        epochs_at(Leaders(moves=100), SETTINGS, {0: 40})


def test_where_epochs_end() -> None:
    """Goal: the end of an epoch is returned, and nothing of one that the leader does not know."""
    assert ends_of_epochs(Leaders(), SETTINGS, {**EPOCHS, 3: 99}) == {0: 0, 1: 100, 2: 200}


def test_a_cut_is_an_end_below_our_position() -> None:
    """Goal: an epoch that ends at our position or after it was not cut, and the sentence names the place."""
    positions = {0: 0, 1: 101, 2: 200, 3: 5}
    cut = cuts(positions, {0: 0, 1: 100, 2: 250})
    assert cut == {1: 100}
    assert "Partition 1 of __consumer_offsets was cut off at offset 100" in cut_sentence(cut, positions)
