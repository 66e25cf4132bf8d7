"""The codec agrees with Kafka itself: it prints what a real broker wrote after real history as Kafka's own tools do.

Printed forms are compared as JSON text, so the order of fields and the kind of every number count too. Nothing is
normalised; the two oddities of the tools that the codec refuses to copy have a test of their own.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.schemas.codec.control_record import EndTransaction, decode_end_transaction
from groupledger.schemas.codec.engine import UNKNOWN_TAGGED_FIELDS
from groupledger.schemas.codec.json_form import fields_to_json_form, to_json_form
from groupledger.schemas.codec.records import Record, decode_record, encode_record
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.wire.record_types import RECORD_TYPE_BY_NAME
from lab.kafka import oracle
from tests.broker import history, samples

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lab.kafka.local_broker import LocalBroker
    from lab.kafka.oracle import Position, Printed, Stored
    from tests.broker.conftest import Evidence

# Record types of Kafka that no running broker of 4.2 or 4.4 writes a value of, and why.
NOT_WRITTEN = {
    "legacy_offset_commit": "brokers before 0.9 wrote it",
    "consumer_group_partition_metadata": "deprecated in 4.1: only tombstones are written",
}


@pytest.fixture(scope="session", params=["evidence", "evidence_4_4"])
def evidence_of_release(request: pytest.FixtureRequest) -> Evidence:
    found: Evidence = request.getfixturevalue(request.param)
    return found


def decoded(stored: Iterable[Stored]) -> Iterator[Record]:
    return (decode_record(record.key, record.value) for record in stored)


def kind(record: Record) -> history.Kind:
    version = record.value_version
    return record.record_type, history.TOMBSTONE if version is None else version


def text(key: Any, value: Any) -> str:
    return json.dumps({"key": key, "value": value})


def dump_text(printed: Printed) -> str:
    return text(printed.key, printed.payload)


@pytest.mark.parametrize("scenario", history.SCENARIOS, ids=lambda scenario: scenario.play.__name__)
def test_history_is_what_the_scenario_says(scenario: history.Scenario, evidence_of_release: Evidence) -> None:
    """Each scenario left the kinds of record that it states about its own groups, or it tests nothing."""
    seen = {
        kind(record)
        for record in decoded(evidence_of_release.uncommitted.values())
        if record.key["group_id"] in scenario.groups
    }
    assert scenario.leaves <= seen


def test_every_record_type_is_covered(evidence_of_release: Evidence) -> None:
    """All record types were written with a value by the broker, but for those that it never writes."""
    written = {
        record.record_type for record in decoded(evidence_of_release.uncommitted.values()) if record.value is not None
    }
    assert written == RECORD_TYPE_BY_NAME.keys() - NOT_WRITTEN.keys()


def test_records_are_printed_as_dump_log_segments_prints_them(evidence_of_release: Evidence) -> None:
    """Every record of the topic, tombstones and aborted ones included: our JSON form is the tool's, to the letter."""
    for position, stored in evidence_of_release.uncommitted.items():
        record = decode_record(stored.key, stored.value)
        if record.key["group_id"] not in history.LENIENTLY_PRINTED_MEMBERS:
            assert json.dumps(to_json_form(record)) == dump_text(evidence_of_release.printed[position])
        assert stored.timestamp_ms == evidence_of_release.printed[position].timestamp_ms


def test_bytes_that_only_the_tool_takes_for_whole(evidence_of_release: Evidence) -> None:
    """Malformed UTF-8 and a length of -2 in a subscription: Kafka prints U+FFFD and null, we print base64; nothing else
    of the record differs."""
    shown = {}
    for position, stored in evidence_of_release.uncommitted.items():
        record = decode_record(stored.key, stored.value)
        group = record.key["group_id"]
        if group in history.LENIENTLY_PRINTED_MEMBERS and record.value is not None and record.value["members"]:
            ours, kafkas = to_json_form(record)["value"], evidence_of_release.printed[position].payload
            assert kafkas is not None
            shown[group] = kafkas["data"]["members"][0].pop("subscription")
            assert isinstance(ours["data"]["members"][0].pop("subscription"), str)
            assert ours == kafkas
    assert shown == {
        "lenient-utf8": {"topics": ["\ufffd("], "userData": None},
        "lenient-length": {"topics": [], "userData": None},
    }


def test_encoding_gives_the_bytes_that_the_broker_wrote(evidence_of_release: Evidence) -> None:
    """encode(decode(bytes)) == bytes for every record of the topic."""
    for stored in evidence_of_release.uncommitted.values():
        assert encode_record(decode_record(stored.key, stored.value)) == (stored.key, stored.value)


def test_every_version_of_every_type_is_printed_as_the_tool_prints_it(broker_4_4: LocalBroker) -> None:
    """Our encoding of each readable version, filled and bare, is read by the classes of 4.4, which know all fields,
    with the values we put in."""
    samples.produce(broker_4_4.bootstrap_servers)
    expected = [json.dumps(to_json_form(sample)) for sample in samples.all_samples()]
    printed = oracle.dump(broker_4_4, samples.TOPIC)
    assert [dump_text(each) for _, each in sorted(printed.items())] == expected


