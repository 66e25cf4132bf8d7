"""Turns a ledger's rows about a group's members into a script that can be simulated under any setting.

A ledger knows tenures: from the record of the first generation with a member to that of the first one without it. The
process of a member started and ended somewhat before these records, and after a restart it is another member. So:

- Two tenures count as those of one process if instance id, or else host and client id, are the same, and the second
  began within `RESTART_MS` of the end of the first. If hosts change with every start (containers), nothing proves that.
  So half of the scripts are drawn `loosely`: then any tenure may follow any other that ended shortly before, and a
  static member that fell silent may have closed in order.
- A record is written when a rebalance ends, for which all members have to hear of it by their next heartbeats. The
  cause is earlier by about that time, which is drawn at random. A member that was removed had been silent for its
  session.
- How a dynamic member left is often inferred, with a doubt: the record is the same whether it left or fell silent. A
  run draws how often the guesses are wrong, between never and twice as often as their doubts say, since the processes
  of one application close alike. A guess is not doubted if the process was back within a session of its end, because
  restarts are mostly shorter than a session.
- Long times in which nothing happens are shortened, but only after all effects of the events before have ended.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from groupledger.coordinator.protocols.script import Event, Script
from groupledger.coordinator.simulator.random_source import RandomSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from groupledger.coordinator.what_if.setting import Setting

RESTART_MS: Final = 300_000
SETTLES_MS: Final = 60_000  # what a script leaves for the group as it was before the first event
METADATA_MAX_AGE_MS: Final = 300_000
TOGETHER_MS: Final = 300  # what one round brought together is drawn so close together
FASTEST_RESTART_MS: Final = 500
ENDS_MS: Final = 30_000  # the rounds after a session has ended
RECORDS_PER_SECOND: Final = 1_000  # in a script; what is counted is scaled to the real rate

LEFT: Final = "left"
SILENT: Final = "silent"
REPLACED: Final = "replaced"
TOO_SLOW: Final = "too_slow"
PAUSED: Final = "paused"
OTHERWISE: Final = {LEFT: SILENT, SILENT: LEFT}
MILLION: Final = 1_000_000
GOES_ON: Final = frozenset({TOO_SLOW, PAUSED})
# Ends that a longer or shorter session, or poll interval, might have changed.
RESTS_ON_TIMES: Final = {SILENT: "session_ms", TOO_SLOW: "max_poll_interval_ms"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """One membership as the ledger has it. `joined_ms` and `left_ms` are times of records, or None if they lie outside
    the window.

    `end` says how it ended: LEFT, SILENT, REPLACED (by a member with its instance id), TOO_SLOW, or PAUSED if requests
    show that the member was heard again later; it is empty while the membership lasts. `doubt` is the probability that
    the member left although `end` is SILENT, or the reverse.
    """

    member_id: str
    joined_ms: int | None
    left_ms: int | None
    end: str = ""
    doubt: float = 0.0
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True)
class TopicGrowth:
    """A topic had `partitions` partitions at `at_ms`, as a record of the group shows."""

    at_ms: int
    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class MemberSilence:
    """A time between two requests of a member in which it sent nothing."""

    member_id: str
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The history of a group between two instants. `births` is the number of first generations, which do not count as
    rebalances. `records_per_second` is the rate of one partition, or None if it is unknown. `silences` has those that
    are longer than some heartbeats; it is None if there is no request log."""

    actual: Setting
    tenures: tuple[Tenure, ...]
    topics: tuple[tuple[str, int], ...]
    growths: tuple[TopicGrowth, ...] = ()
    births: int = 0
    records_per_second: float | None = None
    silences: tuple[MemberSilence, ...] | None = None


@dataclass(slots=True)
class _Span:
    """One time that a process was up, in ms of the ledger; None beyond the window."""

    tenure: Tenure
    start_ms: int | None
    end_ms: int | None


@dataclass(slots=True)
class _Process:
    spans: list[_Span] = field(default_factory=list)


