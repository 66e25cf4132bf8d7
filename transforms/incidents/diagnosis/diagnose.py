"""Diagnoses a group: for each episode of a symptom its cause with the proof, or the rivals and what distinguishes them.

Each diagnosis has the member concerned, the time, the harm, the cause, how the cause is known, and what to change.
Diagnoses are ordered by harm, as somebody on call needs them. Episodes with the same cause and nearly the same time are
one diagnosis.

The severity follows the harm: a cause that cost nothing has the severity `harmless` of its row in the table of causes,
unless its incident has a higher one. Without samples it is not known whether records waited, and then harm is assumed.

Names in the sentences come from clients and are not escaped: whoever prints them escapes them. This package is not part
of `rules`, since questions import it, and `rules` brings the reference coordinator.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds.causes import CAUSE_NAMED, assignment, members, progress, refused
from groupledger.schemas.kinds.clauses import Fact, filled, settings_of
from groupledger.schemas.kinds.signs import ONE_TOPIC_UNSEEN, SERVER_LOG_IMPORTED, SUBSCRIBED_TOPIC_UNSEEN, Source
from groupledger.schemas.kinds.symptoms import BEHIND, NO_PROGRESS, NOBODY_HAS_PARTITIONS, REBALANCES_GO_ON
from groupledger.schemas.kinds.triggers import ADMIN_REMOVED
from groupledger.schemas.words import Evidence, Severity
from groupledger.transforms.coverage.rules.coverage_at import iso
from groupledger.transforms.history.rules.departures import has_left_by
from groupledger.transforms.incidents.diagnosis.authorship import authors_in
from groupledger.transforms.incidents.diagnosis.deliveries import given_up_in, names_of
from groupledger.transforms.incidents.diagnosis.episodes import episodes
from groupledger.transforms.incidents.diagnosis.evidence import AROUND
from groupledger.transforms.incidents.diagnosis.harm import COUNTED, HARM_COLUMNS, harm_of, read_again_in
from groupledger.transforms.incidents.diagnosis.judge import judged
from groupledger.transforms.incidents.diagnosis.lag_signs import lag_seen
from groupledger.transforms.incidents.diagnosis.member_signs import last_departures, members_at, restless
from groupledger.transforms.incidents.diagnosis.request_signs import hosts_of_members, last_heard
from groupledger.transforms.incidents.diagnosis.severity import SEVERITIES, gravest, severity_of
from groupledger.transforms.incidents.diagnosis.signs_seen import is_of_nobody, signs_seen
from groupledger.transforms.incidents.explained import divided
from groupledger.transforms.incidents.type_facts import facts_of_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from groupledger.schemas.kinds.causes.cause import Cause
    from groupledger.transforms.incidents.diagnosis.evidence import DiagnosisRows, Seen, TroubleEpisode
    from groupledger.transforms.incidents.diagnosis.judge import Judgement
    from groupledger.transforms.incidents.diagnosis.lag_signs import LagSeen

    Row = Mapping[str, Any]
    Diagnosis = dict[str, Any]

WHO_COLUMNS = ("member_id", "client_id", "client_host", "group_instance_id")
NOBODY_KNOWN = "a member"
NAMED_MAX = 3
LAGS = {BEHIND, NO_PROGRESS, NOBODY_HAS_PARTITIONS}
# They began when the last member went, which may lie long before anybody looked.
SINCE_DEPARTURE = {
    members.JOB_BETWEEN_RUNS,
    members.SCALED_TO_ZERO,
    members.MEMBERS_LEFT,
    members.MEMBERS_EXPIRED,
    members.MEMBERS_POLLED_TOO_LATE,
}
# The kinds of change that may explain an episode where nothing else is wrong.
IN_ORDER = {
    cause.name
    for cause in (
        members.DEPLOY,
        members.INSTANCES_REPLACED,
        assignment.ONE_TOPIC_MISSING,
        members.SCALING,
        members.SCALED_TO_ZERO,
        members.MEMBERS_LEFT,
        members.REMOVED_BY_ADMINISTRATOR,
        refused.TWO_APPLICATIONS,
        progress.CATCHING_UP,
        progress.UNSUBSCRIBED,
    )
}


def diagnoses(rows: DiagnosisRows) -> list[Diagnosis]:
    """Returns the diagnosis of each episode, the most harmful first."""
    found: list[Diagnosis] = []
    for episode in episodes(rows):
        each = _diagnosis(episode, rows)
        if episode.is_change and each["cause"] not in IN_ORDER:
            continue
        same = next((other for other in found if _is_same(each, other)), None)
        if same is None:
            found.append(each)
        else:
            found[found.index(same)] = _together(same, each)
    kept = []
    for each in found:
        settles = next((other for other in found if _is_settled(each, other)), None)
        explains = next((other for other in found if _is_explained(each, other)), None)
        if settles is not None:
            settles.update(_harm_of_both(settles, each), **_incidents_of_both(settles, each))
        elif explains is not None:
            explains.update(_of_both(explains, each))
        else:
            kept.append(each)
    return sorted(kept, key=_order, reverse=True)


def _diagnosis(episode: TroubleEpisode, rows: DiagnosisRows) -> Diagnosis:
    lag = lag_seen(episode, rows)
    seen = signs_seen(episode, rows, lag)
    found = judged(episode.symptoms, seen)
    if found.cause in SINCE_DEPARTURE:
        gone = [row["left_at"] for row in last_departures(episode, rows)]
        episode = replace(episode, since=min(gone, default=episode.since))
    who = _who(episode, rows, lag, found)
    facts = _facts(rows, seen)
    names = _names(episode, rows, lag, who) | {"topics": _topics(episode, rows, seen)}
    harm = dict.fromkeys(COUNTED) if episode.is_change else harm_of(episode, rows, lag)
    incident = gravest(episode.incidents, found.cause)
    proof = [sign.name for sign in found.proof]
    return {
        "symptom": _symptom(episode, found),
        "cause": None if found.cause is None else found.cause.name,
        "fault": None if found.cause is None else found.cause.fault,
        "severity": severity_of(episode, rows, found, harm),
        "evidence": _evidence(found, seen),
        "confidence": min((seen.known[name] for name in proof), default=None),
        "sources": sorted({_source(sign.source, sign.name in seen.logged) for sign in found.proof}),
        "signs": sorted(proof),
        **{name: (who or {}).get(name) for name in WHO_COLUMNS},
        "since": episode.since,
        "until": episode.until,
        "last_seen_at": episode.last_seen_at,
        **_sentences(found, incident, _seen_without_cause(episode, lag), facts, names),
        **harm,
        "rivals": [
            {
                "cause": rival.name,
                "happened": _sentence(rival, facts, names),
                "told_apart_by": rival.decided_by,
            }
            for rival in found.rivals
        ],
        "beside": [cause.name for cause in found.beside],
        "kinds": sorted({row["kind"] for row in episode.incidents}),
        "episode_ids": sorted({row["episode_id"] for row in episode.incidents}),
    }


def _sentences(
    found: Judgement, incident: Row | None, symptom: str, facts: frozenset[str], names: Mapping[str, str]
) -> Diagnosis:
    """Returns the texts of a diagnosis: what happened, what to do and what to change. If an incident describes the same
    cause, its texts are used, so that all texts agree; only who did it, and what to do then, is added. Where no cause
    is known, an incident says what happened if it alarms by itself; else `symptom` is the sentence. What an incident
    advises is not what to do while several causes are left."""
    cause = found.cause
    says_it = incident is not None and (
        incident["severity"] != Severity.INFO if cause is None else incident["kind"] == cause.kind
    )
    by = "" if cause is None else filled(cause.by, facts, names)
    advice = "" if cause is None else filled(cause.advice, facts, names)
    if incident is not None and says_it:
        whole = incident["explanation"]
        is_whole = bool(found.rivals) if cause is None else bool(cause.by)
        happened, to_do = (f"{whole}{by}", advice or None) if is_whole else divided(incident["kind"], whole)
        return {
            "explanation": happened,
            "advice": to_do,
            "setting_to_change": incident["setting_to_change"],
        }
    if cause is None:
        return {"explanation": symptom, "advice": None, "setting_to_change": None}
    return {
        "explanation": f"{_sentence(cause, facts, names)}{by}",
        "advice": advice or None,
        "setting_to_change": ", ".join(settings_of(cause.settings, facts)) or None,
    }


def _seen_without_cause(episode: TroubleEpisode, lag: LagSeen) -> str:
    """Returns what the symptom means, and where most of the records wait."""
    meaning, worst = episode.symptoms[0].meaning, lag.worst
    if worst is None or not lag.records or not LAGS & {*episode.symptoms}:
        return meaning
    owner = "" if worst["owner"] is None else f", which {_name(_owner(worst))} owns"
    return f"{meaning} {lag.records:,} records wait, most of them in {worst['topic']} {worst['partition']}{owner}."


def _owner(lag: Row) -> Row:
    return {"member_id": lag["owner"], "client_id": lag["client_id"], "client_host": lag["client_host"]}


def _sentence(cause: Cause, facts: frozenset[str], names: Mapping[str, str]) -> str:
    text = filled(cause.happened, facts, names)
    return f"A{text[1:]}" if text.startswith(NOBODY_KNOWN) else text


def _facts(rows: DiagnosisRows, seen: Seen) -> frozenset[str]:
    """Returns the facts and the signs that clauses may need."""
    last = next((row for row in reversed(rows.generations) if row["member_count"]), {})
    of_log = Fact.LOG_IMPORTED if SERVER_LOG_IMPORTED.name in seen.known else Fact.INFERRED
    return frozenset((*seen.known, *facts_of_type(rows.group_type, last), of_log))


def _names(episode: TroubleEpisode, rows: DiagnosisRows, lag: LagSeen, who: Row | None) -> dict[str, str]:
    """Returns the values for the placeholders of a sentence."""
    worst, loop = lag.worst, restless(episode, rows)
    times = len(loop[1]) if loop is not None else max((row["occurrences"] for row in episode.incidents), default=1)
    tenures = () if loop is None else loop[1]
    begun = min((row["joined_at"] for row in tenures if episode.holds(row["joined_at"])), default=episode.since)
    ended = max((row["left_at"] for row in tenures), default=episode.last_seen_at)
    turns = rows.within(episode, "rebalances", "happened_at")
    events = rows.within(episode, "offset_events", "happened_at")
    _, again = read_again_in(events) or (0, 0)
    moved = again + sum(row["records_skipped"] or 0 for row in events) + given_up_in(episode, rows)
    return {
        "who": _name(who),
        "last": "" if who is None else f", {_name(who)},",
        "times": "once" if times == 1 else f"{times:,} times",
        "seconds": f"{round((ended - begun).total_seconds()):,}",
        "records": f"{lag.records or moved:,}",
        "place": "a partition" if worst is None else f"{worst['topic']} {worst['partition']}",
        "offset": "-" if worst is None or worst["committed_offset"] is None else f"{worst['committed_offset']:,}",
        "members": f"{len(members_at(rows, episode.last_seen_at)):,}",
        "count": f"{len(turns) or len(lag.lagging) or len(events):,}",
        "author": authors_in(episode, rows),
        "hosts": _hosts(episode, rows, who),
        **_session(rows, who, episode.last_seen_at),
        **names_of(episode, rows),
    }


def _hosts(episode: TroubleEpisode, rows: DiagnosisRows, who: Row | None) -> str:
    """Returns the hosts that speak for a member."""
    spoken = hosts_of_members(rows.within(episode, "requests", "happened_at"))
    return " and ".join(_not_all(spoken.get((who or {}).get("member_id") or "", ()))) or "two hosts"


def _session(rows: DiagnosisRows, who: Row | None, last_seen_at: datetime) -> dict[str, str]:
    """Returns how long a member's session is, and when it ends if nothing more comes from the member, as far as records
    and request log show it."""
    member_id = (who or {}).get("member_id")
    tenure = next((row for row in rows.members if row["member_id"] == member_id), {})
    length_ms, heard = tenure.get("session_timeout_ms"), last_heard(rows.requests, member_id)
    if length_ms is None:
        return {"session": "", "expires": ""}
    ends_at = None if heard is None else heard + timedelta(milliseconds=length_ms)
    expires = "" if ends_at is None or ends_at <= last_seen_at else f", at about {iso(ends_at)}"
    return {"session": f" of {length_ms / 1_000:,.0f} s", "expires": expires}


def _not_all(names: Sequence[str]) -> list[str]:
    """Returns some names, and how many more there are."""
    return [*names[:NAMED_MAX], *[f"{len(names) - NAMED_MAX:,} more"] * (len(names) > NAMED_MAX)]


def _topics(episode: TroubleEpisode, rows: DiagnosisRows, seen: Seen) -> str:
    if not {SUBSCRIBED_TOPIC_UNSEEN.name, ONE_TOPIC_UNSEEN.name} & seen.known.keys():
        return "topic"
    return f"topic {', '.join(_not_all(sorted(rows.unseen_topics(episode.last_seen_at))))}"


def _who(  # noqa: PLR0911 - one for each way to know it
    episode: TroubleEpisode, rows: DiagnosisRows, lag: LagSeen, found: Judgement
) -> Row | None:
    """Returns the member that the cause is about: who comes and goes, left last, is alone in the generation that a
    rebalance waits for, is in the incident, or owns the lagging partition."""
    cause = found.cause
    loop = restless(episode, rows)
    if loop is not None and cause in {None, members.CRASH_LOOP}:
        return loop[1][-1]
    if cause in SINCE_DEPARTURE:
        return max(last_departures(episode, rows), key=lambda row: row["left_at"], default=None)
    if cause is refused.SPEAKS_IN_ANOTHERS_NAME:
        return _spoken_for(episode, rows)
    if cause is members.WAITS_FOR_MEMBER:  # those that come have no record until the rebalance ends
        return _only(members_at(rows, episode.last_seen_at))
    incident = gravest(episode.incidents, cause)
    worst = lag.worst
    if _is_of_pace(cause, incident) and worst is not None and worst["owner"] is not None:
        return _owner(worst)
    if incident is not None and any(incident[name] is not None for name in WHO_COLUMNS):
        return None if is_of_nobody(incident, rows) else incident
    gone = rows.within(episode, "members", "left_at")
    if gone and any(sign.name.startswith("went_by") for sign in found.proof):
        return gone[-1]
    if cause is members.REMOVED_BY_ADMINISTRATOR:
        return next((row for row in reversed(gone) if has_left_by(row, ADMIN_REMOVED.name)), None)
    if worst is None or worst["owner"] is None or not LAGS & {*episode.symptoms}:
        return None
    return _owner(worst)


def _spoken_for(episode: TroubleEpisode, rows: DiagnosisRows) -> Row | None:
    """Returns the first member in whose name several hosts speak."""
    spoken = hosts_of_members(rows.within(episode, "requests", "happened_at"))
    member_id = next((name for name, hosts in spoken.items() if len(hosts) > 1), None)
    tenure = next((row for row in rows.members if row["member_id"] == member_id), None)
    return tenure or (None if member_id is None else {"member_id": member_id})


def _is_of_pace(cause: Cause | None, incident: Row | None) -> bool:
    """Returns whether a cause is about the owner of the lagging partition, whomever an incident of the same time is
    about."""
    is_its = incident is not None and cause is not None and incident["kind"] == cause.kind
    return cause in progress.CAUSES and not is_its


def _only(found: Sequence[Row]) -> Row | None:
    return found[0] if len(found) == 1 else None


def _name(who: Row | None) -> str:
    if who is None:
        return NOBODY_KNOWN
    host = (who.get("client_host") or "").lstrip("/")
    named = who.get("group_instance_id") or who.get("client_id") or who.get("member_id") or NOBODY_KNOWN
    return f"{named} at {host}" if host else str(named)


def _symptom(episode: TroubleEpisode, found: Judgement) -> str:
    """Returns the symptom that the cause shows first; without one the episode's first."""
    of_cause = () if found.cause is None else found.cause.symptoms
    return next((each.name for each in of_cause if each in episode.symptoms), episode.symptoms[0].name)


