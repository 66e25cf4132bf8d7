"""A script of faults is read, refused where it says nothing that can be done, and says with which request it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.consumer.group import OffsetCommitRequest, OffsetFetchRequest

from groupledger.jobs.coordinator.faults import Fault, faults_of, groups_of, read_faults
from groupledger.jobs.coordinator.frames import Incoming
from groupledger.jobs.process.errors import InputError
from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
faults:
  - {at_s: 5, do: expire, group: billing, member: app-2}
  - {request: OFFSET_COMMIT, group: billing, skip: 2, do: answer, error: ILLEGAL_GENERATION}
"""


def commit(group: str = "billing", client_id: str = "app-1") -> Incoming:
    return Incoming(ApiKey.OFFSET_COMMIT, 9, 1, client_id, OffsetCommitRequest(version=9, group_id=group))


def test_a_script_is_read(tmp_path: Path) -> None:
    """Names are Kafka's, as logs show them."""
    file = tmp_path / "faults.yaml"
    file.write_text(SCRIPT)
    first, second = read_faults(file)
    assert (first.do, first.at_s, first.group, first.member) == ("expire", 5, "billing", "app-2")
    assert (second.request, second.error, second.skip) == (ApiKey.OFFSET_COMMIT, Error.ILLEGAL_GENERATION, 2)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"do": "expire", "group": "g"}, "needs either at_s or request"),
        ({"do": "explode", "at_s": 1}, "do: Input should be 'expire'"),
        ({"do": "expire", "at_s": 1}, "expire needs group"),
        ({"do": "delay", "at_s": 1, "delay_ms": 5}, "delay needs `request` in place of at_s"),
        ({"do": "answer", "request": "HEARTBEAT"}, "answer needs error"),
        ({"do": "answer", "request": "METADATA", "error": "NONE"}, "answer is for CONSUMER_GROUP_DESCRIBE"),
        ({"do": "answer", "request": "heartbeat", "error": "NONE"}, "request: must be a name of Kafka's"),
        ({"do": "lose", "request": "FETCH", "when": 3}, "when: Extra inputs"),
        ({"do": "add_partitions", "at_s": 1, "topic": "t"}, "add_partitions needs partitions"),
        ({"do": "disconnect", "at_s": 1}, "disconnect needs client_id"),
        ("expire", "Input should be a valid dictionary"),
    ],
)
def test_what_is_no_fault(entry: Any, reason: str) -> None:
    """A fault that can't be done is refused with its number and the missing field."""
    with pytest.raises(InputError) as refused:
        faults_of([{"do": "lose", "request": "FETCH"}, entry], "faults.yaml")
    assert str(refused.value).startswith(f"faults.yaml: fault 2: {reason}")


def test_a_script_without_a_list() -> None:
    """A file without `faults` is reported."""
    with pytest.raises(InputError, match="must hold a list under `faults`"):
        faults_of(None, "faults.yaml")


def test_skip_and_times() -> None:
    """A fault passes over the requests that it skips, comes so many times, and counts only what fits."""
    fault = Fault(do="lose", request="OFFSET_COMMIT", group="billing", client_id="app-1", skip=1, times=2)  # type: ignore[arg-type]
    came = [fault.fits(each) for each in (commit(), commit("other"), commit(client_id="app-2"), *[commit()] * 3)]
    assert came == [False, False, False, True, True, False]


def test_the_groups_of_requests() -> None:
    """Each API names its groups in its own way; one that names none fits a fault of any group."""
    group_kind = OffsetFetchRequest.OffsetFetchRequestGroup
    many = OffsetFetchRequest(version=9, groups=[group_kind(group_id=name, topics=None) for name in "ab"])
    assert groups_of(Incoming(ApiKey.OFFSET_FETCH, 9, 1, "", many)) == ("a", "b")
    fetch = Incoming(ApiKey.FETCH, 12, 1, "", FetchRequest(version=12))
    assert groups_of(fetch) == ()
    assert Fault(do="rebalance", request="FETCH", group="a").fits(fetch)  # type: ignore[arg-type]
