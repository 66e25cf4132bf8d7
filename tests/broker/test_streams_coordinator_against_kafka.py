"""Goal: the coordinator answers and writes for streams groups as a broker does (`lab.kafka.streams_differential`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from groupledger.coordinator.model.groups.streams.reconciliation import StreamsReconciliation
from lab.kafka.broker_driver import SETTINGS
from lab.kafka.consumer_sequences import prepare
from lab.kafka.local_broker import LocalBroker
from lab.kafka.streams_differential import PROPERTIES_WITH_STANDBYS, play_all

if TYPE_CHECKING:
    from collections.abc import Iterator

SEQUENCES, SEED = 60, 13


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker whose offsets topic has one partition."""
    directory = tmp_path_factory.mktemp("streams-coordinator")
    with LocalBroker(directory, properties={**SETTINGS, **PROPERTIES_WITH_STANDBYS}) as broker:
        prepare(broker.bootstrap_servers)
        yield broker.bootstrap_servers


def test_random_sequences(own_broker: str) -> None:
    """Goal: no answer and no record differs; all that can be played was, and every kind of record was written."""
    outcome = play_all(own_broker, range(SEQUENCES), SEED, standbys=1)
    assert outcome.wrong == []
    assert outcome.compared["sequences"] == SEQUENCES
    for kind in ("sessions that ended", "groups that waited for members", "internal topics created"):
        assert outcome.compared[kind] > 0, kind
    errors = ("NONE", "FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND", "INVALID_REQUEST")
    for error in (*errors, "STREAMS_INVALID_TOPOLOGY", "GROUP_MAX_SIZE_REACHED"):
        assert outcome.compared[f"StreamsGroupHeartbeatRequest {error}"] > 0, error
    statuses = ("MISSING_SOURCE_TOPICS", "INCORRECTLY_PARTITIONED_TOPICS", "MISSING_INTERNAL_TOPICS", "STALE_TOPOLOGY")
    for status in (*statuses, "SHUTDOWN_APPLICATION", "ASSIGNMENT_DELAYED"):
        assert outcome.compared[f"status {status}"] > 0, status
    kinds = ("metadata", "member_metadata", "target_assignment_metadata", "target_assignment_member", "topology")
    for kind in (*kinds, "current_member_assignment"):
        assert outcome.compared[f"record streams_group_{kind}"] > SEQUENCES, kind
    assert outcome.compared["commit by an older epoch NONE"] > 0
    assert outcome.compared["commit by an older epoch STALE_MEMBER_EPOCH"] > 0


def test_a_planted_fault_is_found(own_broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a coordinator that gives tasks that others still have differs from the broker."""
    monkeypatch.setattr(StreamsReconciliation, "_is_free", lambda *_: True)
    assert play_all(own_broker, range(SEQUENCES, SEQUENCES + 5), SEED, standbys=1).wrong
