"""Reads the history of groups, replays it under other settings, and computes how much these would have saved."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.what_if.answer import answers
from groupledger.coordinator.what_if.figures import FIGURES
from groupledger.coordinator.what_if.setting import Setting, SettingError, changed
from groupledger.jobs.ask.answers import group_row
from groupledger.jobs.ask.rebalances import is_within, rebalances_with_triggers
from groupledger.jobs.ask.rounds import last_round, of_round
from groupledger.jobs.ask.what_if_savings import capped
from groupledger.jobs.process.errors import InputError
from groupledger.transforms.history.rules.events import SESSION_DEFAULT_MS
from groupledger.transforms.history.rules.what_if import NotReplayableError, WhatIfRows, observed_of, workload_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer

WINDOW = timedelta(days=7)
"""The length of a question's window, if the question does not say when it begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfQuestion:
    """A what-if about [since, until). Each of `settings` is one combination of settings, as differences from the
    group's actual ones. `actual` are actual settings that the ledger can't see, in the same form. `consumer_session_ms`
    is the session timeout of consumers that the history was computed with."""

    since: datetime
    until: datetime
    settings: tuple[tuple[str, ...], ...]
    actual: tuple[str, ...] = ()
    consumer_session_ms: int = SESSION_DEFAULT_MS

    def row(self) -> Answer:
        """Returns the columns of `what_if_runs` that say what was asked."""
        return {
            "since": self.since,
            "until": self.until,
            "settings": [",".join(asked) for asked in self.settings],
            "told_setting": ",".join(self.actual),
        }


def settings_in(text: str) -> tuple[str, ...]:
    """Returns the settings in a text that separates them by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def what_if(tables: ClusterRows, names: Sequence[str] | None, question: WhatIfQuestion) -> Iterator[list[Answer]]:
    """Yields, for each group in `names`, the list of its answers, one for each combination of settings; without
    `names`, for all groups that rebalanced in the question's time. Raises InputError for unknown settings or groups."""
    for asked in (question.actual, *question.settings):
        _changed(Setting(), asked)
    if names is None:
        names = sorted(
            {
                row["group_id"]
                for row in tables.rows(
                    "rebalances",
                    ("happened_at", ">=", question.since),
                    ("happened_at", "<", question.until),
                    columns=("group_id",),
                )
            }
        )
    else:
        for name in names:
            group_row(tables, name)
    for name in names:
        yield _of_group(tables, name, question)


def _changed(setting: Setting, asked: Iterable[str]) -> Setting:
    try:
        return changed(setting, asked)
    except SettingError as error:
        raise InputError(str(error)) from error


def rows_of(tables: ClusterRows, name: str, since: datetime, until: datetime) -> WhatIfRows:
    """Returns the rows of a group from which its history in [since, until) can be replayed."""
    of_group = ("group_id", "=", name)
    return WhatIfRows(
        members=tables.rows("members", of_group),
        generations=tables.rows("generations", of_group),
        rebalances=[
            row for row in rebalances_with_triggers(tables, [name]) if is_within(row["happened_at"], since, until)
        ],
        assignments=tables.rows("assignments", of_group, columns=("topic", "partition", "valid_from", "valid_to")),
        requests=tables.rows_if_any(
            "requests",
            of_group,
            ("happened_at", ">=", since),
            ("happened_at", "<", until),
            columns=("member_id", "api", "happened_at", "logged_at"),
        ),
        since=since,
        until=until,
    )


def _of_group(tables: ClusterRows, name: str, question: WhatIfQuestion) -> list[Answer]:
    every_row = rows_of(tables, name, question.since, question.until)
    rows = replace(every_row, consumer_session_ms=question.consumer_session_ms)
    topics = sorted({row["topic"] for row in rows.assignments})
    try:
        workload = workload_of(rows, question.actual, _rate(tables, topics, question))
    except NotReplayableError as refused:
        return [_answer(name, asked, None, refusal=str(refused)) for asked in question.settings]
    changes = {asked: _changed_or_refused(workload.actual, asked) for asked in question.settings}
    settings = {asked: setting for asked, setting in changes.items() if isinstance(setting, Setting)}
    refusals = {asked: why for asked, why in changes.items() if isinstance(why, str)}
    effects = answers(workload, list(settings.values()), observed_of(rows.rebalances))
    answered = {
        asked: _answer(
            name,
            asked,
            workload.actual,
            setting=answer.asked,
            runs=answer.runs,
            error=answer.error,
            refusal=answer.refusal,
            figures={name: asdict(figure) for name, figure in answer.figures.items()},
        )
        for asked, answer in zip(settings, effects, strict=True)
    }
    return [
        answered[asked] if asked in answered else _answer(name, asked, workload.actual, refusal=refusals[asked])
        for asked in question.settings
    ]


def _changed_or_refused(setting: Setting, asked: Iterable[str]) -> Setting | str:
    """Returns the setting asked for, or why it can't be combined with the group's settings."""
    try:
        return changed(setting, asked)
    except SettingError as error:
        return str(error)


def _answer(
    name: str,
    asked: Sequence[str],
    actual: Setting | None,
    *,
    refusal: str | None,
    setting: Setting | None = None,
    **more: Any,
) -> Answer:
    figures = more.get("figures") or {}
    return {
        "group_id": name,
        "setting": ",".join(asked),
        "actual_setting": None if actual is None else str(actual),
        "asked_setting": None if setting is None else str(setting),
        "runs": more.get("runs"),
        "replay_error": more.get("error"),
        "refusal": refusal,
        **{name: _flat(figures.get(name)) for name in FIGURES},
    }


def _flat(figure: dict[str, Any] | None) -> Answer | None:
    """Returns the bounds of one figure's intervals by name."""
    if figure is None:
        return None
    flat = {
        f"{name}_{bound}": None if figure[name] is None else round(figure[name][bound], 3)
        for name in ("observed", "replayed", "asked", "spared")
        for bound in ("low", "high")
    }
    return capped(flat)


def _rate(tables: ClusterRows, topics: Sequence[str], question: WhatIfQuestion) -> float | None:
    """Returns how many records a second a partition gets; None without two rounds of sampling."""
    if not tables.exists("watermarks"):
        return None
    last = last_round(tables, "watermarks", question.until)
    first = last_round(tables, "watermarks", question.since) or (
        None if last is None else last_round(tables, "watermarks", question.since + (last - question.since) / 2)
    )
    if first is None or last is None or first >= last:
        return None
    ends = [
        {
            (row["topic"], row["partition"]): row["high_watermark"]
            for row in tables.rows("watermarks", *of_round(at), ("topic", "in", list(topics)))
            if row["high_watermark"] is not None
        }
        for at in (first, last)
    ]
    grown = [ends[1][partition] - end for partition, end in ends[0].items() if partition in ends[1]]
    return max(0, sum(grown)) / len(grown) / (last - first).total_seconds() if grown else None
