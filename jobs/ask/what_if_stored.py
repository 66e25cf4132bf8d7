"""Reads the newest stored answers of what-if, and sums them up."""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from groupledger.jobs.ask.what_if_savings import capped_answer, saving

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer

GROUPS_NAMED_MAX: Final = 10


def stored_of_group(tables: ClusterRows, name: str) -> list[Answer]:
    """Returns the answers about a group from the newest stored run of what-if that included it, the greatest savings
    first; empty if there is none."""
    return stored_of_groups(tables, [name])[name]


def stored_of_groups(tables: ClusterRows, names: Sequence[str]) -> defaultdict[str, list[Answer]]:
    """Returns the same as `stored_of_group` for several groups, by name."""
    answers: defaultdict[str, list[Answer]] = defaultdict(list)
    rows = tables.rows_if_any("what_if_effects", ("group_id", "in", names))
    for row in sorted(rows, key=itemgetter("ran_at"), reverse=True):
        of_group = answers[row["group_id"]]
        if not of_group or of_group[0]["ran_at"] == row["ran_at"]:
            of_group.append(capped_answer(row))
    for of_group in answers.values():
        of_group.sort(key=_gain, reverse=True)
    return answers


def stored_totals(tables: ClusterRows) -> list[Answer]:
    """Returns the savings of the newest stored run of what-if, summed up over its groups, a row for each setting; empty
    if no run is stored."""
    if not tables.exists("what_if_runs") or not tables.exists("what_if_effects"):
        return []
    runs = tables.rows("what_if_runs", columns=("run_id", "ran_at"))
    newest = max(runs, key=itemgetter("ran_at"), default=None)
    return (
        []
        if newest is None
        else totals(map(capped_answer, tables.rows("what_if_effects", ("run_id", "=", newest["run_id"]))))
    )


def totals(answers: Iterable[Answer]) -> list[Answer]:
    """Returns, for each setting, the savings over all groups for which they are known."""
    by_setting: dict[str, list[Answer]] = {}
    for answer in answers:
        by_setting.setdefault(answer["setting"], []).append(answer)
    return [_total(setting, rows) for setting, rows in by_setting.items()]


def _gain(answer: Answer) -> float:
    """Returns how many rebalances are saved, and nothing where that is unclear or unknown."""
    figure = answer["rebalances"]
    return 0.0 if figure is None else saving(figure) or 0.0


def _total(setting: str, rows: Sequence[Answer]) -> Answer:
    """Returns the sums over the groups for which the setting's effect is clear."""
    known = [row for row in rows if row["refusal"] is None and saving(row["rebalances"]) is not None]
    gain = sorted(known, key=_gain, reverse=True)
    return {
        "setting": setting,
        "groups": len(rows),
        "groups_told": len(known),
        "rebalances_observed": round(sum(row["rebalances"]["observed_low"] for row in known)),
        "rebalances_spared": round(sum(map(_gain, known))),
        "rebalances_spared_low": round(sum(row["rebalances"]["spared_low"] for row in known)),
        "rebalances_spared_high": round(sum(row["rebalances"]["spared_high"] for row in known)),
        "gain_most": [row["group_id"] for row in gain[:GROUPS_NAMED_MAX] if row["rebalances"]["spared_low"] > 0],
    }


def sentence(total: Answer) -> str:
    """Returns a sentence with the saving of a setting in one number, and for how many groups it is known."""
    saved, observed = total["rebalances_spared"], total["rebalances_observed"]
    about = "" if total["rebalances_spared_low"] == total["rebalances_spared_high"] else "about "
    what = (
        f"{saved:,} of {observed:,} rebalances avoided"
        if saved >= 0
        else f"{-saved:,} more than {observed:,} rebalances"
    )
    names = ", ".join(total["gain_most"])
    most = f"; most in {names}" if names and total["groups"] > 1 else ""
    return (
        f"{total['setting']}: {about}{what} in"
        f" {total['groups_told']:,} of {total['groups']:,} groups for which it can be computed{most}."
    )
