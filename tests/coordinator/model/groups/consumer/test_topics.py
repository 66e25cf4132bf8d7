"""Goal: a coordinator's knowledge of topics shows which of them changed since a version."""

from __future__ import annotations

from dataclasses import replace

from groupledger.coordinator.model.groups.modern.topics import KnownTopics
from tests.coordinator.model.consumers import ORDERS, PAYMENTS


def test_versions() -> None:
    """Goal: a new topic, a change and a deletion each make a version, and only the new topic, or a new one of an old
    name, is a creation; the same topic again is no change."""
    topics = KnownTopics()
    topics.update({each.name: each for each in (ORDERS, PAYMENTS)})
    assert (topics.version, topics.version_of_creation) == (2, 2)
    topics["orders"] = replace(ORDERS, partition_count=9)
    topics["payments"] = replace(PAYMENTS)
    assert (topics.version, topics.version_of_creation) == (3, 2)
    assert topics.has_changed(lambda: ["orders"], 2)
    assert not topics.has_changed(lambda: ["payments", "not-there"], 2)
    del topics["payments"]
    assert topics.has_changed(lambda: ["payments"], 3)
    topics["orders"] = replace(ORDERS, topic_id=PAYMENTS.topic_id)
    assert (topics.version, topics.version_of_creation) == (5, 5)
