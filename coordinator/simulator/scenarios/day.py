"""Defines the scenarios `day` and `demo`: a day of many groups. Each group plays one of the other scenarios at its own
hour, and works undisturbed before and after.

`day` is as close to Kafka's defaults as is possible for a long day. `demo` must be quick, as somebody waits for it:
most of its groups work for some hours only, as jobs do, and all of them send fewer requests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.simulator.scenarios import failures, membership, modern, offsets, share, streams
from groupledger.coordinator.simulator.scenarios.modern import MODERN
from groupledger.coordinator.simulator.scenarios.registry import Scenario
from groupledger.coordinator.simulator.scenarios.script import MINUTE_MS
from groupledger.coordinator.simulator.simulation import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groupledger.coordinator.simulator.scenarios.script import Script

SINGLE = (
    membership.scale_out,
    membership.scale_in,
    membership.rolling_restart,
    membership.rolling_restart_static,
    failures.crash,
    failures.long_gc,
    failures.slow_processing,
    failures.flapping_member,
    failures.leader_loss,
    membership.subscription_change,
    membership.partitions_added,
    membership.protocol_upgrade,
    failures.stuck_consumer,
    offsets.admin_reset,
    offsets.zombie_commits,
    membership.group_reborn,
    failures.coordinator_failover,
    offsets.offset_expiry,
    offsets.compaction,
    offsets.transactional_commits,
)
OF_A_DAY = (*SINGLE, *MODERN, share.scale, streams.scale)
_MODERN_OF_THE_DEMO = (modern.scale, modern.slow_release, modern.restart_static, modern.migration)
_OF_THE_DEMO = (*SINGLE, *SINGLE[: -len(_MODERN_OF_THE_DEMO)], *_MODERN_OF_THE_DEMO)
_HOURS = 24
_HOUR_MS = 60 * MINUTE_MS
_PERCENT_BY_HOUR = (
    *(20, 15, 10, 10, 15, 30, 60, 90, 120, 140, 150, 150),
    *(140, 145, 150, 150, 140, 120, 100, 90, 80, 60, 40, 30),
)
# A day has many requests. At this pace consumers send a fifth of the requests that they send by Kafka's defaults.
_PACE = {"heartbeat_interval_ms": 15_000, "auto_commit_interval_ms": 60_000}
# A member that is processing when the join phase ends syncs after that, and heartbeats an interval later.
# Both together must stay below the session timeout, or every rebalance loses members.
_PROCESSING_MS = (5_000, 20_000)
# At this pace they send a fourth of that. A member still commits within its session, so that its silence is noticed.
_DEMO_PACE = {"session_timeout_ms": 240_000, "heartbeat_interval_ms": 80_000, "auto_commit_interval_ms": 120_000}
# With a longer processing time a group that changes its protocol never comes to rest: some member is always late.
_DEMO_PROCESSING_MS = (25_000, 45_000)
_SHIFT_HOURS = 3
# Of eight groups, one works all day, and two begin so late that they still work when the day ends.
_OF_EIGHT = 8
_ALL_DAY, _LATE = (0,), (3, 6)
_LATE_MINUTES = (60, 100)
# The rebalance of one group is stuck as the day ends: who looks at the end finds something that is wrong now.
_STUCK, _STUCK_MINUTES = 12, 40
_DEMO_NAMES = (
    *("checkout", "fraud-scoring", "invoice-mailer", "search-indexer", "stock-keeper", "payment-capture"),
    *("shipping-labels", "email-digest", "clickstream-etl", "price-updater", "session-counter", "order-archive"),
    *("recommendations", "returns-desk", "loyalty-points", "catalog-sync", "audit-trail", "ad-billing"),
    *("courier-tracking", "ledger-export", "cart-abandonment", "risk-rules", "push-notifications", "image-resizer"),
    *("warehouse-picker", "tax-reports", "review-moderation", "feature-store", "billing-runs", "chat-router"),
    *("device-telemetry", "supplier-feed", "gift-cards", "seo-crawler", "subscription-renewals", "cdc-orders"),
    *("customer-360", "log-shipper", "delivery-slots", "data-lake-sink"),
)


def play(group: Script) -> None:
    at_pace_of_day(group)
    group.delay_ms = _some_hour_ms(group)
    _play(group, OF_A_DAY, 0, _HOURS)


def play_demo(group: Script) -> None:
    group.pace = _DEMO_PACE
    group.processing_ms = _DEMO_PROCESSING_MS
    if group.number % _OF_EIGHT in _ALL_DAY:
        group.delay_ms = _some_hour_ms(group)
        _play(group, _OF_THE_DEMO, 0, _HOURS)
        return
    if group.number == _STUCK:
        _play_late(group, (failures.rebalance_stuck,), _STUCK_MINUTES)
        return
    if group.number % _OF_EIGHT in _LATE:
        _play_late(group, _OF_THE_DEMO, group.source.between(*_LATE_MINUTES))
        return
    start_ms = _some_hour_ms(group)
    group.began_at_ms += start_ms
    _play(group, _OF_THE_DEMO, start_ms // _HOUR_MS, _SHIFT_HOURS)
    group.plan(_SHIFT_HOURS * 60, "end_of_shift", _end_shift, group)


def _play_late(group: Script, scenarios: Sequence[Scenario], minutes: int) -> None:
    """Plays a scenario from some minutes before the day ends. The group works beyond that."""
    start_ms = _HOURS * _HOUR_MS - minutes * MINUTE_MS
    group.began_at_ms += start_ms
    _play(group, scenarios, start_ms // _HOUR_MS, 2)


def _some_hour_ms(group: Script) -> int:
    return group.source.between(0, (_HOURS - 2) * 60) * MINUTE_MS


def _play(group: Script, scenarios: Sequence[Scenario], start_hour: int, hours: int) -> None:
    """Plays the scenario that the group's number chooses; production follows the hours of the day."""
    scenarios[group.number % len(scenarios)].play(group)
    for hour in range(hours):
        percent = _PERCENT_BY_HOUR[(start_hour + hour) % _HOURS]
        group.simulation.at(group.began_at_ms + hour * _HOUR_MS, group.produce, percent)


def _end_shift(group: Script) -> None:
    group.produce(0)
    for application in group.applications:
        application.close()


def at_pace_of_day(group: Script) -> None:
    group.pace = _PACE
    group.processing_ms = _PROCESSING_MS


_HEARTBEAT_MS = _PACE["heartbeat_interval_ms"]
_CONFIG = Config(offsets_retention_ms=60 * MINUTE_MS)
DAY = Scenario(
    name="day",
    summary="A day of many groups, each with one of the other scenarios at its own hour.",
    play=play,
    hours=_HOURS,
    settings=Settings(
        replace(
            _CONFIG,
            group_consumer_heartbeat_interval_ms=_HEARTBEAT_MS,
            group_share_heartbeat_interval_ms=_HEARTBEAT_MS,
            group_streams_heartbeat_interval_ms=_HEARTBEAT_MS,
        )
    ),
    groups=len(OF_A_DAY),
)
DEMO = Scenario(
    name="demo",
    summary="The same with forty groups, some of them of KIP-848, whose consumers take their time:"
    " what `groupledger demo` plays.",
    play=play_demo,
    hours=_HOURS,
    settings=Settings(_CONFIG, sample_interval_ms=5 * MINUTE_MS),
    groups=len(_OF_THE_DEMO),
    names=_DEMO_NAMES,
)
