"""The open state of a group is read by every later version, and refused by every earlier one."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.history.rules import state
from groupledger.transforms.history.rules.state import PartitionCommits, UnknownStateError, dump, load
from lab.truth.histories import Log, folded, member

FORMAT_2 = (
    '{"group_id":"g1","kafka_partition":3,"first_kafka_offset":1,"last_kafka_offset":6,"record_offset":5,'
    '"coverage_offset":0,"completeness":"complete","is_state_known":true,"incarnation":1,"is_alive":true,'
    '"group_type":"classic","number":2,"first_seen_ms":1000,"last_seen_ms":9000,"last_commit_ms":9000,'
    '"last_memberless_commit_ms":null,"universe":{"t":2},"revokers":[],"cause_generation":2,"format":2,"ending":null,'
    '"generation":[2,0,"consumer","range","a",5,8000,7990,0,true,true,1,2,null,null,null],"topic_lists":[["t"]],'
    '"members":[[["a",null,"app","/h",45000,300000,null,0,null,null],1,1,1000,true]],'
    '"owners":[[[["a"],1,1,1000,true],{"t":[0,1]}]],"pending":[["member b",{"t":[7]}]],'
    '"commits":{"t":[[0,9000,40,2000,3]]},"rebalance":[{"to_generation":2},7000,{"t":[[0,7000,30,9000,40]]},9000]}'
)


def some_group() -> str:
    """The state after a rebalance with commits before and after it."""
    log = Log().record(1, member("a", 0, 1)).commits(0, 1, every_ms=5_000, times=3)
    log.record(2, member("a", 0), member("b", 1)).commits(0, 1, every_ms=5_000, times=2)
    open_group = folded(log.entries).open_group
    assert open_group is not None
    text: str = open_group["state"]
    return text


def test_format_2() -> None:
    """Goal: a state with lists without names, of an earlier release, is read, and written in today's form."""
    group = load(FORMAT_2)
    assert group.members["a"].facts.topics == ("t",)
    assert group.members["a"].facts.rebalance_timeout_ms == 300_000
    assert group.owners[TopicPartition("t", 1)].owners == ("a",)
    assert group.commits == {("t", 0): PartitionCommits(9_000, 40, 2_000, 3)}
    assert group.generation is not None
    assert (group.generation.leader, group.generation.current_state_timestamp_ms) == ("a", 7_990)
    assert group.rebalance is not None
    assert (group.rebalance.watched[TopicPartition("t", 0)].committed_after, group.rebalance.is_dirty) == (40, False)
    assert load(dump(group)) == group


def test_a_field_that_an_older_version_did_not_have() -> None:
    """Goal: a field that an older version did not have takes its default, in a record and in the group itself."""
    packed = json.loads(some_group())
    at = packed["names"]["commits"].index("owner_commits")
    del packed["names"]["commits"][at], packed["universe"]
    for row in (row for rows in packed["commits"].values() for row in rows):
        del row[1 + at]
    group = load(json.dumps(packed))
    assert {each.owner_commits for each in group.commits.values()} == {0}
    assert group.universe == {}
    assert group.commits.keys() == load(some_group()).commits.keys()


def test_new_fields_have_defaults() -> None:
    """Goal: nobody adds a field that states of format 2 can't do without."""
    for kind, of in state._KINDS.items():
        new = {each.name: each for each in dataclasses.fields(of)}
        for name in state._NAMES_OF_FORMAT_2[kind]:
            new.pop(name)
        assert all(each.default is not dataclasses.MISSING for each in new.values()), kind


def newer(**changes: Any) -> str:
    return json.dumps(json.loads(some_group()) | changes)


def with_a_new_name() -> str:
    packed = json.loads(some_group())
    packed["names"]["tenure"].append("mood")
    return json.dumps(packed)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (newer(format=4), "format 4"),
        (newer(mood="good"), "the fields mood"),
        (with_a_new_name(), "the fields tenure.mood"),
        ("(not JSON)", "a form other than JSON"),
    ],
)
def test_a_newer_version(text: str, what: str) -> None:
    """Goal: a field or a version that this release can't know is refused by its name, with the remedy."""
    with pytest.raises(UnknownStateError, match=rf"{what}, .* run `groupledger history --rebuild`"):
        load(text)


def test_equal_states_are_equal_texts() -> None:
    """Goal: a state is the same text after any number of batches."""
    assert dump(load(some_group())) == some_group()