def script(workload: Workload, seed: int, longest_ms: int, *, loosely: bool) -> Script | None:
    """Returns one of the scripts that fit the ledger's rows. Returns None if they have no event. `longest_ms` is the
    longest session timeout or poll interval of the settings that will be simulated. `loosely` lets tenures follow each
    other without proof (see the module)."""
    random = RandomSource("what-if", seed)
    tenures = _as_they_may_have_ended(workload.tenures, workload.actual.session_ms, random)
    workload = replace(workload, tenures=tenures)
    processes = _processes(_spans(workload, random), loosely=loosely)
    names = _names(processes, random)
    events: list[Event] = []
    at_start = []
    silences: dict[str, list[MemberSilence]] = defaultdict(list)
    for silence in workload.silences or ():
        silences[silence.member_id].append(silence)
    for process, name in zip(processes, names, strict=True):
        for span in process.spans:
            events += _pauses(silences[span.tenure.member_id], name, workload.actual, random)
        events += _events(process, name, workload.actual, loosely=loosely)
        at_start += [name] if process.spans[0].start_ms is None else []
    events += [
        Event(
            at_ms=growth.at_ms - random.between(0, METADATA_MAX_AGE_MS),
            action="grow",
            topic=growth.topic,
            partitions=growth.partitions,
        )
        for growth in workload.growths
    ]
    if not events:
        return None
    events.sort(key=lambda each: each.at_ms)
    shortened = _without_long_quiet(events, longest_ms)
    return Script(
        name="what-if",
        topics=workload.topics,
        members_at_start=tuple(sorted(at_start)),
        events=tuple(shortened),
        until_ms=shortened[-1].at_ms + _lasts_ms(events[-1], longest_ms),
        records_per_second=RECORDS_PER_SECOND,
    )


def _as_they_may_have_ended(tenures: Sequence[Tenure], session_ms: int, random: RandomSource) -> tuple[Tenure, ...]:
    wrong = 2 * random.between(0, MILLION) / MILLION
    joins: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for each in tenures:
        joins[_identity(each)].append(each.joined_ms or 0)

    def drawn(tenure: Tenure) -> Tenure:
        if not tenure.doubt or tenure.left_ms is None:
            return tenure
        if any(0 <= at - tenure.left_ms < session_ms for at in joins[_identity(tenure)]):
            return tenure
        is_wrong = random.between(1, MILLION) <= tenure.doubt * wrong * MILLION
        return replace(tenure, end=OTHERWISE[tenure.end]) if is_wrong else tenure

    return tuple(map(drawn, tenures))


def _names(processes: Sequence[_Process], random: RandomSource) -> list[str]:
    """Returns names in the order of the members' ids, which some assignors depend on: a member id begins with the
    client id, and the rest is random."""
    ranks = sorted(range(len(processes)), key=lambda each: (processes[each].spans[0].tenure.client_id, random.bits()))
    width = len(str(len(processes)))
    return [f"m{ranks.index(number):0{width}}" for number in range(len(processes))]


