"""Finds the objectives of lag that apply to groups, by the sections `objectives` and `teams` of the settings."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from groupledger.jobs.process.name_patterns import first_matching, names_matching
from groupledger.transforms.objectives.rules.minutes import Objective

if TYPE_CHECKING:
    from collections.abc import Collection

    from groupledger.jobs.process.settings import Settings


def objectives_by_group(settings: Settings, names: Collection[str]) -> dict[str, list[Objective]]:
    """Returns the objectives of each group that has any, in the order of the settings."""
    found: defaultdict[str, list[Objective]] = defaultdict(list)
    if not settings.objectives:
        return found
    team_of = first_matching(settings.team_patterns(), names)
    for name, each in settings.objectives.items():
        objective = Objective(
            name=name, lag_s=each.lag_s, target_percent=each.target_percent, window_days=each.window_days
        )
        held = (
            {group for group, team in team_of.items() if team == each.team}
            if each.groups is None
            else names_matching(each.groups, names)
        )
        for group in held:
            found[group].append(objective)
    return found
