"""Reads the rows of a group for its diagnosis (`transforms.incidents.diagnosis`), and formats the diagnosis for a
terminal.

An episode may have begun before the window, so that rows are read from its earliest incident on. Whole rounds of lag
are read for the few instants that a diagnosis asks about. A group without members may have lost them long before: then
all of its tenures are read.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING

from groupledger.jobs.ask.answers import last_known, within
from groupledger.jobs.ask.audit import audit
from groupledger.jobs.ask.incidents import harms, time_of, wrapped
from groupledger.jobs.ask.rounds import of_round
from groupledger.jobs.ask.share import share_deliveries, share_passes
from groupledger.jobs.process.terminal import coloured, printable
from groupledger.schemas.kafka.api_keys import FETCH_APIS, ApiKey
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.kinds.causes import CAUSE_NAMED
from groupledger.schemas.kinds.causes.cause import who_can_fix
from groupledger.schemas.kinds.incidents import COORDINATOR_FAILED
from groupledger.schemas.words import Evidence, GroupType, Severity
from groupledger.transforms.history.rules.departures import EVENT_COLUMNS, with_logged_causes, with_unknown_causes
from groupledger.transforms.incidents.diagnosis.commit_rhythm import with_poll_timeouts
from groupledger.transforms.incidents.diagnosis.deliveries import share_rounds, sums_of
from groupledger.transforms.incidents.diagnosis.diagnose import diagnoses
from groupledger.transforms.incidents.diagnosis.evidence import DiagnosisRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer

RUNS_BACK = timedelta(days=31)  # in which a job shows how often it runs
BESIDE = timedelta(minutes=2)  # a departure comes before the record that it led to
MEMBER_COLUMNS = (
    *("incarnation", "member_id", "client_id", "client_host", "group_instance_id", "subscribed_topics"),
    *("subscribed_regex", "joined_at", "left_at", "leave_cause", "leave_cause_confidence"),
    *("session_timeout_ms", "rebalance_timeout_ms", "from_offset", "to_offset", "is_start_known", "is_end_known"),
)
GENERATION_COLUMNS = (
    *("kafka_offset", "started_at", "ended_at", "member_count", "owned_count", "is_ownership_known"),
    *("protocol_type", "protocol", "changes"),
)
REQUEST_COLUMNS = ("happened_at", "member_id", "client_host", "client_software_name", "api")
OWNER_COLUMNS = ("topic", "partition", "member_id", "valid_from", "valid_to")
LAG_COLUMNS = (
    *("sampled_at", "topic", "partition", "committed_offset", "high_watermark", "last_stable_offset", "raw_lag", "lag"),
    *("status", "flags", "no_progress_since", "owned", "owner", "client_id", "client_host", "group_state"),
    *("committed_at", "commit_interval_ms", "lag_seconds"),
)
THROTTLE_COLUMNS = ("logged_at", "client_host", "throttle_time_ms")
RIVALS_MAX = 4
ROUNDS_WITHIN = timedelta(hours=1)  # rounds before an instant that may show what a group subscribes to
ROUNDS_ASKED = 3
ONE_ROUND = timedelta(milliseconds=1)


def diagnoses_of(
    tables: ClusterRows,
    group: Answer,
    window: tuple[datetime, datetime | None],
    incidents: Sequence[Answer],
    rebalances: Sequence[Answer],
    rounds: Sequence[Answer],
) -> list[Answer]:
    """Returns the diagnoses of a group in `window`, which is [since, until), the most harmful first. `group` is the
    group's row of `groups`. `incidents` are of any severity, `rebalances` have their triggers, and `rounds` have the
    group's sums of lag, in the order of time."""
    since, until = window
    begin = min([since, *(row["first_seen_at"] for row in incidents)]) - BESIDE
    end = None if until is None else until + BESIDE
    of_group: Filter = ("group_id", "=", group["group_id"])

    @cache
    def lag_at(at: datetime) -> list[Answer]:
        return tables.rows("lag", *of_round(at), of_group, columns=LAG_COLUMNS)

    events = tables.rows_if_any("coordinator_events", of_group, *within("logged_at", begin, end), columns=EVENT_COLUMNS)
    requests = tables.rows_if_any("requests", of_group, *within("happened_at", begin, end), columns=REQUEST_COLUMNS)
    known = last_known(tables, group["group_id"])
    members = _members(tables, of_group, begin, end)
    is_share = group["group_type"] == GroupType.SHARE
    shared = share_rounds(share_passes(tables, group["group_id"], begin, end), members) if is_share else {}
    generations = _lasting(
        tables, "generations", of_group, ("started_at", "ended_at"), (begin, end), GENERATION_COLUMNS
    )
    return diagnoses(
        DiagnosisRows(
            group_type=group["group_type"],
            group_id=group["group_id"],
            incidents=incidents,
            rebalances=rebalances,
            members=with_unknown_causes(
                with_poll_timeouts(with_logged_causes(members, events, generations), requests),
                [row for row in incidents if row["kind"] == COORDINATOR_FAILED.name],
            ),
            tenures=_tenures(tables, of_group, begin, end, members),
            generations=sorted(generations, key=itemgetter("kafka_offset")),
            assignments=_lasting(
                tables, "assignments", of_group, ("valid_from", "valid_to"), (begin, end), OWNER_COLUMNS
            ),
            offset_events=tables.rows_if_any("offset_events", of_group, *within("happened_at", since, until)),
            acts=cache(lambda: audit(tables, group["group_id"], since, until)),
            events=events,
            requests=requests,
            rounds=sums_of(shared) if is_share else rounds,
            lag_at=shared.__getitem__ if is_share else lag_at,
            deliveries=share_deliveries(tables, group["group_id"], begin, end) if is_share else (),
            throttled=lambda client_id, first, last: tables.rows_if_any(
                "requests",
                ("client_id", "=", client_id),
                ("api_key", "in", sorted(FETCH_APIS)),
                ("throttle_time_ms", ">", 0),
                *within("happened_at", first, last),
                columns=THROTTLE_COLUMNS,
            ),
            offsets_in_transactions=lambda first, last: tables.rows_if_any(
                "requests",
                of_group,
                ("api_key", "=", ApiKey.TXN_OFFSET_COMMIT.value),
                *within("happened_at", first, last),
                columns=("happened_at", "partitions"),
            ),
            unseen_topics=cache(lambda at: _unseen_topics(tables, of_group, at)),
            known_until=known if until is None or known is None else min(known, until),
        )
    )


