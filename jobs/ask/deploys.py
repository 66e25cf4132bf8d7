"""`groupledger deploys` and `deploy`: which deployments there were of groups, and what each cost.

`transforms.history.rules.turnovers` decides whether a turnover of members is a deployment. Only the brokers' request
log has the versions of clients; without it a deployment shows only by its members. A turnover that may be a deployment
is in the list, too, with `is_deploy` null and the reason.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from groupledger.jobs.ask.answers import group_row, known_until, refuse_unknown, within
from groupledger.jobs.ask.cluster_rows import as_scan
from groupledger.jobs.ask.group_activity import true_rebalances
from groupledger.jobs.ask.group_timeline import with_causes
from groupledger.jobs.ask.lag_sums import SUMS_PARAMETERS
from groupledger.jobs.ask.owners import by_group
from groupledger.jobs.ask.places import host_name
from groupledger.jobs.process.instants import lasted_seconds
from groupledger.schemas.words import TurnoverKind
from groupledger.transforms.deploys.rules.cost import COMPARED_MAX, NEAR, compared, cost_of
from groupledger.transforms.history.rules.turnovers import turnovers, with_versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer
    from groupledger.transforms.history.rules.turnovers import Turnover

COLUMNS = (
    *("began_at", "group_id", "is_deploy", "lasted_seconds", "members_before", "members_after", "versions_after"),
    *("rebalances", "stopped_partition_seconds_min", "unowned_partition_seconds", "lag_peak"),
)
OPTIONAL = (
    *("versions_after", "members_after", "unowned_partition_seconds", "lasted_seconds", "members_before"),
    *("is_deploy", "stopped_partition_seconds_min"),
)
MEMBER_COLUMNS = (
    *("group_id", "incarnation", "member_id", "client_id", "client_host", "group_instance_id", "from_offset"),
    *("to_offset", "joined_at", "left_at", "is_start_known", "is_end_known", "leave_cause", "leave_cause_confidence"),
    *("from_generation", "to_generation"),
)
OWNER_COLUMNS = ("group_id", "topic", "partition", "valid_from", "valid_to")
SOFTWARE_COLUMNS = ("client_id", "client_host", "client_software_name", "client_software_version", "happened_at")
# The sum of lag of each round near a turnover.
ROUNDS = """
SELECT number, sampled_at, sum(lag) FILTER (NOT coalesce(list_contains(flags, $unsubscribed), false)) AS lag_sum
FROM lag JOIN turnovers USING (group_id)
WHERE sampled_at BETWEEN began_at - $near AND ended_at + $near
GROUP BY number, sampled_at
ORDER BY sampled_at
"""
# The software names that the clients of a turnover sent before it and up to its end.
SOFTWARE = """
SELECT DISTINCT
    number, client_id, client_host, concat_ws(' ', client_software_name, client_software_version) AS version,
    happened_at < began_at AS is_before, happened_at
