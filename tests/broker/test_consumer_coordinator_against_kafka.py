"""Goal: the coordinator answers, writes and logs for KIP-848 groups as a broker does
(`lab.kafka.consumer_differential`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from groupledger.coordinator.model.groups.consumer.reconciliation import Reconciliation
from lab.kafka import mixed_differential
from lab.kafka.broker_driver import SETTINGS
from lab.kafka.consumer_differential import PROPERTIES, play_all
from lab.kafka.consumer_sequences import prepare
from lab.kafka.local_broker import LocalBroker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEQUENCES, MIXED_SEQUENCES, SEED = 80, 40, 5


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A broker whose offsets topic has one partition, and its server log."""
    directory = tmp_path_factory.mktemp("consumer-coordinator")
    with LocalBroker(directory, properties={**SETTINGS, **PROPERTIES}) as broker:
        prepare(broker.bootstrap_servers)
        yield broker.bootstrap_servers, broker.server_log


def test_random_sequences(own_broker: tuple[str, Path]) -> None:
    """Goal: no answer, no record and no line of the server log differs; all that can be played was, and every kind of
    record was written."""
    outcome = play_all(own_broker[0], range(SEQUENCES), SEED, server_log=own_broker[1])
    assert outcome.wrong == []
    assert outcome.compared["sequences"] == SEQUENCES
    assert outcome.compared["server log lines"] > 3 * SEQUENCES
    errors = ("NONE", "FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "UNRELEASED_INSTANCE_ID", "INVALID_REQUEST")
    for error in (*errors, "INVALID_REGULAR_EXPRESSION"):
        assert outcome.compared[f"ConsumerGroupHeartbeatRequest {error}"] > 0
    records = {kind for kind in outcome.compared if kind.startswith("record ")}
    assert {f"record consumer_group_{kind}" for kind in ("metadata", "member_metadata", "partition_metadata")} < records
    assert outcome.compared["record consumer_group_current_member_assignment"] > 3 * SEQUENCES
    assert outcome.compared["record consumer_group_regular_expression"] > SEQUENCES
    assert outcome.compared["pauses"] > 0


def test_mixed_sequences(own_broker: tuple[str, Path]) -> None:
    """Goal: no answer, no record and no line of the server log differs where classic members are in the group, too; it
    went there and back."""
    outcome = mixed_differential.play_all(own_broker[0], range(MIXED_SEQUENCES), SEED, server_log=own_broker[1])
    assert outcome.wrong == []
    assert outcome.compared["server log lines"] > 3 * MIXED_SEQUENCES
    kinds = ("group_metadata", "consumer_group_partition_metadata", "consumer_group_regular_expression")
    for kind in (*kinds, "consumer_group_current_member_assignment"):
        assert outcome.compared[f"record {kind}"] > 0
    for kind in ("JoinGroup", "SyncGroup", "Heartbeat"):
        assert outcome.compared[f"{kind}Request REBALANCE_IN_PROGRESS"] > 0


def test_a_planted_fault_is_found(own_broker: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a coordinator that does not wait for members to give up their partitions differs from the broker."""
    monkeypatch.setattr(Reconciliation, "_still_owns", lambda *_: False)
    assert play_all(own_broker[0], range(SEQUENCES, SEQUENCES + 20), SEED).wrong
