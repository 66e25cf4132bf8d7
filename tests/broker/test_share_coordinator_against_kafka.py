"""Goal: the coordinator answers and writes for share groups as a broker does (`lab.kafka.share_differential`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from groupledger.coordinator.model.groups.share.group import ShareGroup
from lab.kafka import paired_play
from lab.kafka.broker_driver import SETTINGS
from lab.kafka.consumer_sequences import prepare
from lab.kafka.local_broker import LocalBroker
from lab.kafka.share_differential import PROPERTIES, play_all

if TYPE_CHECKING:
    from collections.abc import Iterator

SEQUENCES, SEED = 40, 5


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker whose offsets topic has one partition."""
    directory = tmp_path_factory.mktemp("share-coordinator")
    with LocalBroker(directory, properties={**SETTINGS, **PROPERTIES}) as broker:
        prepare(broker.bootstrap_servers)
        yield broker


def test_random_sequences(own_broker: LocalBroker) -> None:
    """Goal: no answer and no record differs; all that can be played was, and every kind of record was written."""
    outcome = play_all(own_broker.bootstrap_servers, range(SEQUENCES), SEED)
    assert outcome.wrong == []
    assert outcome.compared["sequences"] == SEQUENCES
    assert outcome.compared["sessions that ended"] > 0
    errors = ("NONE", "FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND", "INVALID_REQUEST")
    for error in (*errors, "GROUP_MAX_SIZE_REACHED"):
        assert outcome.compared[f"ShareGroupHeartbeatRequest {error}"] > 0
    kinds = ("metadata", "member_metadata", "target_assignment_metadata", "target_assignment_member")
    for kind in (*kinds, "current_member_assignment", "state_partition_metadata"):
        assert outcome.compared[f"record share_group_{kind}"] > SEQUENCES


def test_a_planted_fault_is_found(own_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a coordinator that does not give what was initialized meanwhile differs from the broker."""
    monkeypatch.setattr(ShareGroup, "has_ungiven", lambda _: False)
    assert play_all(own_broker.bootstrap_servers, range(SEQUENCES, SEQUENCES + 3), SEED).wrong


def test_a_load_in_their_midst(own_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a broker that was started again goes on from its log as the coordinator does from its own records."""
    monkeypatch.setattr(paired_play, "SHARE_OF_LOADS", 1)
    played = range(2 * SEQUENCES, 2 * SEQUENCES + 2)
    outcome = play_all(own_broker.bootstrap_servers, played, SEED, restart=own_broker.restart)
    assert outcome.wrong == []
    assert outcome.compared["loads"] == len(played)
