"""Finds commits that retention will overtake soon, while the records that wait after them can still be read.

The forecast is that of `groupledger forecast` (`transforms.lag.rules.forecast`), made from the last known round. A
commit is reported as long as the forecast holds; after that, the next search drops the incident. Nothing is reported

- for a commit in the newer half of its log, which has more time left than it has used up, or if no record waits after
  the commit;
- if retention approaches so slowly that it may never reach the commit, unless the group makes no progress at all;
- if nothing can be known, because there are too few rounds, or because the start of the log has not moved often enough.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.kinds.incidents import RETENTION_OVERTAKES
from groupledger.schemas.words import Evidence
from groupledger.transforms.incidents.rules.facts import MARKER_OFFSETS
from groupledger.transforms.incidents.rules.proof import Proof
from groupledger.transforms.incidents.rules.sighting import Sighting
from groupledger.transforms.lag.rules.forecast import PACE_S, STANDING, STANDSTILL, drift, overtaken, pace_of_start

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from groupledger.schemas.kafka.topic_partition import TopicPartition
    from groupledger.transforms.incidents.rules.facts import LagRound, Rules
    from groupledger.transforms.incidents.rules.group_facts import GroupFacts


def retention_ahead(facts: GroupFacts, rules: Rules) -> Iterator[Sighting]:
    """Yields one sighting of all partitions of a group whose commits retention will overtake within
    `expires_soon_ms`."""
    of_places: defaultdict[TopicPartition, list[LagRound]] = defaultdict(list)
    for each in facts.lag_rounds:
        of_places[each.place].append(each)
    soon: list[tuple[int, Sequence[LagRound]]] = []
    for rounds in of_places.values():
        rounds.sort(key=lambda each: each.sampled_at_ms)
        left_s = _left_s(rounds)
        if left_s is not None and left_s * 1_000 <= rules.expires_soon_ms:
            soon.append((rounds[-1].sampled_at_ms + round(left_s * 1_000), rounds))
    if not soon:
        return
    lasts = [rounds[-1] for _, rounds in soon]
    waiting = sum(each.lag or 0 for each in lasts)
    begins_at = instant_of_ms(min(at_ms for at_ms, _ in soon))
    first = min(lasts, key=lambda each: each.place)
    yield Sighting(
        kind=RETENTION_OVERTAKES,
        evidence=Evidence.INFERRED,
        severity=RETENTION_OVERTAKES.severity,
        confidence=RETENTION_OVERTAKES.confidence,
        first_ms=min(_near_since_ms(rounds) for _, rounds in soon),
        last_ms=max(each.sampled_at_ms for each in lasts),
        happening=f"{first.topic}/{first.partition}",
        proofs=tuple(
            Proof("lag", f"{each.sampled_at_ms}/{facts.group_id}/{each.topic}/{each.partition}") for each in lasts
        ),
        offsets=tuple(sorted((each.place, each.committed_offset) for each in lasts)),
        detail=f"from about {begins_at:%Y-%m-%d %H:%M} UTC on, and {waiting:,} records wait there",
    )


def is_near(each: LagRound) -> bool:
    """Returns whether a commit lies in the older half of its log, with records to read."""
    if each.committed_offset is None or each.log_start_offset is None or each.lag is None:
        return False
    return 0 <= each.committed_offset - each.log_start_offset <= each.lag and each.lag > MARKER_OFFSETS


def _near_since_ms(rounds: Sequence[LagRound]) -> int:
    """Returns since when a commit is near the start of its log, as far as rounds are given."""
    since_ms = rounds[-1].sampled_at_ms
    for each in reversed(rounds):
        if not is_near(each):
            break
        since_ms = each.sampled_at_ms
    return since_ms


def _left_s(rounds: Sequence[LagRound]) -> float | None:
    """Returns in how many seconds retention overtakes the commit; None if it does not, or nobody knows."""
    now = rounds[-1]
    if not is_near(now) or now.committed_offset is None or now.log_start_offset is None:
        return None
    recent = [each for each in rounds if now.sampled_at_ms - each.sampled_at_ms < PACE_S * 1_000]
    stands = now.status in STANDING
    consumed = STANDSTILL if stands else drift(_points(recent, "committed_offset"))
    start = pace_of_start(_points(recent, "log_start_offset"), _points(rounds, "log_start_offset"))
    if consumed is None or start is None:
        return None
    found = overtaken(now.committed_offset - now.log_start_offset, consumed, start)
    return found.seconds if found is not None and (stands or found.latest is not None) else None


def _points(rounds: Sequence[LagRound], name: str) -> list[tuple[float, float]]:
    """Returns what the rounds saw of one number, since it was last not known."""
    found: list[tuple[float, float]] = []
    for each in rounds:
        value: int | None = getattr(each, name)
        found = [] if value is None else [*found, (each.sampled_at_ms / 1_000, float(value))]
    return found
