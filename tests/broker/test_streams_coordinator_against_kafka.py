"""Goal: the coordinator answers and writes for streams groups as a broker does (`lab.kafka.streams_differential`)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from groupledger.coordinator.model.groups.streams.reconciliation import StreamsReconciliation
from lab.kafka.broker_driver import SETTINGS
from lab.kafka.consumer_sequences import prepare
from lab.kafka.local_broker import JARS_OF_RELEASE, LocalBroker
from lab.kafka.paired_play import PROPERTIES_OF_4_4
from lab.kafka.streams_differential import PROPERTIES_WITH_STANDBYS, play_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEQUENCES, SEQUENCES_OF_4_4, SEED = 60, 20, 13


@contextmanager
def _broker(directory: Path, release: str = "4.2", **properties: str) -> Iterator[str]:
    """Yields the address of a broker whose offsets topic has one partition."""
    settings = {**SETTINGS, **PROPERTIES_WITH_STANDBYS, **properties}
    with LocalBroker(directory, jars=JARS_OF_RELEASE[release], properties=settings) as broker:
        prepare(broker.bootstrap_servers)
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with _broker(tmp_path_factory.mktemp("streams-coordinator")) as address:
        yield address


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


def test_random_sequences_of_4_4(tmp_path: Path) -> None:
    """Goal: the same of a 4.4 broker, with static members that go away and come back, and others who want their ids."""
    with _broker(tmp_path, "4.4", **PROPERTIES_OF_4_4) as address:
        outcome = play_all(address, range(SEQUENCES_OF_4_4), SEED, standbys=1)
    assert outcome.wrong == []
    assert outcome.compared["static members that came back"] > 0
    for error in ("UNRELEASED_INSTANCE_ID", "FENCED_INSTANCE_ID"):
        assert outcome.compared[f"StreamsGroupHeartbeatRequest {error}"] > 0, error


def test_a_planted_fault_is_found(own_broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a coordinator that gives tasks that others still have differs from the broker."""
    monkeypatch.setattr(StreamsReconciliation, "_is_free", lambda *_: True)
    assert play_all(own_broker, range(SEQUENCES, SEQUENCES + 5), SEED, standbys=1).wrong