def _evidence(found: Judgement, seen: Seen) -> str | None:
    if found.cause is None:
        return None
    is_observed = any(sign.name in seen.logged for sign in found.proof)
    return Evidence.OBSERVED if is_observed else Evidence.INFERRED


def _source(source: str, is_logged: bool) -> str:
    return Source.SERVER_LOG if is_logged and source == Source.TOPIC else source


def _is_settled(one: Diagnosis, other: Diagnosis) -> bool:
    """Returns whether another diagnosis of the same time gives the cause that this one lacks."""
    if one["cause"] is not None or other["cause"] is None:
        return False
    names = [rival["cause"] for rival in one["rivals"]]
    if _is_within(one, other) and (not names or other["cause"] in names):
        return True
    return _is_its_rebalance(one, other)


def _is_explained(one: Diagnosis, other: Diagnosis) -> bool:
    """Returns whether another diagnosis has the cause of the incidents that this one only repeats."""
    return (
        other["cause"] is not None and one["cause"] in CAUSE_NAMED[other["cause"]].explains and _is_within(one, other)
    )


def _is_within(one: Diagnosis, other: Diagnosis) -> bool:
    """Returns whether another diagnosis of the same time, or almost, has all incidents of this one."""
    return {*one["episode_ids"]} <= {*other["episode_ids"]} and _is_near(one, other)


