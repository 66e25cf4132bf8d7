"""Goal: members of a consumer group subscribe by regular expressions, which are resolved as a broker does it
(`lab.kafka.consumer_differential` holds the same against one)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.groups.modern.topics import Topic
from groupledger.coordinator.model.messages import ConsumerGroupDescribeRequest, OffsetDeleteRequest
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition
from tests.coordinator.model.consumers import GROUP, ORDERS, PAYMENTS, Cluster

REFRESH_MIN_MS = 10_000
REFUNDS = Topic("refunds", "AAAAAAAAAAAAAAAAAAAAAw", 1)
MEMBER, EPOCH, REGEX = (f"consumer_group_{each}" for each in ("member_metadata", "metadata", "regular_expression"))


def join(cluster: Cluster, member_id: str, regex: str, *names: str, **fields: Any) -> Any:
    words = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": names, "owned": {}}
    return cluster.beat(member_id, 0, subscribed_topic_regex=regex, **{**words, **fields})


def written(cluster: Cluster, since: int) -> list[str]:
    """Returns the types of the records in the batches after the first ones."""
    return [record.record_type for batch in cluster.log[since:] for record in batch.records]


def resolutions(cluster: Cluster) -> list[tuple[str, list[str] | None]]:
    """Returns each expression that a record names, and its topics; None for a tombstone."""
    found = [record for batch in cluster.log for record in batch.records if record.record_type == REGEX]
    return [(each.key["regular_expression"], None if each.value is None else each.value["topics"]) for each in found]


def test_it_is_resolved_behind_the_answer() -> None:
    """Goal: a member that joins by an expression alone has nothing in its first epoch, and its topics in the next."""
    cluster = Cluster()
    joined = join(cluster, "a", "ord.*|pay.*")
    assert (joined.error, joined.member_epoch, joined.assignment) == (Error.NONE, 1, {})
    resolved = cluster.log[-1]
    assert [record.record_type for record in resolved.records] == [REGEX, EPOCH]
    assert resolved.records[0].value == {"topics": ["orders", "payments"], "version": 2, "timestamp_ms": 1}
    assert cluster.said[-1].startswith("[GroupId billing] Bumped group epoch to 2 with metadata hash")
    assert "[GroupId billing] Scanned 2 topics to refresh regular expressions [ord.*|pay.*] in 0ms." in cluster.said
    given = cluster.beat("a", 1)
    assert given.member_epoch == 2
    assert given.assignment == {ORDERS.topic_id: tuple(range(6)), PAYMENTS.topic_id: (0, 1, 2)}


def test_a_whole_name_has_to_match() -> None:
    """Goal: an expression that matches only a part of a name matches no topic, and so begins no epoch."""
    cluster = Cluster()
    join(cluster, "a", "rder")
    assert resolutions(cluster) == [("rder", [])]
    assert (cluster.group.epoch, cluster.beat("a", 1).assignment) == (1, None)


@pytest.mark.parametrize("regex", ["[", "(orders", "o**", "(?=o)", r"(o)\1", "o{2,1}"])
def test_no_expression(regex: str) -> None:
    """Goal: an expression that RE2 can't read is refused, and changes nothing; the member keeps the expression that it
    had."""
    cluster = Cluster()
    assert join(cluster, "a", regex).error is Error.INVALID_REGULAR_EXPRESSION
    assert cluster.log == []
    join(cluster, "a", "orders")
    refused = cluster.beat("a", 1, subscribed_topic_regex=regex)
    assert refused.error is Error.INVALID_REGULAR_EXPRESSION
    assert cluster.group.members["a"].regex == "orders"


def test_names_and_an_expression() -> None:
    """Goal: a member that gives both has the topics of both, before and after the expression is resolved."""
    cluster = Cluster()
    assert join(cluster, "a", "pay.*", "orders").assignment == {ORDERS.topic_id: tuple(range(6))}
    assert cluster.beat("a", 1).assignment.keys() == {ORDERS.topic_id, PAYMENTS.topic_id}
    deleted = cluster.ask(OffsetDeleteRequest, group_id=GROUP, partitions=(TopicPartition("payments", 0),))
    assert deleted.partitions[0].error is Error.GROUP_SUBSCRIBED_TO_TOPIC
    (described,) = cluster.ask(ConsumerGroupDescribeRequest, group_ids=(GROUP,)).groups
    assert described.members[0].subscribed_topic_names == ("orders",)
    assert described.members[0].subscribed_topic_regex == "pay.*"


def test_who_joins_with_a_known_expression() -> None:
    """Goal: an expression that is resolved already is not resolved again, and its new member begins an epoch."""
    cluster = Cluster()
    join(cluster, "a", "orders")
    before = len(cluster.log)
    assert join(cluster, "b", "orders").member_epoch == 3
    assert REGEX not in written(cluster, before)


def test_another_expression() -> None:
    """Goal: the last member of an expression takes its record away at once; the next one is resolved with the first
    request for which nothing was resolved in the last ten seconds."""
    cluster = Cluster()
    join(cluster, "a", "orders")
    cluster.beat("a", 1)
    join(cluster, "b", "orders")
    cluster.beat("a", 2, subscribed_topic_regex="payments")
    assert resolutions(cluster) == [("orders", ["orders"])]
    assert cluster.group.epoch == 3
    cluster.beat("b", -1)
    assert resolutions(cluster)[1:] == [("orders", None)]
    cluster.beat("a", cluster.group.members["a"].epoch, owned={})
    assert resolutions(cluster)[2:] == [("payments", ["payments"])]


def test_ten_seconds() -> None:
    """Goal: while another expression was resolved in the last ten seconds, a new one waits."""
    cluster = Cluster()
    join(cluster, "a", "orders")
    join(cluster, "b", "payments")
    assert resolutions(cluster) == [("orders", ["orders"])]
    cluster.wait(REFRESH_MIN_MS - 2)
    cluster.beat("a", 1)
    assert len(resolutions(cluster)) == 1
    cluster.beat("a", cluster.group.members["a"].epoch)
    assert sorted(resolutions(cluster)[1:]) == [("orders", ["orders"]), ("payments", ["payments"])]


def test_to_names() -> None:
    """Goal: a member that gives up its expression begins an epoch and keeps what it names."""
    cluster = Cluster()
    join(cluster, "a", ".*", "orders")
    cluster.beat("a", 1)
    named = cluster.beat("a", 2, subscribed_topic_regex="", owned={ORDERS.topic_id: tuple(range(6))})
    assert (named.member_epoch, named.assignment) == (3, {ORDERS.topic_id: tuple(range(6))})
    assert resolutions(cluster)[-1] == (".*", None)


def test_new_topics() -> None:
    """Goal: a topic that is created later is found after ten seconds, one that is deleted goes with the next look."""
    cluster = Cluster()
    join(cluster, "a", ".*")
    cluster.beat("a", 1)
    cluster.coordinator.topics[REFUNDS.name] = REFUNDS
    cluster.beat("a", 2)
    assert len(resolutions(cluster)) == 1
    cluster.wait(REFRESH_MIN_MS)
    cluster.beat("a", 2)
    assert resolutions(cluster)[1:] == [(".*", ["orders", "payments", "refunds"])]
    assert cluster.beat("a", 2).assignment.keys() == {ORDERS.topic_id, PAYMENTS.topic_id, REFUNDS.topic_id}
    del cluster.coordinator.topics[REFUNDS.name]
    gone = cluster.beat("a", 3, owned={ORDERS.topic_id: tuple(range(6)), PAYMENTS.topic_id: (0, 1, 2)})
    assert (gone.member_epoch, len(resolutions(cluster))) == (4, 2)
    cluster.wait(cluster.config.group_consumer_session_timeout_ms - 2)
    cluster.beat("a", 4)
    assert len(resolutions(cluster)) == 2, "a deleted topic is no cause to look again"


def test_the_interval() -> None:
    """Goal: expressions are resolved again when the broker's interval has passed; that nothing changed begins no
    epoch."""
    cluster = Cluster(group_consumer_regex_refresh_interval_ms=20_000)
    join(cluster, "a", "orders")
    cluster.beat("a", 1)
    cluster.wait(20_000)
    before = len(cluster.log)
    assert cluster.beat("a", 2).member_epoch == 2
    assert written(cluster, before) == [REGEX]


def test_the_last_member() -> None:
    """Goal: the last member of an expression takes its record with it, whether it leaves or is silent."""
    for is_silent in (True, False):
        cluster = Cluster()
        join(cluster, "a", "orders")
        before = len(cluster.log)
        if is_silent:
            cluster.wait(cluster.config.group_consumer_session_timeout_ms)
        else:
            cluster.beat("a", -1)
        assert written(cluster, before)[2:] == [MEMBER, REGEX, EPOCH]
        assert (cluster.group.metadata_hash, len(cluster.group.resolved)) == (0, 0)


def test_what_is_no_expression_in_a_log() -> None:
    """Goal: a member of a log whose expression RE2 can't read is kept, and has no topics by it."""
    cluster = Cluster()
    join(cluster, "a", "orders")
    member = next(record for record in cluster.log[0].records if record.record_type == MEMBER)
    bad = replace(member, value={**(member.value or {}), "subscribed_topic_regex": "["})
    batch = replace(cluster.log[0], records=(bad, *cluster.log[0].records[1:]))
    cluster.coordinator = Coordinator(cluster.config, cluster.coordinator.topics)
    cluster.coordinator.load(0, [batch], now_ms=cluster.now_ms)
    assert cluster.beat("a", 1).error is Error.NONE
    assert resolutions(cluster)[1:] == [("[", [])]


def test_load() -> None:
    """Goal: a coordinator that loads the log has the same expressions, and resolves them anew, since another one
    resolved them, but not within ten seconds."""
    cluster = Cluster()
    join(cluster, "a", ".*")
    cluster.beat("a", 1)
    before = cluster.group
    other = Coordinator(cluster.config, cluster.coordinator.topics)
    other.load(0, cluster.log, now_ms=cluster.now_ms)
    cluster.coordinator = other
    loaded = cluster.group
    assert dict(loaded.resolved.items()) == dict(before.resolved.items())
    assert dict(loaded.regexes.items()) == dict(before.regexes.items()) == {".*": 1}
    cluster.beat("a", 2)
    assert len(resolutions(cluster)) == 1
    cluster.wait(REFRESH_MIN_MS)
    cluster.beat("a", 2)
    cluster.wait(REFRESH_MIN_MS)
    cluster.beat("a", 2)
    assert len(resolutions(cluster)) == 2
