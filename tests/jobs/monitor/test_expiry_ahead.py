"""Goal: the monitor says when offsets of a group without members expire, and nothing where it can't know.

That brokers expire them then is compared in `tests/jobs/derive/test_offset_events.py`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.jobs.monitor import expiry_ahead
from groupledger.jobs.monitor.expiry_ahead import ExpiryAhead, known_retention_s
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.warehouse.tables import ClusterTables
from groupledger.schemas.instants import instant_of_ms
from tests.jobs.serve.serving import CLUSTER, write

if TYPE_CHECKING:
    from pathlib import Path

NOW_MS = 1_760_000_000_000
DAY_S, WEEK_S = 86_400, 604_800
EMPTY = {"is_alive": True, "is_simple": False, "member_count": 0}


def ago(days: int) -> int:
    return NOW_MS - days * DAY_S * 1_000


def group(
    warehouse: Path, name: str, committed: list[dict[str, Any]], empty_days: int | None = None, **facts: Any
) -> None:
    """Writes a group; `committed` has columns of its offsets, which were committed two days ago if they say nothing
    else."""
    write(warehouse, "groups", {"group_id": name, "group_type": "classic", **EMPTY, **facts})
    places = [
        {"group_id": name, "topic": "t", "partition": number, "kafka_partition": 3, "is_removed": False}
        | {"commit_kafka_offset": 10, "committed_at_ms": ago(2), **each}
        for number, each in enumerate(committed)
    ]
    write(warehouse, "committed_offsets", *places)
    if empty_days is not None:
        last = {"group_id": name, "is_current": True, "member_count": 0, "protocol_type": "consumer"}
        write(warehouse, "generations", last | {"current_state_at": instant_of_ms(ago(empty_days))})


def days_left(
    warehouse: Path, retention_s: int | None = WEEK_S, with_members: tuple[str, ...] = ()
) -> dict[str, float]:
    ahead = ExpiryAhead()
    ahead.retention_s = retention_s
    ahead.read(ClusterTables(None, str(warehouse), CLUSTER), {3: [5, 8], 4: [50]})  # type: ignore[arg-type]
    return {name: seconds / DAY_S for name, seconds in ahead.seconds(NOW_MS, with_members).items()}


def test_when_offsets_expire(tmp_path: Path) -> None:
    """Goal: a classic group counts from when it became empty; a simple consumer, and a group of KIP-848, from its
    oldest commit; a commit may have an expiry of its own; an offset that is due has no time left."""
    group(tmp_path, "empty", [{"committed_at_ms": ago(4)}], empty_days=3)
    group(
        tmp_path,
        "simple",
        [{}, {"committed_at_ms": ago(5)}, {"is_removed": True, "committed_at_ms": 0}],
        is_simple=True,
    )
    group(tmp_path, "modern", [{"committed_at_ms": ago(1)}], group_type="consumer")
    group(tmp_path, "explicit", [{"expire_at_ms": NOW_MS + DAY_S * 1_000}], empty_days=1)
    group(tmp_path, "due", [{}], empty_days=8)
    assert days_left(tmp_path) == {"empty": 4, "simple": 2, "modern": 6, "explicit": 1, "due": 0}


def test_nothing_is_said_where_it_is_not_known(tmp_path: Path) -> None:
    """Goal: nothing of a group with members in the tables or in the last round, of one that may have ended, of offsets
    that may be gone, and of any group while the retention is not known."""
    assert days_left(tmp_path) == {}  # before there are tables
    group(tmp_path, "busy", [{}], member_count=2)
    group(tmp_path, "back", [{}], empty_days=3)
    group(tmp_path, "unseen", [{}], is_alive=None, is_simple=None, member_count=None)
    group(tmp_path, "hidden", [{"kafka_partition": 4}], empty_days=3)
    group(tmp_path, "never", [], empty_days=3)
    assert days_left(tmp_path, with_members=("back",)) == {}
    assert days_left(tmp_path) == {"back": 4}
    assert days_left(tmp_path, retention_s=None) == {}


@pytest.mark.parametrize(
    ("settings", "of_broker", "expected", "warned"),
    [
        ({}, None, None, False),  # the broker does not say
        ({}, WEEK_S, WEEK_S, False),
        ({}, DAY_S, DAY_S, True),
        ({"retention_s": 7_200, "retention_check_interval_s": 600}, DAY_S, 7_200, False),  # the setting decides
    ],
)
def test_retention_is_set_or_asked(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, int], of_broker: int | None, expected: int | None, warned: bool
) -> None:
    """Goal: Kafka's default is no answer; a broker that keeps offsets for another time than assumed is a warning."""
    monkeypatch.setattr(expiry_ahead, "offsets_retention_s", lambda *_: of_broker)
    warnings: list[str] = []
    ledger: Any = SimpleNamespace(settings=load_settings(offsets=settings) if settings else load_settings())
    ledger.warn = warnings.append
    assert known_retention_s(ledger, "broker:9092") == expected
    assert [f"set offsets.retention_s to {of_broker}" in text for text in warnings] == [True] * warned
