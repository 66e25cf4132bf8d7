"""Finds the facts about a group's type, for the texts of incidents and of diagnoses alike.

Advice has to fit the type. Among classic groups it also has to fit Kafka Connect and Kafka Streams, which have settings
of their own. This lies beside the rules of incidents, since a question that only diagnoses should not import them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.names import COOPERATIVE_PROTOCOL, STREAMS_PROTOCOL
from groupledger.schemas.kinds.clauses import Fact
from groupledger.schemas.words import GroupType
from groupledger.transforms.history.rules.events import CONNECT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Row = Mapping[str, Any]

FACT_OF_TYPE = {
    GroupType.CLASSIC: Fact.CLASSIC_GROUP,
    GroupType.CONSUMER: Fact.CONSUMER_GROUP,
    GroupType.SHARE: Fact.SHARE_GROUP,
    GroupType.STREAMS: Fact.STREAMS_GROUP,
}


def facts_of_type(group_type: str | None, generation: Row) -> Iterator[str]:
    """Yields the facts about a group's type, and about its protocol in a generation (empty if none is known)."""
    fact = FACT_OF_TYPE.get(group_type or "")
    if fact == Fact.CLASSIC_GROUP and generation.get("protocol_type") == CONNECT:
        fact = Fact.CONNECT_GROUP
    elif fact == Fact.CLASSIC_GROUP and generation.get("protocol") == STREAMS_PROTOCOL:
        fact = Fact.CLASSIC_STREAMS_GROUP
    elif fact == Fact.CLASSIC_GROUP and generation.get("protocol") == COOPERATIVE_PROTOCOL:
        yield Fact.COOPERATIVE
    if fact in {Fact.STREAMS_GROUP, Fact.CLASSIC_STREAMS_GROUP}:
        yield Fact.KAFKA_STREAMS
    if fact is not None:
        yield fact
