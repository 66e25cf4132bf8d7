"""Goal: chance that depends on nothing but the seed and the name."""

from __future__ import annotations

import re

from groupledger.coordinator.simulator.random_source import RandomSource


def test_known_numbers() -> None:
    """Goal: the generator is SplitMix64; these are the published first numbers from state 0."""
    source = RandomSource(0)
    source._state = 0
    assert [source.bits() for _ in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_named_sources_are_independent() -> None:
    """Goal: the numbers that one name draws do not depend on the draws of another name."""
    parent = RandomSource(7)
    before = parent.source("group", 1).bits()
    parent.bits()
    assert parent.source("group", 1).bits() == before
    assert parent.source("group", 2).bits() != before
    assert RandomSource(8).source("group", 1).bits() != before


def test_ranges_and_ids() -> None:
    """Goal: ranges include both ends, and ids have the forms that Kafka and Java print."""
    source = RandomSource(1)
    assert {source.between(2, 4) for _ in range(100)} == {2, 3, 4}
    uuid = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    assert all(re.fullmatch(uuid, source.uuid()) for _ in range(100))
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", source.kafka_id()) for _ in range(200))