def _is_its_rebalance(one: Diagnosis, other: Diagnosis) -> bool:
    """Returns whether one is about a rebalance that another one, which a log proves, explains and covers: a group is in
    one rebalance at a time."""
    return bool(
        one["symptom"] == REBALANCES_GO_ON.name
        and other["evidence"] == Evidence.OBSERVED
        and REBALANCES_GO_ON in CAUSE_NAMED[other["cause"]].symptoms
        and other["since"] <= one["since"]
        and one["last_seen_at"] <= other["last_seen_at"]
    )


def _is_same(one: Diagnosis, other: Diagnosis) -> bool:
    is_alike = one["cause"] == other["cause"]
    if one["cause"] is None:
        is_alike = is_alike and one["rivals"] == other["rivals"] and bool(one["rivals"])
    return is_alike and _is_near(one, other)


def _is_near(one: Diagnosis, other: Diagnosis) -> bool:
    """Returns whether two diagnoses are about the same time, or almost."""
    return bool(one["since"] <= other["last_seen_at"] + AROUND and other["since"] <= one["last_seen_at"] + AROUND)


def _together(one: Diagnosis, other: Diagnosis) -> Diagnosis:
    """Returns one diagnosis of two: the graver with the time, the harm and the incidents of both."""
    return max(one, other, key=_order) | _of_both(one, other)


