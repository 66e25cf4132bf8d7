"""The demo's traffic on a real broker: every turn of its plot can be read from `__consumer_offsets` afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.schemas.codec.records import Record, decode_record
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from lab.kafka import oracle
from lab.kafka.local_traffic import DELETED_GROUP, SIMPLE_GROUP, run_demo_traffic

if TYPE_CHECKING:
    from lab.kafka.local_broker import LocalBroker

SECONDS = 8


def test_plot_is_played(broker: LocalBroker) -> None:
    """Groups scale out and in, a static member restarts in its place, one group commits only, one is deleted."""
    run_demo_traffic(broker.bootstrap_servers, SECONDS)
    stored = oracle.read_topic(broker, OFFSETS_TOPIC, "read_committed")
    generations: dict[str, list[Record]] = {}
    committers = set()
    for _, each in sorted(stored.items()):
        record = decode_record(each.key, each.value)
        if record.record_type == "group_metadata":
            generations.setdefault(record.key["group_id"], []).append(record)
        elif record.record_type == "offset_commit":
            committers.add(record.key["group_id"])

    def sizes(group: str) -> list[int]:
        return [len(record.value["members"]) for record in generations[group] if record.value]

    assert {"checkout", "fraud", "billing", DELETED_GROUP, SIMPLE_GROUP} <= committers
    assert SIMPLE_GROUP not in generations
    assert max(sizes("checkout")) == 3
    assert max(sizes("fraud")) == 2
    assert [sizes(group)[-1] for group in ("checkout", "fraud", "billing")] == [0, 0, 2]
    assert generations[DELETED_GROUP][-1].value is None
    last, again = [record.value for record in generations["billing"] if record.value][-2:]
    assert last["generation"] == again["generation"]
    assert {member["group_instance_id"] for member in again["members"]} == {"billing-0", "billing-1"}
    assert last["members"] != again["members"]
