"""`groupledger why`: what is wrong with a group, and all its events in one list.

The verdict comes first: what is wrong and why, the most harmful first (`jobs.ask.diagnosis`), beside the episodes of
incidents that it rests on (`transforms.incidents.verdicts`). Then incidents, rebalances, changes of owners, events of
committed offsets and each change of the group's lag status are listed by time. Without an incident, the verdict names
the most frequent trigger of rebalances, if that is a member's silence or slowness. Without any trouble, it names the
topics that get no records any more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING

from groupledger.jobs.ask.answers import group_row
from groupledger.jobs.ask.diagnosis import diagnoses_of, is_shown
from groupledger.jobs.ask.group_activity import rebalances_of
from groupledger.jobs.ask.group_timeline import places
from groupledger.jobs.ask.incidents import incidents_of
from groupledger.jobs.ask.known import sources_known
from groupledger.jobs.ask.lag_sums import lag_rounds
from groupledger.jobs.ask.owner_changes import owner_changes
from groupledger.jobs.ask.quiet_topics import quiet_topics
from groupledger.schemas.kinds.changes import DYNAMIC_RESTART
from groupledger.schemas.kinds.clauses import said, settings_of
from groupledger.schemas.kinds.roots import POLL_TIMEOUT_EXCEEDED, RESTART, SESSION_EXPIRED, Root
from groupledger.schemas.kinds.triggers import LEFT_POLL_TIMEOUT, REBALANCE_TIMEOUT
from groupledger.schemas.kinds.triggers import SESSION_EXPIRED as EXPIRED
from groupledger.schemas.words import PauseScope, Severity
from groupledger.transforms.coverage.rules.known import last_instant
from groupledger.transforms.history.rules.pause import Pause, bounds_text
from groupledger.transforms.incidents.verdicts import verdicts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer

COLUMNS = ("at", "what", "how", "text")
ROUND_COLUMNS = (
    *("sampled_at", "group_state", "status", "lag_sum", "lag_seconds_max", "partitions", "partitions_without_lag"),
    *("worst_topic", "worst_partition", "worst_owner"),
)
REBALANCES_MAX = 10_000
WINDOW = timedelta(hours=2)
"""The length of a question's window, if the question does not say when it begins."""
ROOT_OF_TRIGGER = {
    LEFT_POLL_TIMEOUT.name: POLL_TIMEOUT_EXCEEDED,
    REBALANCE_TIMEOUT.name: POLL_TIMEOUT_EXCEEDED,
    EXPIRED.name: SESSION_EXPIRED,
}
WHO_STOOD_STILL = {PauseScope.GROUP: "stood still", PauseScope.PARTITIONS: "the partitions that moved stood still"}
# Some of the skipped offsets may hold no record, as `records_skipped` of `offset_events` says.
RECORDS_MOVED = {
    "records_repeated": "{:,} records to be read again",
    "records_skipped": "at most {:,} records never read",
}
STATIC_MEMBERSHIP = "group.instance.id"


def why(tables: ClusterRows, name: str, since: datetime, until: datetime | None) -> tuple[list[Answer], Answer]:
    """Returns the events of a group in [since, until), in the order of time, and the verdict on it. Raises
    UnknownNameError for an unknown group."""
    group = group_row(tables, name)
    every = _incidents(tables, name, since, until)
    incidents = [row for row in every if row["severity"] != Severity.INFO]
    rebalances = rebalances_of(tables, name, since, until, REBALANCES_MAX)
    rounds = lag_rounds(tables, name, since, until)
    entries = [
        *_of_incidents(incidents),
        *_of_rebalances(rebalances),
        *(_entry(at, "owner", None, words) for at, words in owner_changes(tables, name, since, until)),
        *_of_offsets(tables, name, since, until),
        *_of_lag(rounds),
    ]
    found = diagnoses_of(tables, group, (since, until), every, rebalances, rounds)
    known = sources_known(tables, [name])
    quiet = [] if incidents or any(map(is_shown, found)) else quiet_topics(tables, name, since, until)
    answer = verdict(incidents, rebalances, found, last_instant(known, known), quiet, rounds)
    return sorted(entries, key=lambda entry: entry["at"]), answer


def verdict(
    incidents: Iterable[Answer],
    rebalances: Iterable[Answer],
    diagnosis: Sequence[Answer] = (),
    as_of: datetime | None = None,
    quiet: Sequence[Answer] = (),
    rounds: Sequence[Answer] = (),
) -> Answer:
    """Returns the verdict: `diagnosis` as given, the `episodes` of the incidents, the most harmful first, and `root`,
    `advice` and `setting_to_change`. These three are from the first episode or, without episodes, from the root of most
    rebalances; they are null if no rebalance has a known root. `as_of` is the last instant that a source knows.
    `quiet_topics` are those of `jobs.ask.quiet_topics`, as given. `last_round` is how the group was in the last of its
    `rounds` (`jobs.ask.lag_sums`), whatever happened before; null without rounds."""
    episodes = verdicts(incidents)
    if episodes:
        worst = episodes[0]
        named = (worst["probable_root"], worst["explanation"], worst["setting_to_change"])
    else:
        named = _of_most(rebalances)
    return {
        "diagnosis": [*diagnosis],
        "episodes": episodes,
        "as_of": as_of,
        "quiet_topics": [*quiet],
        "last_round": {name: rounds[-1][name] for name in ROUND_COLUMNS} if rounds else None,
        **dict(zip(("root", "advice", "setting_to_change"), named, strict=True)),
    }


