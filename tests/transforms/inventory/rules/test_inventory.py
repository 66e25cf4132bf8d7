"""Goal: a group that can't move to KIP-848 is named with the reason, and an unknown client does not count as ready."""

from __future__ import annotations

import pytest

from groupledger.schemas.words import MoveBlocker
from groupledger.transforms.inventory.rules.inventory import blockers, can_move

JAVA = "apache-kafka-java"


@pytest.mark.parametrize(
    ("library", "version", "ready"),
    [
        (JAVA, "4.0.0", True),
        (JAVA, "10.1", True),
        (JAVA, "3.9.1", False),
        ("librdkafka", "2.12.0", True),
        ("librdkafka", "v2.11.1", False),
        ("confluent-kafka-python", "2.12.1-librdkafka-2.12.1", True),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", True),  # as a real one sends it
        ("confluent-kafka-go", "v2.3.0-librdkafka-v2.3.0", False),
        ("sarama", "1.45.0", None),
        (JAVA, "unknown", None),
        (JAVA, None, None),
        (None, None, None),
        (JAVA, "9" * 5_000, None),
    ],
)
def test_libraries(library: str | None, version: str | None, ready: bool | None) -> None:
    assert can_move(library, version) is ready


@pytest.mark.parametrize(
    ("protocol_type", "assignor", "version", "found"),
    [
        ("consumer", "range", "4.1.0", []),
        ("consumer", "cooperative-sticky", "3.6.0", [MoveBlocker.OLD_CLIENT]),
        ("consumer", "acme-sticky", "4.1.0", [MoveBlocker.OWN_ASSIGNOR]),
        ("consumer", "acme-sticky", None, [MoveBlocker.OWN_ASSIGNOR, MoveBlocker.UNKNOWN_CLIENT]),
        ("connect", "sessioned", "4.1.0", [MoveBlocker.NOT_CONSUMERS]),
        (None, None, "4.1.0", []),
    ],
)
def test_blockers(protocol_type: str | None, assignor: str | None, version: str | None, found: list[str]) -> None:
    assert [*blockers(protocol_type, assignor, JAVA, version)] == found
