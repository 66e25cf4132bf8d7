"""Shows the groups of a round as a table on a terminal, which is updated in place, the worst groups first.

The table is written to standard error, as all progress is, and only if that is a terminal. Names in it are escaped.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from groupledger.jobs.process.terminal import printable
from groupledger.schemas.words import LagStatus
from groupledger.transforms.lag.rules import status

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from typing_extensions import Self

    from groupledger.transforms.lag.rules import Rollup

HEADINGS = ("GROUP", "STATE", "LAG", "WITHOUT-LAG", "MAX", "SECONDS", "CATCH-UP", "LAST-COMMIT", "WORST", "STATUS")
NUMBERS = ("LAG", "WITHOUT-LAG", "MAX", "SECONDS", "CATCH-UP", "LAST-COMMIT")
COLORS = {LagStatus.OK: "green"} | dict.fromkeys((LagStatus.STOPPED, LagStatus.STALLED, LagStatus.REWOUND), "red")
OTHER_COLOR = "yellow"
LINES_AROUND = 5  # title, headings, rules


class LagScreen:
    """Shows a table for each cluster, until the end of its block. The clusters share the lines of the screen."""

    def __init__(self, console: Console | None = None) -> None:
        self._lock = threading.Lock()
        self._shown: dict[str, tuple[str, list[Rollup]]] = {}
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, cluster: str, title: str, rollups: list[Rollup]) -> None:
        """Replaces the table of a cluster by one of `rollups`, the sums of a round; sums by topic are left out."""
        if not self._console.is_terminal:
            return
        with self._lock:
            self._shown[cluster] = title, rollups
            lines = max(self._console.height // len(self._shown) - LINES_AROUND, 1)
            tables = [table_of(*shown, lines) for _, shown in sorted(self._shown.items())]
            self._live.update(Group(*tables), refresh=True)


def table_of(title: str, rollups: Iterable[Rollup], lines: int) -> Table:
    """Returns a table of at most `lines` groups: the worst status first, then the most lag."""
    groups = sorted(
        (each for each in rollups if each.topic is None),
        key=lambda each: (-status.SEVERITY[each.status], -(each.lag_sum or 0), each.group_id),
    )
    left_out = len(groups) - lines
    table = Table(
        title=printable(title), title_justify="left", caption=f"and {left_out:,} more" if left_out > 0 else None
    )
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in NUMBERS else "left", no_wrap=True)
    for each in groups[:lines]:
        worst = None if each.worst_topic is None else f"{each.worst_topic} {each.worst_partition}"
        commit_age = None if each.commit_age_ms is None else each.commit_age_ms / 1_000
        lags = (_number(each.lag_sum), _number(each.partitions_without_lag), _number(each.lag_max), _seconds(each))
        cells = (each.group_id, each.group_state, *lags, duration(each.catch_up_seconds), duration(commit_age), worst)
        color = COLORS.get(each.status, OTHER_COLOR)
        table.add_row(*(Text(printable(cell)) for cell in cells), Text(each.status, style=color))
    return table


def _number(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


def _seconds(each: Rollup) -> str | None:
    """Returns the most seconds of a partition, marked where more may be true."""
    known = each.lag_seconds_max
    if known is None:
        return None
    return f"{known:,.1f}" if each.lag_seconds_lower_bound is None else f"> {known:,.0f}"


def duration(seconds: float | None) -> str | None:
    """Returns a duration in a single unit: 45s, 12m, 3h or 2d; None if it is not known."""
    if seconds is None:
        return None
    for unit_s, name in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f}{name}"
    return f"{seconds:.0f}s"
