"""Asks the reference coordinator for the answers that the log lacks.

The replay is fed with a group's requests in the order of their arrival, and with the group's records, which are the
truth. A record that the replay would not have written (a line is missing, or a setting of the broker differs) replaces
what the replay believes. A record that it has written changes nothing, even if the replay has taken in further requests
since, because a record is read after the requests of its millisecond. Between two records the replay can miss changes:
a request for a later generation than the replay knows proves that, and until the next record the replay claims nothing.
It never claims anything about a member whose joining it has not seen. If a member joins with an id that nobody has
used, the replay assumes that the broker gave it that id. A request that a broker turned away, because it was not the
coordinator, never happened.

An answer is ambiguous if another order of tied arrivals (`arrivals`), or of a timer that is due with them, gives
another one.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections import Counter, deque
from copy import deepcopy
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.groups.classic.states import State
from groupledger.coordinator.model.messages import JoinGroupResponse
from groupledger.coordinator.model.operation import Batch
from groupledger.schemas.codec.records import Record
from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kinds.incidents import KIND_OF_ERROR
from groupledger.schemas.words import CoordinatorEventKind, Evidence
from groupledger.transforms.incidents.rules.arrivals import end_of_tie, in_order_of_arrival
from groupledger.transforms.incidents.rules.facts import COORDINATOR_AWAY
from groupledger.transforms.incidents.rules.observed import refusals
from groupledger.transforms.incidents.rules.requests_again import (
    coordinator_request,
    first_join,
    new_member_ids,
    uuid_in,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from groupledger.coordinator.model.groups.classic.group import Group
    from groupledger.coordinator.model.operation import Result
    from groupledger.transforms.incidents.rules.facts import GroupState, Request
    from groupledger.transforms.incidents.rules.group_facts import GroupFacts
    from groupledger.transforms.incidents.rules.sighting import Sighting

CONFIDENCE = 0.9  # measured by bench.incident_accuracy, and rounded down
# A client that learns that it is no member stops its heartbeats: if it goes on, it did not learn so, and its commits in
# that generation were not refused.
REFUSED_BEATS_MAX = 3
_ORDER_MATTERS = (ApiKey.JOIN_GROUP.name, ApiKey.SYNC_GROUP.name, ApiKey.LEAVE_GROUP.name)
_INT32_MAX = (1 << 31) - 1
_CONFIG = Config(
    offsets_topic_num_partitions=1,
    group_min_session_timeout_ms=0,
    group_max_session_timeout_ms=_INT32_MAX,
    offset_metadata_max_bytes=_INT32_MAX,
    offsets_retention_ms=_INT32_MAX,
)


def replayed(facts: GroupFacts) -> Iterator[Sighting]:
    """Yields the refusals among the requests whose answer the log lacks."""
    if all(request.error_code is not None for request in facts.requests):
        return
    replay = Replay(facts)
    replay.run()
    refused_beats = Counter(
        _tenure(request)
        for request, error, _ in replay.answers
        if request.api == ApiKey.HEARTBEAT.name and is_refusal(error)
    )
    for request, error, is_ambiguous in replay.answers:
        goes_on = refused_beats[_tenure(request)] > REFUSED_BEATS_MAX
        if request.error_code is None and not goes_on:
            for sighting in refusals(request, int(error), Evidence.REPLAYED, is_ambiguous=is_ambiguous):
                yield replace(sighting, confidence=CONFIDENCE / 2 if is_ambiguous else CONFIDENCE)


@dataclass(slots=True)
class _Belief:
    """The state of the group that the replay assumes.

    Requests are known by their number. `pending` are not answered yet. `sure_of` are those that were made while the
    replay had missed nothing. `written` are the records that the replay has written since the group's last record.
    """

    coordinator: Coordinator
    pending: dict[int, Request] = field(default_factory=dict)
    sure_of: set[int] = field(default_factory=set)
    written: list[tuple[int, frozenset[str]] | None] = field(default_factory=list)
    is_behind: bool = False
    now_ms: int = 0


def _tenure(request: Request) -> tuple[str | None, int | None]:
    return request.member_id, request.generation


class Replay:
    """Replays the requests of one group. `answers` has the answers that the replay is sure of, in the order in which
    they were given: the request, the error, and whether the answer is ambiguous."""

    def __init__(self, facts: GroupFacts, initial_rebalance_delay_ms: int = 3_000) -> None:
        """Takes the broker's group.initial.rebalance.delay.ms; where it is wrong, records put the replay right."""
        self.answers: list[tuple[Request, Error, bool]] = []
        arrived = in_order_of_arrival(facts.requests)
        self._requests = [request for request in arrived if request.error_code not in COORDINATOR_AWAY]
        self._records = deque(sorted(facts.records, key=attrgetter("kafka_offset")))
        loads = (event for event in facts.events if event.kind == CoordinatorEventKind.GROUP_LOADED)
        self._loads_ms = deque(sorted(event.logged_at_ms for event in loads))
        self._new_ids = new_member_ids(self._requests)
        self._first_use = _first_uses(arrived)
        config = replace(_CONFIG, group_initial_rebalance_delay_ms=initial_rebalance_delay_ms)
        self._belief = _Belief(Coordinator(config))
        self._group_id = facts.group_id or ""
        self._last: GroupState | None = None
        self._joined: set[str] = set()  # ids that were members' at some time

    def run(self) -> None:
        if not self._requests:
            return
        begin_ms = self._requests[0].happened_at_ms
        while self._records and self._records[0].at_ms < begin_ms:
            self._last = self._records.popleft()
        self._load(begin_ms)
        number = 0
        while number < len(self._requests):
            end = end_of_tie(self._requests, number)
            self._catch_up(self._requests[number].happened_at_ms)
            self._tie(range(number, end))
            number = end
        self._catch_up(self._requests[-1].happened_at_ms + 1)

    # What is known

    def _catch_up(self, now_ms: int) -> None:
        """Takes in the records and failovers up to now."""
        while self._records and self._records[0].at_ms < now_ms:
            record = self._records.popleft()
            self._take(self._belief.coordinator.advance(self._time(record.at_ms)))
            self._last = record
            if not self._agrees(record):
                self._load(self._time(record.at_ms))
            self._belief.is_behind = False
        while self._loads_ms and self._loads_ms[0] < now_ms:
            self._load(self._time(self._loads_ms.popleft()))
        self._take(self._belief.coordinator.advance(self._time(now_ms)))

    def _time(self, at_ms: int) -> int:
        """Returns an instant that is not before the last one: the clocks of logs and records need not agree."""
        self._belief.now_ms = max(self._belief.now_ms, at_ms)
        return self._belief.now_ms

    def _agrees(self, record: GroupState) -> bool:
        """Returns whether the replay's group is where the record has it, or on its way from there."""
        written = None if record.record_json is None else _generation_and_members(json.loads(record.record_json))
        if written in self._belief.written:
            del self._belief.written[: self._belief.written.index(written) + 1]
            return True
        group = self._belief.coordinator.group(self._group_id)
        if written is None or group is None:
            return written is None and group is None
        is_settled = group.state in (State.STABLE, State.EMPTY, State.PREPARING_REBALANCE)
        return is_settled and (group.generation_id, frozenset(group.members)) == written

    def _load(self, now_ms: int) -> None:
        log = []
        if self._last is not None and self._last.record_json is not None:
            log = [
                Batch(
                    partition=0,
                    base_offset=0,
                    timestamp_ms=self._last.at_ms,
                    records=(_record(self._group_id, self._last.record_json),),
                )
            ]
        self._take(self._belief.coordinator.load(0, log, now_ms=self._time(now_ms)))
        self._belief.written.clear()
        self._belief.sure_of.clear()  # nobody answers the requests that waited there
        self._note_members()

    def _note_members(self) -> None:
        group = self._belief.coordinator.group(self._group_id)
        if group is not None:
            self._joined.update(group.members)

    # What is asked

    def _tie(self, numbers: range) -> None:
        """Asks in the log's order, and once more in another one, in which each connection keeps its own order and a
        timer
        fires before the requests of its millisecond."""
        connections = dict.fromkeys(self._requests[number].connection_id for number in numbers)
        is_open = len(connections) > 1 and any(self._requests[number].api in _ORDER_MATTERS for number in numbers)
        then_ms = self._requests[numbers[-1]].happened_at_ms + 1
        is_due = (self._belief.coordinator.next_deadline_ms() or then_ms + 1) <= then_ms
        before = deepcopy(self._belief) if is_open or is_due else None
        first = len(self.answers)
        for number in numbers:
            self._ask(number)
        if before is None:
            return
        first_order, after = self.answers[first:], self._belief
        self._belief = before
        if is_due:
            self._take(before.coordinator.advance(self._time(then_ms)))
        for connection_id in reversed(connections):
            for number in numbers:
                if self._requests[number].connection_id == connection_id:
                    self._ask(number)
        otherwise = {_place(request): error for request, error, _ in self.answers[first + len(first_order) :]}
        self._belief = after
        self.answers[first:] = [
            (request, error, otherwise.get(_place(request), error) != error) for request, error, _ in first_order
        ]

    def _ask(self, number: int) -> None:
        request = self._requests[number]
        now_ms = self._time(request.happened_at_ms)
        self._take(self._belief.coordinator.advance(now_ms))
        group = self._belief.coordinator.group(self._group_id)
        claimed = request.generation
        if claimed is not None and claimed > (0 if group is None else group.generation_id):
            self._belief.is_behind = True
        if group is not None and self._has_synced(request, group):
            self._load(now_ms)
        uuid = self._uuid(number, request)
        if uuid is None:
            return
        made = coordinator_request(request, number, uuid)
        if made is None:
            return
        self._introduce(request, number)
        self._belief.pending[number] = request
        is_stranger = (
            request.api != ApiKey.JOIN_GROUP.name and bool(request.member_id) and request.member_id not in self._joined
        )
        if not self._belief.is_behind and not is_stranger:
            self._belief.sure_of.add(number)
        self._take(self._belief.coordinator.handle(made, now_ms=now_ms))
        if request.api == ApiKey.JOIN_GROUP.name:
            self._note_members()

    @staticmethod
    def _has_synced(request: Request, group: Group) -> bool:
        """Returns whether a member goes on in a generation that it has not synced: the line of its sync is missing."""
        return (
            request.api in (ApiKey.HEARTBEAT.name, ApiKey.OFFSET_COMMIT.name)
            and group.state is State.STABLE
            and request.generation == group.generation_id
            and (request.member_id or "") in group.pending_sync_members
        )

    def _uuid(self, number: int, request: Request) -> str | None:
        """Returns the UUID for the request's new member; None if nobody ever hears of that member again."""
        if request.api != ApiKey.JOIN_GROUP.name or request.member_id:
            return ""
        member_id = self._new_ids.get(number)
        return None if member_id is None else uuid_in(member_id, request)

    def _introduce(self, request: Request, number: int) -> None:
        """Makes the join that gave a member its id, if it joins with an id that is new: that line is missing."""
        member_id = request.member_id
        if request.api != ApiKey.JOIN_GROUP.name or not member_id or self._first_use.get(member_id) is not request:
            return
        group = self._belief.coordinator.group(self._group_id)
        is_known = group is not None and (member_id in group.members or member_id in group.pending_join_members)
        uuid = uuid_in(member_id, request)
        if is_known or uuid is None:
            return
        made = first_join(request, -1 - number, uuid)
        if made is not None:
            self._take(self._belief.coordinator.handle(made, now_ms=self._belief.now_ms))

    def _take(self, result: Result) -> None:
        self._belief.written += [
            None if record.value is None else _generation_and_members(record.value)
            for record in result.records
            if record.record_type == "group_metadata"
        ]
        for response in result.responses:
            request = self._belief.pending.pop(response.request_id, None)
            if request is None or response.request_id not in self._belief.sure_of:
                continue
            self._belief.sure_of.discard(response.request_id)
            self.answers.append((request, error_of(response), False))


