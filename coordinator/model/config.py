"""The broker settings that the group coordinator reads, under Kafka's names and with Kafka's defaults."""

from dataclasses import dataclass
from typing import Final

BIDIRECTIONAL: Final = "bidirectional"
UPGRADE: Final = "upgrade"
DOWNGRADE: Final = "downgrade"
DISABLED: Final = "disabled"
KAFKA_4_2: Final = "4.2"
KAFKA_4_4: Final = "4.4"
RELEASES: Final = (KAFKA_4_2, KAFKA_4_4)
"""The releases that the model can play. docs/protocols.md lists the differences."""
MIGRATION_POLICIES: Final = (BIDIRECTIONAL, UPGRADE, DOWNGRADE, DISABLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    release: str = KAFKA_4_2
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = (1 << 31) - 1
    new_member_join_timeout_ms: int = 300_000  # a constant of the broker: no setting changes it
    offset_metadata_max_bytes: int = 4_096  # compared with String.length(), which counts UTF-16 units
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    offsets_topic_num_partitions: int = 50
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = (1 << 31) - 1
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_regex_refresh_min_interval_ms: int = 10_000  # a constant of the broker: no setting changes it
    group_consumer_migration_policy: str = BIDIRECTIONAL  # which groups with members may change their protocol
    group_consumer_assignment_interval_ms: int = 1_000  # between two targets; not in 4.2
    group_share_assignment_interval_ms: int = 1_000
    group_streams_assignment_interval_ms: int = 1_000
    group_share_session_timeout_ms: int = 45_000
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_max_size: int = 200
    group_streams_session_timeout_ms: int = 45_000
    group_streams_heartbeat_interval_ms: int = 5_000
    group_streams_max_size: int = (1 << 31) - 1
    group_streams_num_standby_replicas: int = 0
    group_streams_initial_rebalance_delay_ms: int = 3_000
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")

    @property
    def is_4_4(self) -> bool:
        return self.release == KAFKA_4_4

    @property
    def first_epoch(self) -> int:
        """Returns the epoch of a new consumer, share or streams group before its first change."""
        return 1 if self.is_4_4 else 0

    def may_assign(self, targeted_at_ms: int, interval_ms: int, now_ms: int) -> bool:
        """Returns whether a group may get a new target now: in 4.4 only `interval_ms` after the last one.
        `targeted_at_ms` is when that was computed; 0 means that there is none, or that it does not count."""
        return not self.is_4_4 or not targeted_at_ms or now_ms >= targeted_at_ms + interval_ms

    @property
    def upgrades_groups(self) -> bool:
        return self.group_consumer_migration_policy in (BIDIRECTIONAL, UPGRADE)

    @property
    def downgrades_groups(self) -> bool:
        return self.group_consumer_migration_policy in (BIDIRECTIONAL, DOWNGRADE)
