"""Frames that are no requests are reported with a reason; a version of ApiVersions that is not served is answered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin.topics import CreatePartitionsRequest, CreateTopicsRequest
from kafka.protocol.consumer.group import HeartbeatRequest, JoinGroupRequest, OffsetCommitRequest
from kafka.protocol.metadata.api_versions import ApiVersionsRequest, ApiVersionsResponse

from groupledger.coordinator.model.config import Config
from groupledger.jobs.coordinator import frames, topic_answers
from groupledger.jobs.coordinator.apis import SERVED
from groupledger.jobs.coordinator.cluster_answers import api_versions
from groupledger.jobs.coordinator.world import World
from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.errors import Error

WORLD = World(Config(), 1, 1, 0, {}, 0)


def frame(request: object) -> bytes:
    request.with_header(7, "app-1")  # type: ignore[attr-defined]
    encoded: bytes = request.encode(header=True)  # type: ignore[attr-defined]
    return encoded


def heartbeat(version: int = 4) -> bytes:
    return frame(HeartbeatRequest(version=version, group_id="g", generation_id=3, member_id="m"))


def test_a_request() -> None:
    """A request is decoded with its header."""
    incoming = frames.decode(heartbeat())
    assert incoming[:4] == (ApiKey.HEARTBEAT, 4, 7, "app-1")
    assert incoming.body.generation_id == 3


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\0\x0c", "a request of 2 bytes has no header"),
        (b"\x03\xe8" + heartbeat()[2:], "the API 1000 is not served"),
        (b"\0\x04" + heartbeat()[2:], "the API LEADER_AND_ISR is not served"),
        (heartbeat()[:2] + b"\0\x09" + heartbeat()[4:], "version 9 of HEARTBEAT is not served"),
        (heartbeat()[:-9], "the bytes are no HEARTBEAT request of version 4"),
        # The length of a compact string is 0 for null.
        (heartbeat().replace(b"\x02g", b"\x00"), "group_id of HEARTBEAT must not be null"),
    ],
)
def test_what_is_no_request(data: bytes, reason: str) -> None:
    """Each kind of a broken frame has its reason."""
    with pytest.raises(frames.MalformedError, match=f"^{reason}$"):
        frames.decode(data)


def test_a_null_in_a_list() -> None:
    """What must not be null is found in the elements of lists, too."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol
    request = JoinGroupRequest(
        version=9, group_id="g", member_id="", protocol_type="consumer", protocols=[protocol(name="xyz", metadata=b"")]
    )
    data = frame(request).replace(b"\x04xyz", b"\x00")
    with pytest.raises(frames.MalformedError, match=r"^protocols\.name of JOIN_GROUP must not be null$"):
        frames.decode(data)


def test_a_version_of_api_versions_that_is_not_served() -> None:
    """It is answered in version 0, with error 35 and the versions of this API alone."""
    data = frame(ApiVersionsRequest(version=4, client_software_name="a", client_software_version="1"))
    incoming = frames.decode(data[:2] + b"\0\x63" + data[4:])
    sent = frames.encode(incoming.correlation_id, api_versions(incoming, WORLD))
    answer = ApiVersionsResponse.decode(sent[frames.SIZE_BYTES :], version=0, header=True)
    assert answer.error_code == Error.UNSUPPORTED_VERSION
    assert [(each.api_key, each.max_version) for each in answer.api_keys] == [(ApiKey.API_VERSIONS, 4)]


def test_software_with_a_wrong_name() -> None:
    """Software with a name that breaks Kafka's rule gets INVALID_REQUEST and no APIs, as from Kafka."""
    data = frame(ApiVersionsRequest(version=3, client_software_name="a b", client_software_version="1"))
    answer = api_versions(frames.decode(data), WORLD)
    assert (answer.error_code, answer.api_keys) == (Error.INVALID_REQUEST, [])


def a_commit(partitions: int) -> bytes:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition
    places = [partition(partition_index=index, committed_offset=index) for index in range(partitions)]
    return frame(
        OffsetCommitRequest(version=9, group_id="g", member_id="m", topics=[topic(name="orders", partitions=places)])
    )


def test_requests_of_many_values() -> None:
    """A commit of ten thousand partitions is a request, and one of far more is reported with the bound."""
    (topic,) = frames.decode(a_commit(10_000)).body.topics
    assert [place.committed_offset for place in topic.partitions] == [*range(10_000)]
    with pytest.raises(frames.MalformedError, match=r"^a request of more than 100,000 values$"):
        frames.decode(a_commit(30_000))


@pytest.mark.parametrize("api", sorted(SERVED))
def test_every_request_can_be_counted(api: ApiKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of any API and version is taken for the same, whether its values are counted first or not."""
    served = SERVED[api]
    for version in range(served.min_version, served.max_version + 1):
        data = frame(served.request(version=version))
        reported = outcome(data)
        with monkeypatch.context() as counted:
            counted.setattr(frames, "COUNTED_FROM_BYTES", 0)
            assert outcome(data) == reported


def outcome(data: bytes) -> str:
    try:
        return str(frames.decode(data))
    except frames.MalformedError as error:
        return str(error)


@given(st.sampled_from(sorted(SERVED)), st.integers(0, 20), st.binary(max_size=200))
def test_any_bytes(api: ApiKey, version: int, data: bytes) -> None:
    """Any bytes are a request, or are reported as none; nothing else is raised."""
    header = int(api).to_bytes(2, "big") + version.to_bytes(2, "big")
    try:
        frames.decode(header + data)
    except frames.MalformedError as error:
        assert str(error)  # noqa: PT017  # either outcome is right


def test_more_partitions_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics are refused beyond a number of partitions, of one and of all, and partitions are."""
    monkeypatch.setattr(topic_answers, "PARTITIONS_OF_ALL_MAX", 10)
    world = World(Config(), 1, 1, 0, {"orders": 4}, 0)
    topic = CreateTopicsRequest.CreatableTopic
    asked = [("a", 5), ("b", 2**31 - 1), ("c", 2), ("d", -5), ("e", 1)]
    create = CreateTopicsRequest(
        version=4, topics=[topic(name=name, num_partitions=count, replication_factor=1) for name, count in asked]
    )
    made = topic_answers.create_topics(frames.decode(frame(create)), world, 0)
    assert {each.name: Error(each.error_code) for each in made.topics} == {
        "a": Error.NONE,
        "b": Error.INVALID_PARTITIONS,
        "c": Error.POLICY_VIOLATION,
        "d": Error.INVALID_PARTITIONS,
        "e": Error.NONE,
    }
    more = CreatePartitionsRequest.CreatePartitionsTopic
    grow = CreatePartitionsRequest(version=1, topics=[more(name="orders", count=5), more(name="a", count=2**31 - 1)])
    grown = topic_answers.create_partitions(frames.decode(frame(grow)), world, 0)
    assert [each.error_code for each in grown.results] == [Error.POLICY_VIOLATION, Error.INVALID_PARTITIONS]