def _of_most(rebalances: Iterable[Answer]) -> tuple[str | None, str | None, str | None]:
    roots = Counter(root for row in rebalances if (root := _root_of(row)) is not None)
    if not roots:
        return None, None, None
    root = max(roots, key=lambda each: (roots[each], each.name))
    settings = ", ".join(settings_of(root.settings, ())) or STATIC_MEMBERSHIP
    return root.name, said(root.advice, ()), settings


def _root_of(rebalance: Answer) -> Root | None:
    trigger = rebalance["trigger"] or rebalance["inferred_trigger"]
    if trigger in ROOT_OF_TRIGGER:
        return ROOT_OF_TRIGGER[trigger]
    is_restart = any(change["kind"] == DYNAMIC_RESTART.name for change in rebalance["changes"] or ())
    return RESTART if is_restart else None


def _incidents(tables: ClusterRows, name: str, since: datetime, until: datetime | None) -> list[Answer]:
    if not tables.exists("incidents"):
        return []
    found = incidents_of(tables, [name], since, None, Severity.INFO)
    return [row for row in found if until is None or row["first_seen_at"] < until]


def _of_incidents(incidents: Iterable[Answer]) -> Iterator[Answer]:
    for row in incidents:
        times = f" ({row['occurrences']:,} times)" if row["occurrences"] > 1 else ""
        yield _entry(row["first_seen_at"], "incident", row["severity"], f"{row['kind']}{times}: {row['explanation']}")


def _of_rebalances(rebalances: Iterable[Answer]) -> Iterator[Answer]:
    for row in rebalances:
        parts = [f"generation {row['from_generation']} to {row['to_generation']}"]
        if row["member_count"] is not None:
            parts.append(f"{row['member_count']} members then")
        if row["partitions_moved"]:
            parts.append(f"{row['partitions_moved']} partitions moved")
        bounds = bounds_text(Pause(row["pause_lower_ms"], row["pause_upper_ms"]))
        if bounds is not None:
            parts.append(f"{WHO_STOOD_STILL[row['pause_scope']]} for {bounds}")
        if row.get("scheduled_delay_ms"):
            parts.append(f"Connect keeps what it lost for at most {row['scheduled_delay_ms']:,} ms")
        if row["trigger_reason"]:
            parts.append(row["trigger_reason"])
        trigger = row["trigger"] or row["inferred_trigger"] or ("not all known" if row["is_hole"] else None)
        yield _entry(row["happened_at"], "rebalance", trigger, "; ".join(parts))


def _of_offsets(tables: ClusterRows, name: str, since: datetime, until: datetime | None) -> Iterator[Answer]:
    """Yields one entry for each topic and instant with events of committed offsets."""
    filters: list[Filter] = [("group_id", "=", name), ("happened_at", ">=", since)]
    if until is not None:
        filters.append(("happened_at", "<", until))
    together = defaultdict(list)
    for row in tables.rows_if_any("offset_events", *filters):
        together[row["happened_at"], row["kind"], row["topic"], row["cause"]].append(row)
    for (at, kind, topic, cause), rows in together.items():
        parts = [places([(topic, row["partition"]) for row in rows])]
        for column, words in RECORDS_MOVED.items():
            records = sum(row[column] or 0 for row in rows)
            if records:
                parts.append(words.format(records))
        if cause is not None:
            parts.append(f"cause: {cause}")
        yield _entry(at, "offset", kind, "; ".join(parts))


def _of_lag(rounds: Iterable[Answer]) -> Iterator[Answer]:
    """Yields the rounds at which the worst status of the group's partitions changes."""
    before = None
    for row in rounds:
        if row["status"] != before:
            after = "" if before is None else f"; {before} before"
            yield _entry(row["sampled_at"], "lag", row["status"], f"{lag_text(row)}{after}")
        before = row["status"]


def lag_text(row: Answer) -> str:
    """Returns the lag of a round, and where most of it is. Names in it are not escaped."""
    parts = ["unknown lag" if row["lag_sum"] is None else f"{row['lag_sum']:,} records"]
    if row["partitions_without_lag"] and row["lag_sum"] is not None:
        parts.append(f"partitions without a known lag: {row['partitions_without_lag']:,}")
    if row["worst_topic"] is not None and row["lag_sum"]:
        place = f"most in {row['worst_topic']} {row['worst_partition']}"
        parts.append(place if row["worst_owner"] is None else f"{place} of {row['worst_owner']}")
    return "; ".join(parts)


def _entry(at: datetime, what: str, how: str | None, text: str) -> Answer:
    return {"at": at, "what": what, "how": how, "text": text}
