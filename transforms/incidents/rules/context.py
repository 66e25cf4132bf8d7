"""Completes sightings by the history and the logs: who a member is, and which generation there was.

A generation is in force from the end of its join phase. Its record has that instant (`current_state_at`), and the
answers to JoinGroup show that instant even if no record followed. Everything else about a member is in its tenure, or
in any of its requests.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.api_keys import JOINING_EPOCH, ApiKey
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.kinds.incidents import COMMITS, FENCED_INSTANCE, LEADER_NEVER_SYNCED
from groupledger.transforms.incidents.rules.facts import milliseconds
from groupledger.transforms.incidents.rules.inferred import of_member
from groupledger.transforms.lookups import InOrder, grouped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.transforms.incidents.rules.facts import Commit, Request
    from groupledger.transforms.incidents.rules.group_facts import GroupFacts
    from groupledger.transforms.incidents.rules.sighting import Sighting

    Row = dict[str, Any]


class Context:
    def __init__(self, facts: GroupFacts) -> None:
        self.facts = facts
        self._tenures: dict[str, Row] = {row["member_id"]: row for row in facts.members}
        self._speakers: dict[str, Request] = {}
        for request in facts.requests:
            for member_id in (request.member_id, request.response_member_id):
                if member_id:
                    self._speakers.setdefault(member_id, request)
        self._generations = sorted(_generation_times(facts), key=itemgetter(0))
        self._rebalances = {
            incarnation: InOrder(rows, itemgetter("to_generation"))
            for incarnation, rows in grouped(facts.rebalances, itemgetter("incarnation")).items()
        }
        self._owners = {(row["topic"], row["partition"]): row for row in facts.assignments if row["valid_to"] is None}
        self._commits: dict[TopicPartition, list[Commit]] = {}
        for commit in sorted(_commits(facts), key=lambda each: each.kafka_offset):
            self._commits.setdefault(commit.place, []).append(commit)
        self._passed_ms = {
            place: [*accumulate((each.at_ms for each in line), max)] for place, line in self._commits.items()
        }

    def completed(self, sighting: Sighting) -> Sighting:
        """Returns the sighting with the fields that were None filled in from history and logs."""
        tenure = self._tenures.get(sighting.member_id or "")
        speaker = self._speakers.get(sighting.member_id or "")
        known: dict[str, Any] = {}
        if speaker is not None:
            known |= {"client_id": speaker.client_id, "client_host": speaker.client_host}
            known |= {"group_instance_id": speaker.group_instance_id}
        if tenure is not None:
            known |= of_member(tenure)
        incarnation, generation = self.generation_at(sighting.first_ms)
        known.setdefault("incarnation", incarnation)
        known["current_generation"] = generation
        missing = {
            name: value for name, value in known.items() if value is not None and getattr(sighting, name) is None
        }
        return replace(sighting, **missing) if missing else sighting

    def generation_at(self, at_ms: int) -> tuple[int | None, int | None]:
        """Returns the incarnation and the generation in force at an instant."""
        number = bisect_right(self._generations, at_ms, key=itemgetter(0))
        return self._generations[number - 1][1:] if number else (None, None)

    def stale_since(self, sighting: Sighting) -> Row | None:
        """Returns the row of the rebalance that made the generation of a sighting's request outdated."""
        claimed = sighting.claimed_generation
        if claimed is None or claimed <= JOINING_EPOCH or sighting.kind == LEADER_NEVER_SYNCED:
            return None
        if sighting.kind.apis is not None and claimed == sighting.current_generation:
            return None  # it was refused for something else
        # A static member is replaced without a rebalance.
        newest = sighting.current_generation if sighting.kind == FENCED_INSTANCE else None
        of_incarnation = self._rebalances.get(sighting.incarnation)
        row = None if of_incarnation is None else of_incarnation.first_from(claimed + 1)
        return row if row is None or newest is None or row["to_generation"] <= newest else None

    def owner(self, place: TopicPartition) -> Row | None:
        """Returns the open ownership interval of a partition."""
        return self._owners.get(place)

    def accepted_before(self, place: TopicPartition, sighting: Sighting, stale_since: Row | None) -> int | None:
        """Returns the last offset that was committed in a partition before the rebalance in `stale_since`, or before
        the sighting if that is None. Returns None if there was no commit before."""
        line = self._commits.get(place, ())
        if stale_since is not None:
            end = bisect_right(line, stale_since["kafka_offset"], key=attrgetter("kafka_offset"))
        else:
            end = bisect_right(self._passed_ms[place], sighting.first_ms) if line else 0
        return line[end - 1].offset if end else None

    def newest_commit(self, place: TopicPartition) -> int | None:
        line = self._commits.get(place)
        return line[-1].offset if line else None


def _commits(facts: GroupFacts) -> Iterator[Commit]:
    """Yields the commits of partitions whose commits were refused. The last one before all that is read is in the step
    that it began."""
    yield from facts.commits
    refused = {
        TopicPartition(each.topic, each.partition)
        for request in facts.requests
        if request.api in COMMITS and request.error_code != Error.NONE.value
        for each in request.offsets
    }
    for step in facts.steps if refused else ():
        if step.commit.place in refused and step.commit.offset is not None:
            yield step.commit


def _generation_times(facts: GroupFacts) -> list[tuple[int, int | None, int]]:
    times = []
    incarnations = {}
    for row in facts.generations:
        at_us = row["started_at"] if row["revision"] else row["current_state_at"] or row["started_at"]
        times.append((milliseconds(at_us), row["incarnation"], row["generation"]))
        incarnations[row["generation"]] = row["incarnation"]
    for request in facts.requests:
        generation = request.response_generation
        has_joined = request.api == ApiKey.JOIN_GROUP.name and request.error_code == Error.NONE
        if has_joined and generation is not None and generation > 0:
            incarnation = incarnations.get(generation, incarnations.get(generation - 1))
            times.append((request.logged_at_ms, incarnation, generation))
    return times