FROM requests JOIN turnovers ON happened_at <= ended_at
WHERE client_software_name IS NOT NULL
ORDER BY happened_at
"""
PLACES = pa.schema(
    [("number", pa.int64()), ("group_id", pa.string())]
    + [(name, pa.timestamp("us", "UTC")) for name in ("began_at", "ended_at")]
)
WHY_UNKNOWN = {
    TurnoverKind.UNDER_WAY: "some members were replaced, and the log after that is too short to judge",
    TurnoverKind.SILENT: "every member was replaced, but most fell silent instead of leaving: they crashed, or their"
    " clients don't leave when they are closed",
    TurnoverKind.HIDDEN: "every member was replaced, but the log in between is not all known",
}
WHY_NONE = {
    TurnoverKind.SCALED: "members only came, or only left",
    TurnoverKind.PARTLY: "some members were replaced and others stayed",
    TurnoverKind.RESTLESS: "members came and left again, as in a crash loop",
    TurnoverKind.TOO_SLOW: "members were removed because they were too slow",
    TurnoverKind.BEGAN: "the group began",
    TurnoverKind.ENDED: "all members left",
}


class VersionedTurnover(NamedTuple):
    """A turnover of a group, with the versions of its clients before and after it."""

    group_id: str
    turnover: Turnover
    versions_before: Sequence[str] = ()
    versions_after: Sequence[str] = ()


def deploys(
    tables: ClusterRows, name: str | None = None, since: datetime | None = None, until: datetime | None = None
) -> list[Answer]:
    """Returns the certain and the possible deployments that began in [since, until), of a group or of all, in the order
    of time. Each has its cost, and the median cost of earlier deployments of its group. Raises UnknownNameError for an
    unknown group."""
    if name is not None:
        refuse_unknown(tables, name)
    found = _turnovers(tables, _names(tables, name, since), since, until)
    return [answer for answer in _answers(tables, found) if _is_within(answer["began_at"], since, until)]


def deploy_at(tables: ClusterRows, name: str, at: datetime) -> tuple[Answer | None, str | None]:
    """Returns two values. The first is the deployment of a group that was in progress at an instant, or the last one
    before it, or None. The second says why a turnover of members that was in progress at that instant is not a
    deployment; None if there was none. Raises UnknownNameError for an unknown group."""
    group_row(tables, name)
    every = turnovers(with_causes(tables, name, _members(tables, [name])), known_until(tables))
    going_on = [each for each in every if each.began_at <= at <= each.ended_at and each.is_deploy is False]
    judged = [VersionedTurnover(name, each) for each in every if each.is_deploy is not False]
    found = [answer for answer in _answers(tables, _with_versions(tables, judged)) if answer["began_at"] <= at]
    return (found[-1] if found else None), WHY_NONE[going_on[-1].kind] if going_on else None


def _is_within(at: datetime, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or since <= at) and (until is None or at < until)


def _names(tables: ClusterRows, name: str | None, since: datetime | None) -> list[str]:
    """Returns the groups that members have left since then."""
    if name is not None:
        return [name]
    gone = [("left_at", ">=", since)] if since is not None else []
    return sorted(
        {row["group_id"] for row in tables.rows("members", ("is_open", "=", 0), *gone, columns=("group_id",))}
    )


def _members(tables: ClusterRows, names: Sequence[str]) -> list[Answer]:
    return tables.rows("members", ("group_id", "in", names), columns=MEMBER_COLUMNS)


def _turnovers(
    tables: ClusterRows, names: Sequence[str], since: datetime | None, until: datetime | None
) -> list[VersionedTurnover]:
    """Returns the turnovers in the window that are or may be deployments, and the earlier deployments of the same
    groups."""
    if not names:
        return []
    known = known_until(tables)
    found = []
    for name, members in by_group(_members(tables, names)).items():
        may_be = [each for each in turnovers(members, known) if each.is_deploy is not False]
        if any(_is_within(each.began_at, since, until) for each in may_be):
            # The server log knows better why members went, and takes a read for each group.
            judged = turnovers(with_causes(tables, name, members), known)
            found += [VersionedTurnover(name, each) for each in judged if each.is_deploy is not False]
    return _with_versions(tables, sorted(found, key=lambda each: (each.turnover.began_at, each.group_id)))


def _with_versions(tables: ClusterRows, dated: Sequence[VersionedTurnover]) -> list[VersionedTurnover]:
    if not dated or not tables.exists("requests"):
        return [*dated]
    clients = {_client(row) for each in dated for row in (*each.turnover.before, *each.turnover.after)}
    requests = tables.scan(
        "requests",
        ("client_id", "in", sorted({client for client, _ in clients})),
        *within("happened_at", None, max(each.turnover.ended_at for each in dated) + NEAR),
        columns=SOFTWARE_COLUMNS,
    )
    versions: defaultdict[tuple[int, bool], dict[tuple[str, str], str]] = defaultdict(dict)
    for row in tables.query(SOFTWARE, requests=requests, turnovers=_places(dated)):
        versions[row["number"], row["is_before"]][_client(row)] = row["version"]
    return [_judged(each, versions[number, True], versions[number, False]) for number, each in enumerate(dated)]


def _judged(
    found: VersionedTurnover, before: Mapping[tuple[str, str], str], later: Mapping[tuple[str, str], str]
) -> VersionedTurnover:
    was = {before[_client(row)] for row in found.turnover.before if _client(row) in before}
    # A client that does not say it again has not connected anew.
    known = {**before, **later}
    now = {known[_client(row)] for row in found.turnover.after if _client(row) in known}
    return VersionedTurnover(found.group_id, with_versions(found.turnover, was, now), sorted(was), sorted(now))


def _client(row: Mapping[str, str | None]) -> tuple[str, str]:
    return row["client_id"] or "", host_name(row["client_host"] or "")


def _places(found: Sequence[VersionedTurnover]) -> pa.RecordBatchReader:
    rows = [
        {"number": number, "group_id": name, "began_at": each.began_at, "ended_at": each.ended_at}
        for number, (name, each, *_) in enumerate(found)
    ]
    return as_scan(rows, PLACES)


def _answers(tables: ClusterRows, found: Sequence[VersionedTurnover]) -> Iterator[Answer]:
    if not found:
        return
    names = sorted({each.group_id for each in found})
    rebalances = by_group(true_rebalances(tables, names, None, None))
    owned = by_group(tables.rows("assignments", ("group_id", "in", names), columns=OWNER_COLUMNS))
    rounds = _rounds(tables, found)
    before: defaultdict[str, list[Answer]] = defaultdict(list)
    for number, each in enumerate(found):
        name, turnover = each.group_id, each.turnover
        cost = cost_of(turnover, rebalances[name], owned[name], rounds[number])
        answer = {**_answer(each), **(dict.fromkeys(cost) if turnover.kind == TurnoverKind.HIDDEN else cost)}
        yield {**answer, "before": compared(before[name][-COMPARED_MAX:])}
        if turnover.is_deploy:
            before[name].append(answer)


def _answer(found: VersionedTurnover) -> Answer:
    turnover = found.turnover
    hosts, later = ({row["client_host"] for row in rows} for rows in (turnover.before, turnover.after))
    return {
        "group_id": found.group_id,
        "is_deploy": turnover.is_deploy,
        "reason": WHY_UNKNOWN.get(turnover.kind),
        "began_at": turnover.began_at,
        "ended_at": turnover.ended_at,
        "lasted_seconds": round((turnover.ended_at - turnover.began_at).total_seconds()),
        "members_before": len(turnover.before),
        "members_after": len(turnover.after),
        "members_replaced": len(turnover.gone),
        "hosts_changed": None if None in hosts | later else bool(later - hosts),
        "versions_before": [*found.versions_before],
        "versions_after": [*found.versions_after],
    }


def _rounds(tables: ClusterRows, found: Sequence[VersionedTurnover]) -> dict[int, list[Answer]]:
    """Returns the sums of lag of the rounds near each turnover."""
    begin = min(each.turnover.began_at for each in found) - NEAR
    end = max(each.turnover.ended_at for each in found) + NEAR
    rows = tables.scan_if_any(
        "lag",
        ("group_id", "in", sorted({each.group_id for each in found})),
        *(("sample_date", ">=", begin.date()), ("sample_date", "<=", end.date())),
        *within("sampled_at", begin, end),
        columns=("group_id", "sampled_at", "lag", "flags"),
    )
    near: defaultdict[int, list[Answer]] = defaultdict(list)
    for row in tables.query(ROUNDS, {**SUMS_PARAMETERS, "near": NEAR}, lag=rows, turnovers=_places(found)):
        near[row["number"]].append(row)
    return near


def sentences(answer: Answer) -> Iterator[str]:
    """Yields sentences about a deployment, its cost, and the cost of earlier ones."""
    members = f"{answer['members_replaced']:,} of {answer['members_before']:,} members were replaced"
    now = (
        ""
        if answer["members_after"] == answer["members_before"]
        else f", and there are {answer['members_after']:,} now"
    )
    yield f"{members} in {lasted_seconds(answer['lasted_seconds'])}{now}{_changed(answer)}."
    if answer["reason"] is not None:
        yield f"Whether it was a deployment is not known: {answer['reason']}."
    costs = [*_costs(answer)]
    yield f"It cost {', '.join(costs)}." if costs else "What it cost is not known."
    before = answer["before"]
    if before is None:
        yield "No deployment of the group before it is known."
        return
    subject = "The one before it" if before["deploys"] == 1 else f"The median of the {before['deploys']:,} before it is"
    took = f"{'took ' if before['deploys'] == 1 else ''}{lasted_seconds(before['lasted_seconds'])}"
    yield f"{subject} {', '.join([took, *_costs({**dict.fromkeys(COSTS), **before})])}."


COSTS = (
    *("rebalances", "partitions_moved", "unowned_partition_seconds", "stopped_partition_seconds_min"),
    *("stopped_partition_seconds_max", "lag_before", "lag_peak"),
)


def _costs(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yields the costs that are known, in words."""
    if answer["rebalances"] is not None:
        count = answer["rebalances"]
        yield f"{_number(count) if count else 'no'} rebalance{'' if count == 1 else 's'}"
    bounds = {
        "at least": answer["stopped_partition_seconds_min"],
        "at most": answer["stopped_partition_seconds_max"],
    }
    known = [f"{bound} {_number(seconds)}" for bound, seconds in bounds.items() if seconds]
    if known:
        yield f"{' and '.join(known)} partition-seconds of standstill"
    if answer["unowned_partition_seconds"]:
        yield f"{_number(answer['unowned_partition_seconds'])} partition-seconds without an owner"
    if answer["lag_peak"] is not None:
        before = "" if answer["lag_before"] is None else f" (before it {_number(answer['lag_before'])})"
        yield f"a lag of {_number(answer['lag_peak'])} records at its peak{before}"


def _number(value: float) -> str:
    """Returns a count, or the median of counts."""
    return f"{value:,.10g}"


def _changed(answer: Answer) -> str:
    was, now = ((", ".join(answer[name])) for name in ("versions_before", "versions_after"))
    if was and now and was != now:
        return f"; clients changed from {was} to {now}"
    return "; their hosts changed" if answer["hosts_changed"] else ""


def cells(answer: Answer) -> Answer:
    """Returns a deployment with its columns as texts, for a table on a terminal."""
    is_deploy = "yes" if answer["is_deploy"] else "unknown"
    return {**answer, "is_deploy": is_deploy, "versions_after": ", ".join(answer["versions_after"]) or None}