def _members(tables: ClusterRows, of_group: Filter, begin: datetime, end: datetime | None) -> list[Answer]:
    found = _lasting(tables, "members", of_group, ("joined_at", "left_at"), (begin, end), MEMBER_COLUMNS)
    return found or tables.rows_if_any("members", of_group, *within("joined_at", None, end), columns=MEMBER_COLUMNS)


def _unseen_topics(tables: ClusterRows, of_group: Filter, at: datetime) -> frozenset[str]:
    """Returns the topics to which the group subscribed in two rounds, and without a partition in the second of them and
    in the round after. A round asks by name for all topics that were subscribed to in the round before it."""
    lately = within("sampled_at", at - ROUNDS_WITHIN, at + ONE_ROUND)
    of_dates: Filter = ("sample_date", ">=", (at - ROUNDS_WITHIN).date())
    states = tables.rows_if_any(
        "group_states", of_group, of_dates, *lately, columns=("sampled_at", "subscribed_topics")
    )
    last = sorted(states, key=itemgetter("sampled_at"))[-ROUNDS_ASKED:]
    if len(last) < ROUNDS_ASKED:
        return frozenset()
    subscribed = frozenset(last[0]["subscribed_topics"] or ()).intersection(last[1]["subscribed_topics"] or ())
    return subscribed.difference(*(_sampled(tables, row["sampled_at"], subscribed) for row in last[1:]))


def _sampled(tables: ClusterRows, sampled_at: datetime, topics: frozenset[str]) -> frozenset[str]:
    """Returns which of some topics a round has; all of them if it did not ask the brokers for topics."""
    named: Filter = ("topic", "in", sorted({*topics, OFFSETS_TOPIC}))
    found = {row["topic"] for row in tables.rows_if_any("watermarks", *of_round(sampled_at), named, columns=("topic",))}
    return frozenset(found) if OFFSETS_TOPIC in found else topics


def _tenures(
    tables: ClusterRows, of_group: Filter, begin: datetime, end: datetime | None, members: Sequence[Answer]
) -> list[Answer]:
    """Returns all tenures of the last weeks, if no member is left."""
    if any(row["left_at"] is None for row in members):
        return []
    return tables.rows_if_any("members", of_group, *within("joined_at", begin - RUNS_BACK, end), columns=MEMBER_COLUMNS)


