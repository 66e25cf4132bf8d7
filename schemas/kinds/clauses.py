"""What the ledger says of an incident is made of clauses, and a clause that claims something names the facts it needs.

A text includes a clause if all facts that the clause needs are known, and no fact that it excludes is known. A plain
string is a clause without conditions: it may claim only what is true of every incident of its kind.
`transforms.incidents.rules.known_facts` finds the facts. `tests/schemas/test_clauses.py` removes each fact, and then
the clause has to be absent, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

PARTITIONS = "{count} partitions"


class Fact:
    """The names of facts that may be known about an incident, in addition to its row."""

    CLASSIC_GROUP = "classic_group"  # consumers whose assignor is a setting
    COOPERATIVE = "cooperative"  # a classic group whose assignor is cooperative-sticky
    CONNECT_GROUP = "connect_group"  # workers of Kafka Connect
    CLASSIC_STREAMS_GROUP = "classic_streams_group"  # Kafka Streams by the classic protocol, which brings its assignor
    KAFKA_STREAMS = "kafka_streams"  # by either protocol
    CONSUMER_GROUP = "consumer_group"  # KIP-848
    SHARE_GROUP = "share_group"
    STREAMS_GROUP = "streams_group"
    STATIC_MEMBER = "static_member"
    INFERRED = "inferred"  # no line of a log shows it
    ONLY_LOGGED = "only_logged"  # a line of one broker's log says it, and no record confirms that
    WHOLE_CLUSTER = "whole_cluster"  # the row is about all groups that were hit
    OTHER_COORDINATOR = "other_coordinator"  # another broker had loaded the group before the one that spoke for it
    NOT_COORDINATOR = "not_coordinator"  # the one that spoke for the group got NOT_COORDINATOR as it wrote
    WAS_REMOVED = "was_removed"  # a record or a line shows that the group removed the member before
    NEW_OWNER = "new_owner"  # another member owns a partition of the refused commit
    LOG_IMPORTED = "log_imported"  # a server log has lines about the group around that time
    SAME_MEMBERS = "same_members"  # in most rebalances of the storm nobody came or went
    FOLLOW_UPS = "follow_ups"  # most rebalances of the storm only follow up another one
    LAST_MEMBER_KNOWN = "last_member_known"  # the tenures show who was in the group before it had no members
    LEFT_IN_ORDER = "left_in_order"  # the group's last members, or a member that came and went, left by itself
    LEFT_WITHOUT_A_WORD = "left_without_a_word"  # the session of one of the group's last members ran out
    AWAITS_ASSIGNMENT = "awaits_assignment"  # the coordinator waits for what the leader of the group has assigned
    AWAITS_MEMBERS = "awaits_members"  # the coordinator waits for members to rejoin
    COORDINATOR_FAILED = "coordinator_failed"  # the group lost its members in a fault of its coordinator
    ASSIGNOR_NAMED = "assignor_named"  # the refused request names an assignor of the brokers
    LEFT_UNPOLLED = "left_unpolled"  # one of the group's last members had not polled in time


MODERN_GROUP = (Fact.CONSUMER_GROUP, Fact.SHARE_GROUP, Fact.STREAMS_GROUP)


@dataclass(frozen=True, slots=True)
class Clause:
    """Holds a clause of a text. The text includes it only if all facts in `needs` are known, and no fact in `excludes`
    is."""

    text: str
    needs: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()

    def holds(self, facts: Collection[str]) -> bool:
        return all(fact in facts for fact in self.needs) and not any(fact in facts for fact in self.excludes)


Text = str | tuple[str | Clause, ...]


def clauses_of(text: Text) -> tuple[Clause, ...]:
    """Returns a text's clauses, in their order."""
    parts = (text,) if isinstance(text, str) else text
    return tuple(Clause(part) if isinstance(part, str) else part for part in parts)


def said(text: Text, facts: Collection[str]) -> str:
    """Returns the clauses of a text that hold for the known facts, joined."""
    return "".join(clause.text for clause in clauses_of(text) if clause.holds(facts))


def filled(text: Text, facts: Collection[str], names: Mapping[str, object]) -> str:
    """Returns the clauses of a text whose facts are known, with the values of its placeholders."""
    found = said(text, facts)
    return (found.replace(PARTITIONS, PARTITIONS[:-1]) if names.get("count") == "1" else found).format(**names)


def settings_of(settings: Iterable[str | Clause], facts: Collection[str]) -> tuple[str, ...]:
    """Returns the names of the settings whose clauses hold for the known facts."""
    return tuple(clause.text for clause in clauses_of(tuple(settings)) if clause.holds(facts))