def _of_both(one: Diagnosis, other: Diagnosis) -> Diagnosis:
    ends = [one["until"], other["until"]]
    return {
        "since": min(one["since"], other["since"]),
        "until": None if None in ends else max(ends),
        "last_seen_at": max(one["last_seen_at"], other["last_seen_at"]),
        **_harm_of_both(one, other),
        **_incidents_of_both(one, other),
        "beside": sorted({*one["beside"], *other["beside"]}),
    }


def _harm_of_both(one: Diagnosis, other: Diagnosis) -> Diagnosis:
    worst = {
        name: max((each[name] for each in (one, other) if each[name] is not None), default=None)
        for name in HARM_COLUMNS
    }
    behind = [each for each in (one, other) if each["records_behind"] is not None]
    latest = max(behind, key=itemgetter("last_seen_at"), default=one)  # lag is that of when it was last seen
    return worst | {name: latest[name] for name in ("records_behind", "partitions_behind")}


def _incidents_of_both(one: Diagnosis, other: Diagnosis) -> Diagnosis:
    return {name: sorted({*one[name], *other[name]}) for name in ("kinds", "episode_ids")}


def _order(diagnosis: Diagnosis) -> tuple[Any, ...]:
    return (
        SEVERITIES.index(diagnosis["severity"]),
        diagnosis["cause"] is not None,
        *(diagnosis[name] or 0 for name in HARM_COLUMNS),
        diagnosis["until"] is None,
        diagnosis["last_seen_at"],
        diagnosis["symptom"],
    )