def _generation_and_members(value: Mapping[str, Any]) -> tuple[int, frozenset[str]]:
    """Returns the generation and members in a group's record, which the replay is compared with."""
    return value["generation"], frozenset(each["member_id"] for each in value["members"])


def is_refusal(error: Error) -> bool:
    return int(error) in KIND_OF_ERROR


def error_of(response: Any) -> Error:
    """Returns the error of a response, or else the first error among its partitions or members, as in
    `requests.error_code`."""
    own: Error = getattr(response, "error", Error.NONE)
    if own is not Error.NONE:
        return own
    rows = getattr(response, "partitions", ())
    if not isinstance(response, JoinGroupResponse):
        rows = (*rows, *getattr(response, "members", ()))
    return next((row.error for row in rows if row.error), Error.NONE)


def _place(request: Request) -> tuple[str, int]:
    return request.source_file, request.line_number


def _first_uses(requests: Iterable[Request]) -> dict[str, Request]:
    """Returns the first request that names each member id."""
    found: dict[str, Request] = {}
    for request in requests:
        for member_id in (request.member_id, *(each.member_id for each in request.leaving)):
            if member_id:
                found.setdefault(member_id, request)
    return found


def _record(group_id: str, record_json: str) -> Record:
    value = json.loads(record_json)
    members = [
        {**each, "subscription": b64decode(each["subscription"]), "assignment": b64decode(each["assignment"])}
        for each in value["members"]
    ]
    return Record("group_metadata", {"group_id": group_id}, 3, {**value, "members": members})
