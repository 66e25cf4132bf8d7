"""Goal: the history of KIP-848 groups agrees with a broker's descriptions, request by request
(`bench.consumer_groups`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from groupledger.transforms.history.rules import reconciliation
from lab.kafka.broker_driver import SETTINGS
from lab.kafka.consumer_sequences import PROPERTIES, Play, play_all, prepare
from lab.kafka.conversion_sequences import ConversionPlay
from lab.kafka.local_broker import LocalBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

SEQUENCES, SEED = 40, 3


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """A broker whose offsets topic has one partition, and the names of its topics by id."""
    directory = tmp_path_factory.mktemp("consumer-groups")
    with LocalBroker(directory, properties={**SETTINGS, **PROPERTIES}) as broker:
        yield broker.bootstrap_servers, prepare(broker.bootstrap_servers)


@pytest.mark.parametrize("kind", [Play, ConversionPlay])
def test_random_sequences(own_broker: tuple[str, dict[str, str]], kind: type[Play]) -> None:
    """Goal: after each of some hundred requests epochs, members, owners and convergence are the broker's, and each
    epoch has the cause of its request; also in groups that go from one protocol to the other and back."""
    outcome = play_all(*own_broker, range(SEQUENCES), SEED, kind)
    assert outcome.wrong == []
    assert outcome.compared["sequences"] == SEQUENCES
    assert outcome.compared["answers"] > 10 * SEQUENCES


def test_a_planted_fault_is_found(own_broker: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a history in which nobody owns anything differs from the broker."""
    monkeypatch.setattr(reconciliation, "_hand_over", lambda *_: None)
    assert play_all(*own_broker, range(SEQUENCES, SEQUENCES + 5), SEED).wrong
