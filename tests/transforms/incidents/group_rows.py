"""Makes rows of a group for tests of its diagnosis: of incidents, members, lag, logs and requests at one instant."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds.causes import CAUSES
from groupledger.schemas.kinds.signs import of_kind
from groupledger.transforms.incidents.diagnosis.diagnose import diagnoses
from groupledger.transforms.incidents.diagnosis.evidence import DiagnosisRows

if TYPE_CHECKING:
    from collections.abc import Callable

AT = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
BY_INCIDENT = [
    cause
    for cause in CAUSES
    if any(proof == (of_kind(str(cause.kind)),) for proof in cause.proved_by) and not cause.against
]


def incident(kind: str, **fields: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(("member_id", "client_id", "client_host", "group_instance_id"), "x")
    row |= dict.fromkeys(("duplicates_min", "duplicates_max", "never_read_max", "setting_to_change"))
    row |= {"episode_id": "e", "kind": kind, "severity": "error", "evidence": "observed", "confidence": 1.0}
    row |= {"probable_root": "unknown", "occurrences": 3, "explanation": f"What {kind} says.", "is_open": False}
    return row | {"first_seen_at": AT, "last_seen_at": AT + MINUTE} | fields


def member(name: str, joined: float, left: float | None, cause: str | None = None, /, **fields: Any) -> dict[str, Any]:
    """A tenure, with the minutes at which it began and ended."""
    row = {
        "incarnation": 0,
        "rebalance_timeout_ms": 60_000,
        "member_id": name,
        "client_id": name,
        "client_host": f"/10.0.0.{len(name)}",
    }
    row |= {"group_instance_id": None, "subscribed_topics": ["orders"], "subscribed_regex": None}
    row |= {"from_offset": _offset(joined), "to_offset": None if left is None else _offset(left)}
    row |= {"is_start_known": True, "is_end_known": True}
    row |= {"joined_at": AT + joined * MINUTE, "left_at": None if left is None else AT + left * MINUTE}
    return row | {"leave_cause": cause, "leave_cause_confidence": None if cause is None else 0.9} | fields


def _offset(minutes: float) -> int:
    """Returns an offset in the order of time."""
    return round((minutes + 60) * 60_000)


def rebalance(minutes: float, guess: str | None, /, **fields: Any) -> dict[str, Any]:
    row = {"happened_at": AT + minutes * MINUTE, "trigger": None, "inferred_trigger": guess, "members_idle": 0}
    return (
        row
        | {"inferred_trigger_confidence": 0.9, "caused_by_generation": None, "changes": [], "partition_pauses": None}
        | fields
    )


def lag(minutes: float, partition: int, committed: int, end: int, status: str, **fields: Any) -> dict[str, Any]:
    row = {"sampled_at": AT + minutes * MINUTE, "topic": "orders", "partition": partition, "status": status}
    row |= {"committed_offset": committed, "high_watermark": end, "last_stable_offset": end, "raw_lag": end - committed}
    row |= {
        "lag": end - committed,
        "lag_seconds": None,
        "flags": [],
        "no_progress_since": None,
        "owned": True,
        "group_state": "Stable",
        "commit_interval_ms": None,
    }
    row |= {"owner": f"m{partition}", "client_id": f"pod-{partition}", "client_host": "/10.0.0.1"}
    return row | {"committed_at": AT + minutes * MINUTE} | fields


def sampled(*rows: dict[str, Any]) -> dict[str, Any]:
    """The rounds that rows of lag are of, as GroupRows takes them."""
    order = (
        "ok",
        "unsubscribed",
        "waiting_for_transaction",
        "no_commit",
        "unknown",
        "rebalancing",
        "growing",
        "ahead_of_log",
        "stalled",
        "stopped",
    )
    by_round: dict[datetime, list[dict[str, Any]]] = {}
    for row in rows:
        by_round.setdefault(row["sampled_at"], []).append(row)
    rounds = [
        {
            "sampled_at": at,
            "status": max(
                (row["status"] for row in of if row["status"] != "unsubscribed"),
                key=order.index,
                default="unsubscribed",
            ),
            "group_state": of[0]["group_state"],
            "partitions_unsubscribed": sum(row["status"] == "unsubscribed" for row in of),
            "lag_seconds_max": max(row["lag"] or 0 for row in of),
        }
        for at, of in sorted(by_round.items())
    ]
    return {"rounds": rounds, "lag_at": lambda at: by_round[at]}


def owner(name: str, minutes: float) -> dict[str, Any]:
    row = {"topic": "orders", "partition": 0, "member_id": name, "valid_to": None}
    return row | {"valid_from": AT + minutes * MINUTE}


def event(kind: str, cause: str | None, minutes: float = 0, **fields: Any) -> dict[str, Any]:
    row = {"kind": kind, "cause": cause, "happened_at": AT + minutes * MINUTE, "topic": "orders", "partition": 0}
    again = fields.get("records_repeated") or 0
    moved = {"kafka_offset": round(minutes * 60_000), "offset_before": 100 + again, "offset_after": 100}
    return row | moved | {"records_repeated": None, "records_skipped": None} | fields


def line(kind: str, name: str | None = None, minutes: float = 0, reason: str | None = None) -> dict[str, Any]:
    return {
        "kind": kind,
        "member_id": name,
        "logged_at": AT + minutes * MINUTE,
        "reason": reason,
        "client_reason": None,
    }


def request(name: str, minutes: float = 0, **fields: Any) -> dict[str, Any]:
    row = {"happened_at": AT + minutes * MINUTE, "member_id": name, "client_host": "/10.0.0.1", "api": "HEARTBEAT"}
    return row | {"client_software_name": "apache-kafka-java"} | fields


def by_clock(name: str, until: float = 0, **fields: Any) -> list[dict[str, Any]]:
    """Commits of a member each five seconds up to a minute."""
    return [request(name, until - n / 12, api="OFFSET_COMMIT", **fields) for n in range(20)]


def throttled(client: str = "pod-0", host: str = "10.0.0.1", share: float = 1.0) -> Callable[..., list[dict[str, Any]]]:
    """Fetches of a client every two seconds up to the third minute, each held up for a share of that time."""
    rows = [
        {"logged_at": AT + 2 * n * SECOND, "client_host": host, "throttle_time_ms": round(2_000 * share)}
        for n in range(90)
    ]
    return lambda asked, since, until: [row for row in rows if asked == client and since <= row["logged_at"] < until]


def in_transactions(*offsets: int, apart: timedelta = MINUTE) -> Callable[..., list[dict[str, Any]]]:
    """Offsets of a partition that were sent in transactions, one after the other."""
    place = {"topic": "orders", "partition": 0, "error_code": 0}
    rows = [
        {"happened_at": AT + n * apart, "partitions": [place | {"committed_offset": offset}]}
        for n, offset in enumerate(offsets)
    ]
    return lambda since, until: [row for row in rows if since <= row["happened_at"] < until]


def generation(owned: int, **fields: Any) -> dict[str, Any]:
    row = {"started_at": AT, "ended_at": AT + 5 * MINUTE, "member_count": 2, "owned_count": owned, "changes": []}
    return row | {"is_ownership_known": True, "protocol_type": "consumer"} | fields


def found(**rows: Any) -> list[dict[str, Any]]:
    return diagnoses(DiagnosisRows(**({"group_type": "classic"} | rows)))


FOLLOW_UP = rebalance(0.1, "joined", caused_by_generation=4)
LINES = [line("stabilized")]
MEMBERS = [member("m0", -9, None), member("m1", -9, None), member("m2", -9, None)]
NEW_INSTANCES = [
    *(member(f"old-{n}", -9, 0.5, group_instance_id=f"pod-{n}") for n in range(2)),
    *(member(f"new-{n}", 0.5, None, group_instance_id=f"pod-{n + 2}") for n in range(2)),
]
STORM = incident("rebalance_storm", evidence="inferred", severity="warning", confidence=0.95, group_instance_id=None)
NOT_STORED = {"kind": "assignment_not_stored"}
STOPPED = sampled(*(lag(at, 0, 50, 90, "stopped", no_progress_since=AT - MINUTE) for at in (0, 3)))
EMPTY = sampled(*(lag(at, 0, 50, 90, "stopped", owned=False, owner=None, group_state="Empty") for at in (0, 3)))
HANGING = [member("m0", -9, None, rebalance_timeout_ms=600_000)]
UNREAD = incident(
    "partition_not_read",
    confidence=0.5,
    severity="info",
    never_read_max=9,
    partitions=[{"topic": "orders", "partition": 0}],
)
LOOP = [member("crashy", n / 4, n / 4 + 0.1, "left") for n in range(12)]
RESTARTS = [
    member(f"{old}{n}", *times, client_id="app")
    for n in (1, 2)
    for old, times in (("a", (-9, n * 0.4)), ("b", (n * 0.4, None)))
]