def _lasting(
    tables: ClusterRows,
    table: str,
    of_group: Filter,
    names: tuple[str, str],
    window: tuple[datetime, datetime | None],
    columns: Sequence[str],
) -> list[Answer]:
    """Returns rows that begin before the window's end and are open or end after its beginning."""
    first, last = names
    rows = tables.rows_if_any(table, of_group, *within(first, None, window[1]), columns=columns)
    return [row for row in rows if row[last] is None or row[last] >= window[0]]


def diagnosis_lines(diagnosis: Answer, since: datetime, as_of: datetime | None, also: Sequence[str]) -> Iterator[str]:
    """Yields the lines of a diagnosis for a terminal. The window of the question begins at `since`, `as_of` is the last
    known instant, and `also` names further members to whom the diagnosis applies. All names in the lines are
    escaped."""
    yield f"{coloured(diagnosis['severity'])}  {title(diagnosis)}: {time_of(diagnosis, since, as_of)}"
    yield from (f"    {line}" for line in wrapped(diagnosis["explanation"]))
    if also:
        yield from (f"    {line}" for line in wrapped(f"also about: {', '.join(also)}"))
    harm = "; ".join(harms(diagnosis))
    if harm:
        yield f"    harm: {harm}"
    if diagnosis["advice"] is not None:
        yield from (f"    {line}" for line in wrapped(f"do: {diagnosis['advice']}"))
    if diagnosis["setting_to_change"] is not None:
        yield f"    change: {diagnosis['setting_to_change']}"
    if diagnosis["fault"] is not None:
        whom = who_can_fix(diagnosis["fault"], diagnosis["setting_to_change"])
        yield from (f"    {line}" for line in wrapped(f"who can fix it: {whom}"))
    yield from (f"    {line}" for line in wrapped(f"known: {known_by(diagnosis)}"))
    signs = proof(diagnosis)
    if signs:
        yield from (f"    {line}" for line in wrapped(f"proof: {signs}"))
    for rival in diagnosis["rivals"][:RIVALS_MAX]:
        yield from (f"    {line}" for line in wrapped(f"may be {rival['cause']}: {rival['happened']}"))
        yield from (f"        {line}" for line in wrapped(f"to find out: {rival['told_apart_by']}"))


def title(diagnosis: Answer) -> str:
    """Returns the cause with its symptom, or only the symptom if no cause is proved."""
    return diagnosis["symptom"] if diagnosis["cause"] is None else f"{diagnosis['cause']} ({diagnosis['symptom']})"


def known_by(diagnosis: Answer) -> str:
    """Returns how the cause is known, or that none is proved, and which kinds of incidents and further causes were seen
    with it."""
    names = dict.fromkeys((*diagnosis["kinds"], *diagnosis["beside"]))
    also = [printable(name) for name in names if name != diagnosis["cause"]]
    beside = f"; with it: {', '.join(also)}" if also else ""
    if diagnosis["cause"] is None:
        left = "the possible causes follow" if diagnosis["rivals"] else "no known cause fits"
        return f"no cause is proved; {left}{beside}"
    sure = "" if diagnosis["evidence"] == Evidence.OBSERVED else f" (confidence {diagnosis['confidence']:.2f})"
    return f"by {' and '.join(diagnosis['sources'])}, {diagnosis['evidence']}{sure}{beside}"


def proof(diagnosis: Answer) -> str:
    """Returns the signs that prove the cause, as sentences: the decisive ones first. Returns "" if no cause is proved,
    or if an incident of the same kind proves it, whose explanation says as much."""
    cause = CAUSE_NAMED.get(diagnosis["cause"])
    if cause is None or cause.kind is not None:
        return ""
    decisive = (sign for signs in cause.proved_by for sign in signs)
    return " ".join(
        dict.fromkeys(sign.meaning for sign in (*decisive, *cause.needs) if sign.name in diagnosis["signs"])
    )


def left_over(verdict: Answer) -> list[Answer]:
    """Returns the episodes of a verdict that no diagnosis covers."""
    diagnosed = {each for found in verdict["diagnosis"] for each in found["episode_ids"]}
    return [episode for episode in verdict["episodes"] if episode["episode_id"] not in diagnosed]


def is_shown(diagnosis: Answer) -> bool:
    """Returns whether a diagnosis is shown by default. One of severity info, which is normal operation without harm, is
    not."""
    return bool(diagnosis["severity"] != Severity.INFO)