def _spans(workload: Workload, random: RandomSource) -> list[_Span]:
    """Returns when the processes of the tenures were up, drawn at random from the possible times."""
    actual = workload.actual
    moments = sorted({at for each in workload.tenures for at in (each.joined_ms, each.left_ms) if at is not None})
    before = dict(zip(moments, [None, *moments], strict=False))
    # A round lasts until the slowest heartbeat: with many members nearly a whole interval.
    begun = {}
    for at in moments:
        last = before[at]
        longest = actual.heartbeat_ms if last is None else min(actual.heartbeat_ms, max(1, at - last - TOGETHER_MS))
        begun[at] = at - random.between(0, longest)
    # Restarts of one application take alike, but how long is not known: only that they were over before a session was.
    usual_restart_ms = random.between(FASTEST_RESTART_MS, max(FASTEST_RESTART_MS, actual.session_ms))
    replaced = {(each.instance_id, each.left_ms) for each in workload.tenures if each.end == REPLACED}
    spans = []
    for tenure in workload.tenures:
        start = None if tenure.joined_ms is None else begun[tenure.joined_ms] + random.between(0, TOGETHER_MS)
        if (tenure.instance_id, tenure.joined_ms) in replaced:
            # Who takes the place of its instance is answered without a round.
            start = tenure.joined_ms
        end = None if tenure.left_ms is None else begun[tenure.left_ms] - random.between(0, TOGETHER_MS)
        if end is not None and tenure.end in RESTS_ON_TIMES:
            silent_ms = getattr(actual, RESTS_ON_TIMES[tenure.end])
            # The last heartbeat came up to an interval before it fell silent.
            end -= silent_ms - (random.between(0, actual.heartbeat_ms) if tenure.end == SILENT else 0)
        if end is not None and tenure.end == REPLACED:
            end = (tenure.left_ms or 0) - random.between(usual_restart_ms // 2, usual_restart_ms)
        if start is not None and end is not None:
            end = max(end, start + 1)
        spans.append(_Span(tenure, start, end))
    return spans


def _processes(spans: Iterable[_Span], *, loosely: bool) -> list[_Process]:
    """Returns the spans by process, each in its order."""
    processes: list[_Process] = []
    ended: dict[tuple[str, ...], list[_Process]] = defaultdict(list)
    for span in sorted(spans, key=lambda each: (each.start_ms is not None, each.start_ms or 0, each.tenure.member_id)):
        process = _before(ended[_identity(span.tenure)], span)
        if process is None and loosely and span.tenure.instance_id is None:
            process = _before([each for known in ended.values() for each in known], span)
        if process is None:
            process = _Process()
            processes.append(process)
            ended[_identity(span.tenure)].append(process)
        process.spans.append(span)
    return processes


def _identity(tenure: Tenure) -> tuple[str, ...]:
    if tenure.instance_id is not None:
        return ("instance", tenure.instance_id)
    return ("client", tenure.client_host, tenure.client_id)


def _before(candidates: Sequence[_Process], span: _Span) -> _Process | None:
    """Returns the process that had ended last before a span, and not long ago."""
    found, latest = None, -1
    for process in candidates:
        last = process.spans[-1]
        end, start = last.end_ms, span.start_ms
        if end is None or start is None or end >= start:
            continue
        # A slow or paused process was there all the time until it came back.
        gone = last.tenure.left_ms if last.tenure.end in GOES_ON else end
        if start - (gone or end) > RESTART_MS:
            continue
        if end > latest:
            found, latest = process, end
    return found


def _events(process: _Process, name: str, actual: Setting, *, loosely: bool) -> Iterable[Event]:
    before = [None, *process.spans[:-1]]
    for span, former, following in zip(process.spans, before, [*process.spans[1:], None], strict=True):
        # A member that only had not asked for records in time, or stood still, comes back by itself.
        if span.start_ms is not None and (former is None or former.tenure.end not in GOES_ON):
            yield Event(at_ms=span.start_ms, action="join", member=name)
        if span.end_ms is None or span.tenure.end == PAUSED:
            continue
        if span.tenure.end == TOO_SLOW:
            left_ms = span.end_ms + actual.max_poll_interval_ms + ENDS_MS
            until_ms = left_ms if following is None or following.start_ms is None else following.start_ms
            yield Event(at_ms=span.end_ms, action="slow", member=name, for_ms=until_ms - span.end_ms)
            if following is None:
                yield Event(at_ms=left_ms - 1, action="crash", member=name)
        else:
            # A static member that closes says nothing, so a dynamic one in its place may have left in order.
            is_crash = span.tenure.end == SILENT and not (loosely and actual.is_static)
            yield Event(at_ms=span.end_ms, action="crash" if is_crash else "leave", member=name)


def _pauses(silences: Iterable[MemberSilence], name: str, actual: Setting, random: RandomSource) -> Iterable[Event]:
    """Yields when the member stood still: from some time after its last request, before the next would have come, and
    so that wherever its heartbeats are then, it outlives its session if it did."""
    for silence in silences:
        silent_ms = silence.to_ms - silence.from_ms
        beyond_ms = silent_ms - actual.session_ms
        if beyond_ms >= 0:
            after_ms = random.between(0, min(actual.heartbeat_ms, beyond_ms))
        else:
            latest_ms = min(actual.heartbeat_ms, silent_ms - 1)
            after_ms = random.between(min(latest_ms, max(0, beyond_ms + actual.heartbeat_ms)), latest_ms)
        at_ms = silence.from_ms + after_ms
        yield Event(at_ms=at_ms, action="pause", member=name, for_ms=silent_ms - after_ms)


def _without_long_quiet(events: Sequence[Event], longest_ms: int) -> list[Event]:
    """Returns the events with shorter times between them, the first at SETTLES_MS."""
    shortened = [replace(events[0], at_ms=SETTLES_MS)]
    goes_on_until = events[0].at_ms + _lasts_ms(events[0], longest_ms)
    for before, event in pairwise(events):
        gap = min(event.at_ms, max(goes_on_until, before.at_ms)) - before.at_ms
        shortened.append(replace(event, at_ms=shortened[-1].at_ms + gap))
        goes_on_until = max(goes_on_until, event.at_ms + _lasts_ms(event, longest_ms))
    return shortened


def _lasts_ms(event: Event, longest_ms: int) -> int:
    """Returns after how long whatever an event sets off has ended."""
    return event.for_ms + longest_ms + ENDS_MS + (METADATA_MAX_AGE_MS if event.action == "grow" else 0)
