"""Random sequences of requests on a real broker and on the coordinator: the same answers, the same records.

The sequences are the same in every run; `make differential` plays more of them, others each time.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.coordinator.java_hash_map import JavaHashMap
from lab.kafka import differential
from lab.kafka.broker_driver import SETTINGS, Broker
from lab.kafka.local_broker import LocalBroker
from lab.kafka.sequences import PROTOCOLS, Step

if TYPE_CHECKING:
    from collections.abc import Iterator

SEQUENCES = 500
SEED = 42
HEAP = "512m"  # the broker of the other tests is there, too

MEMBER_ERRORS = {"NONE", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"}
GENERATION_ERRORS = {*MEMBER_ERRORS, "ILLEGAL_GENERATION"}
MUST_BE_COMPARED = {
    "JoinGroupRequest": {*MEMBER_ERRORS, "MEMBER_ID_REQUIRED", "INCONSISTENT_GROUP_PROTOCOL", "UNKNOWN_SERVER_ERROR"},
    "SyncGroupRequest": {*GENERATION_ERRORS, "INCONSISTENT_GROUP_PROTOCOL", "REBALANCE_IN_PROGRESS"},
    "HeartbeatRequest": {*GENERATION_ERRORS, "REBALANCE_IN_PROGRESS"},
    "LeaveGroupRequest": MEMBER_ERRORS,
    "OffsetCommitRequest": {*GENERATION_ERRORS, "GROUP_ID_NOT_FOUND", "OFFSET_METADATA_TOO_LARGE"},
    "TxnOffsetCommitRequest": {*GENERATION_ERRORS, "OFFSET_METADATA_TOO_LARGE"},
    "OffsetFetchRequest": {"NONE", "UNSTABLE_OFFSET_COMMIT"},
    "OffsetDeleteRequest": {"NONE", "GROUP_ID_NOT_FOUND", "GROUP_SUBSCRIBED_TO_TOPIC"},
    "DescribeGroupsRequest": {"NONE", "GROUP_ID_NOT_FOUND"},
    "ListGroupsRequest": {"NONE"},
    "DeleteGroupsRequest": {"NONE", "NON_EMPTY_GROUP", "GROUP_ID_NOT_FOUND"},
    "Record": {"group_metadata", "offset_commit"},
}


@pytest.fixture(scope="module")
def idle_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker where requests keep their order, apart from the one whose every request is logged."""
    with LocalBroker(tmp_path_factory.mktemp("sequences"), properties=SETTINGS, heap=HEAP) as started:
        yield Broker.prepare(started.bootstrap_servers)


def test_random_sequences(idle_broker: Broker) -> None:
    """No answer and no record differs, and every API is compared in acceptance and in refusal."""
    outcomes = list(differential.play_all(idle_broker, differential.generated(SEQUENCES, SEED)))
    assert len(outcomes) >= SEQUENCES
    differing = next((outcome for outcome in outcomes if outcome.difference), None)
    assert differing is None, differential.explained(idle_broker, differing)
    compared = sum((outcome.compared for outcome in outcomes), Counter[tuple[str, str]]())
    missing = {(api, error) for api, errors in MUST_BE_COMPARED.items() for error in errors} - set(compared)
    assert not missing


def test_planted_fault_is_found(idle_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that takes members in the order of their coming is distinguished from a broker, by the smallest
    sequence."""
    monkeypatch.setattr(JavaHashMap, "_ordered", lambda self: list(self._entries))
    form: dict[str, Any] = {"group": 0, "instances": [None] * 4, "protocols": PROTOCOLS[0]}
    steps: list[Step] = [("list_groups", {"states": [], "types": []}), ("form", form)]
    *_, outcome = differential.play_all(idle_broker, [steps] * 8, "planted")
    explanation = differential.explained(idle_broker, outcome)
    assert "form(" in explanation
    assert "list_groups(" not in explanation
