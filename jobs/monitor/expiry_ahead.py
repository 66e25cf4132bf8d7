"""Computes the time until the first committed offset of a group without members expires.

`transforms.offsets.rules.expiring_offsets` decides which offsets expire and when, from the tables as the history's last
pass left them. Only groups without members are read, so the cost of a pass depends on the number of their offsets.
No time is computed

- for any group, while it is unknown how long the brokers keep offsets: the settings do not say it, and the principal
  may not see `offsets.retention.minutes` (DescribeConfigs on the cluster). Kafka's default is not used: an alert that
  trusts it comes days after the loss on brokers that keep offsets for one day.
- for a group that has members in the last sampling round, or that may have ended unseen;
- for an offset that may have been removed unseen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from groupledger.jobs.kafka.offsets_topic import offsets_retention_s
from groupledger.jobs.monitor.timed_rows import rows_with_times
from groupledger.jobs.process.settings import is_given
from groupledger.schemas.tables.committed_offsets import COMMITTED_OFFSETS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.transforms.offsets.rules.expiring_offsets import expiries

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Any

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.tables import ClusterTables

GROUP_COLUMNS = ("group_id", "group_type", "is_alive", "is_simple", "member_count")
GENERATION_COLUMNS = ("group_id", "protocol_type", "current_state_at")
COMMITTED_COLUMNS = ("group_id", "topic", "kafka_partition", "commit_kafka_offset", "committed_at_ms", "expire_at_ms")


class ExpiryAhead:
    def __init__(self) -> None:
        self.retention_s: int | None = None
        self._expire_ms: dict[str, int] = {}

    def read(self, tables: ClusterTables, hidden_ends: Mapping[int, Sequence[int]]) -> None:
        """Reads when the offsets of groups without members expire, if the brokers' retention is known. `hidden_ends`
        are, by partition of `__consumer_offsets`, the offsets below which a removal of committed offsets may be
        unseen."""
        if self.retention_s is not None:
            self._expire_ms = first_expiries(tables, self.retention_s * 1_000, hidden_ends)

    def seconds(self, at_ms: int, with_members: Collection[str]) -> dict[str, float]:
        """Returns, for each group that has no members and is not in `with_members`, the seconds from `at_ms` until its
        first offset expires. 0 means that the offset is due: the brokers check every ten minutes, and may not have
        removed it yet."""
        left = {name: max(ms - at_ms, 0) / 1_000 for name, ms in self._expire_ms.items()}
        return {name: seconds for name, seconds in left.items() if name not in with_members}


def known_retention_s(ledger: Ledger, bootstrap_servers: str) -> int | None:
    """Returns for how many seconds the brokers keep offsets: as the settings say or, if they do not, as a broker does.
    Returns None if the settings do not say it and this user may not read the broker's configuration. Raises
    OutsideError if no broker answers."""
    assumed = ledger.settings.offsets.retention_s
    if is_given(ledger.settings, "offsets", "retention_s"):
        return assumed
    found = offsets_retention_s(bootstrap_servers, ledger.settings.kafka)
    if found not in (None, assumed):
        ledger.warn(
            f"the brokers keep offsets for {found:,} seconds, but groupledger assumes {assumed:,} to recognise expired"
            f" offsets: set offsets.retention_s to {found}"
        )
    return found


def first_expiries(
    tables: ClusterTables, retention_ms: int, hidden_ends: Mapping[int, Sequence[int]]
) -> dict[str, int]:
    """Returns, by group, when the first offset of a group without members expires, in milliseconds since 1970. Commits
    below one of `hidden_ends` of their partition do not count, as they may have been removed unseen."""
    is_empty = pc.field("is_alive") & (pc.field("is_simple") | (pc.field("member_count") == 0))
    groups = rows_with_times(tables, GROUPS, is_empty, GROUP_COLUMNS)
    if not groups:
        return {}
    is_theirs = pc.field("group_id").isin([row["group_id"] for row in groups])
    is_last = is_theirs & pc.field("is_current") & (pc.field("member_count") == 0)
    generations = rows_with_times(tables, GENERATIONS, is_last, GENERATION_COLUMNS)
    of_commits = rows_with_times(tables, COMMITTED_OFFSETS, is_theirs & ~pc.field("is_removed"), COMMITTED_COLUMNS)
    expiring = expiries(
        groups=groups,
        committed=_seen(of_commits, hidden_ends),
        generations=[{**row, "current_state_at": _milliseconds(row["current_state_at"])} for row in generations],
        members=(),
        records=(),
        retention=retention_ms,
    )
    found: dict[str, int] = {}
    for each in expiring:
        name = each.group["group_id"]
        found[name] = min(each.expire_at, found.get(name, each.expire_at))
    return found


def _seen(commits: list[dict[str, Any]], hidden_ends: Mapping[int, Sequence[int]]) -> Iterator[dict[str, Any]]:
    """Yields the commits that nothing unseen can have removed, as the rule takes them."""
    for row in commits:
        hidden_to = max(hidden_ends.get(row["kafka_partition"], ()), default=0)
        if row["commit_kafka_offset"] is not None and row["commit_kafka_offset"] >= hidden_to:
            yield {**row, "committed_at": row["committed_at_ms"], "expire_at": row["expire_at_ms"]}


def _milliseconds(microseconds: int | None) -> int | None:
    return None if microseconds is None else microseconds // 1_000
