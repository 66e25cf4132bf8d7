"""Determines which refusals a client recovers from at once, so that nothing was stopped, lost or repeated.

A commit of a consumer or streams group is refused with STALE_MEMBER_EPOCH when the epoch rose on its way. The member
learns of the new epoch by its next heartbeat and commits again: the same partitions, as far or farther. If a commit as
far or farther was accepted just before the refusal, nothing was lost either, and the lines may have been written out of
order (`arrivals`). A static member that crashed and is started again is refused with UNRELEASED_INSTANCE_ID until the
session of its old process ends; then the instance, under whatever member id, may join. A refusal from which the client
may still recover is not reported yet.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING

from groupledger.schemas.kafka.api_keys import JOINING_EPOCH
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kinds.incidents import COMMITS, kind_of_refusal
from groupledger.transforms.incidents.rules.facts import EPOCH_HEARTBEAT_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from groupledger.transforms.incidents.rules.facts import Request

_AT = itemgetter(0)
SOONEST_MS = 50
"""A client that was refused asks again after its retry.backoff.ms, 100 ms. A join that seems to come sooner came
before: the times of a busy broker are some milliseconds off."""


class Answered:
    """Knows what was accepted: commits by member and partition, and the joins of static members by instance id."""

    def __init__(self, requests: Iterable[Request], as_of_ms: int) -> None:
        self._as_of_ms = as_of_ms
        self._commits: dict[tuple[str | None, str, int], list[tuple[int, int]]] = defaultdict(list)
        self._joins: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for request in sorted(requests, key=lambda each: each.happened_at_us):
            at_ms = request.happened_at_ms
            if request.api in COMMITS:
                for each in request.offsets:
                    if each.error_code == Error.NONE:
                        self._commits[request.member_id, each.topic, each.partition].append((at_ms, each.offset))
            elif is_accepted_join(request) and request.group_instance_id is not None:
                self._joins[request.group_instance_id].append((at_ms, 0))

    def is_recovered_from(self, request: Request) -> bool:
        """Returns whether the client recovered from a refusal in the time that its kind allows, or still may
        recover."""
        kind = kind_of_refusal(request.api, request.error_code or Error.NONE.value)
        if kind is None or kind.recovers_within_ms is None:
            return False
        begin_ms, end_ms = request.happened_at_ms, request.happened_at_ms + kind.recovers_within_ms
        if self._as_of_ms < end_ms:
            return True
        if request.api not in COMMITS:
            return _comes(self._joins.get(request.group_instance_id or "", ()), begin_ms + SOONEST_MS, end_ms, 0)
        who, begin_ms = request.member_id, begin_ms - kind.recovers_within_ms
        refused = [each for each in request.offsets if each.error_code == kind.error_code]
        return bool(refused) and all(
            _comes(self._commits.get((who, each.topic, each.partition), ()), begin_ms, end_ms, each.offset)
            for each in refused
        )


def is_accepted_join(request: Request) -> bool:
    """Returns whether a member joined a consumer, share or streams group by the request."""
    is_join = request.api in EPOCH_HEARTBEAT_NAMES and request.generation == JOINING_EPOCH
    return is_join and request.error_code == Error.NONE


def _comes(line: Sequence[tuple[int, int]], begin_ms: int, end_ms: int, least: int) -> bool:
    """Returns whether something at least so great lies in a time; `line` is in order of time."""
    for number in range(bisect_left(line, begin_ms, key=_AT), len(line)):
        at_ms, value = line[number]
        if at_ms > end_ms:
            return False
        if value >= least:
            return True
    return False