@pytest.mark.parametrize(
    ("formatter", "record_type"),
    [("OffsetsMessageFormatter", "offset_commit"), ("GroupMetadataMessageFormatter", "group_metadata")],
)
def test_records_are_printed_as_the_console_formatters_print_them(
    formatter: str, record_type: str, evidence_of_release: Evidence
) -> None:
    """The console consumer prints the same records, with numbers for type and version and members' bytes as base64.

    It prints no positions, and others may write meanwhile: all that was there before, and nothing that is not there
    after.
    """
    printed = Counter(
        text(each["key"], each["value"]) for each in oracle.console_format(evidence_of_release.broker, formatter)
    )

    def ours(records: dict[Position, Stored]) -> Counter[str]:
        return Counter(console_form(each) for each in decoded(records.values()) if each.record_type == record_type)

    before = ours(evidence_of_release.uncommitted)
    assert before
    assert not before - printed
    assert not printed - ours(oracle.read_topic(evidence_of_release.broker, OFFSETS_TOPIC, "read_uncommitted"))


def console_form(record: Record) -> str:
    definition = RECORD_TYPE_BY_NAME[record.record_type]
    key = {"type": definition.id, "data": fields_to_json_form(definition.key, record.key, 0)}
    if record.value is None or record.value_version is None:
        return text(key, None)
    data = fields_to_json_form(definition.value.fields, record.value, record.value_version)
    return text(key, {"version": record.value_version, "data": data})


def test_aborted_commits_are_in_the_log_and_not_committed(evidence_of_release: Evidence) -> None:
    """The aborted transaction's commits are read uncommitted and dumped; read committed shows the other one's only."""

    def transactional(source: dict[Position, Stored]) -> Counter[int]:
        return Counter(
            record.value["offset"]
            for record in decoded(source.values())
            if record.key["group_id"] == "transactional" and record.value and "offset" in record.value
        )

    both = {history.TRANSACTION_COMMITTED: history.PARTITIONS, history.TRANSACTION_ABORTED: history.PARTITIONS}
    assert transactional(evidence_of_release.uncommitted) == both
    assert transactional(evidence_of_release.committed) == {history.TRANSACTION_COMMITTED: history.PARTITIONS}
    hidden = evidence_of_release.uncommitted.keys() - evidence_of_release.committed.keys()
    assert len(hidden) == history.PARTITIONS
    batches = [evidence_of_release.printed[position] for position in evidence_of_release.uncommitted]
    assert all(evidence_of_release.printed[position].is_transactional for position in hidden)
    assert all(batch.is_transactional == (batch.producer_id >= 0) for batch in batches)


def test_control_records_are_read_as_the_tool_reads_them(evidence_of_release: Evidence) -> None:
    """The markers of both transactions, which only the segments show."""
    printed = {
        position: EndTransaction(record.marker == "COMMIT", record.coordinator_epoch)
        for position, record in evidence_of_release.printed.items()
        if record.marker and record.coordinator_epoch is not None
    }
    assert [marker.committed for _, marker in sorted(printed.items())] == [True, False]
    assert {
        position: decode_end_transaction(stored.key, stored.value or b"")
        for position, stored in evidence_of_release.control.items()
    } == printed


def test_tagged_fields_are_among_the_history(evidence_of_release: Evidence) -> None:
    """The Java client's commits carry the topic's id, and a classic member in a KIP-848 group its classic metadata."""
    values: dict[str, list[dict[str, Any]]] = {}
    for record in decoded(evidence_of_release.uncommitted.values()):
        values.setdefault(record.record_type, []).append(record.value or {})
    assert any(value.get("topic_id", "A" * 22) != "A" * 22 for value in values["offset_commit"])
    assert any(value.get("classic_member_metadata") for value in values["consumer_group_member_metadata"])
    assert any(value.get("metadata_hash") for value in values["consumer_group_metadata"])


def test_the_fields_of_4_3_are_among_the_history_of_4_4(evidence_4_4: Evidence) -> None:
    """The time of a target assignment, and the epoch in which a partition came to its member, in every type that has
    them; no tagged field is left that we do not know."""
    timed, with_epochs = set(), set()
    for record in decoded(evidence_4_4.uncommitted.values()):
        value = record.value or {}
        assert UNKNOWN_TAGGED_FIELDS not in repr(value)
        if value.get("assignment_timestamp_ms"):
            timed.add(record.record_type)
        if any(
            topic["assignment_epochs"] for topic in value.get("assigned_partitions", ()) if "assignment_epochs" in topic
        ):
            with_epochs.add(record.record_type)
    assert timed == {f"{each}_group_target_assignment_metadata" for each in ("consumer", "share", "streams")}
    assert with_epochs == {"consumer_group_current_member_assignment"}


def test_members_of_every_protocol_are_among_the_history(evidence_of_release: Evidence) -> None:
    """As the tool prints them: sticky user data, owned partitions, a rack of version 3; a replaced static member."""
    generations: dict[str, list[dict[str, Any]]] = {}
    for _, printed in sorted(evidence_of_release.printed.items()):
        if printed.key and printed.key["type"] == "2" and printed.payload:
            generations.setdefault(printed.key["data"]["group"], []).append(printed.payload["data"])

    def subscriptions(group: str) -> list[dict[str, Any]]:
        return [member["subscription"] for each in generations[group] for member in each["members"]]

    assert any(subscription["userData"] for subscription in subscriptions("sticky"))
    assert any(subscription["ownedPartitions"] for subscription in subscriptions("cooperative"))
    assert all("rackId" in subscription for subscription in subscriptions("java"))
    replaced = [
        (before, after)
        for before, after in itertools.pairwise(generations["static"])
        if before["generation"] == after["generation"]
    ]
    assert len(replaced) == 1
    before, after = (
        {member["groupInstanceId"]: member["memberId"] for member in each["members"]} for each in replaced[0]
    )
    assert before.keys() == after.keys() == {"instance-0", "instance-1"}
    assert before["instance-0"] != after["instance-0"]
    assert before["instance-1"] == after["instance-1"]
