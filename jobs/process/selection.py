"""Chooses the groups, topics and partitions for metrics and messages, by the section `selection` of the settings.

A name is chosen if a pattern of `include` matches it, or if there is no such pattern, and no pattern of `exclude`
matches. A row of `lag` is chosen if its group, its topic and its partition are. An incident is chosen if its group is
and, if it names partitions, one of these is. An incident that is not about a group, such as a transaction that hides
the commits of many groups, is always chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.jobs.process.name_patterns import names_matching

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from groupledger.jobs.process.settings import NameLists, SelectionSettings
    from groupledger.transforms.lag.rules import LagRow

    Unit = tuple[str, int]
    Incident = Mapping[str, Any]


def chosen_names(lists: NameLists, names: Iterable[str]) -> set[str]:
    found = set(names)
    if lists.include:
        found = names_matching(_any_of(lists.include), found)
    return found - names_matching(_any_of(lists.exclude), found) if lists.exclude else found


def chosen_rows(selection: SelectionSettings, rows: Sequence[LagRow]) -> Sequence[LagRow]:
    """Returns the rows of a round that are chosen, in their order."""
    if not _is_any(selection):
        return rows
    groups = chosen_names(selection.groups, (row.group_id for row in rows))
    units = _chosen_units(selection, ((row.topic, row.partition) for row in rows))
    return [row for row in rows if row.group_id in groups and (row.topic, row.partition) in units]


def chosen_incidents(selection: SelectionSettings, incidents: Sequence[Incident]) -> Sequence[Incident]:
    """Returns the rows of `incidents` that are chosen, in their order."""
    if not _is_any(selection):
        return incidents
    groups = chosen_names(selection.groups, (row["group_id"] for row in incidents if row["group_id"] is not None))
    units = _chosen_units(selection, (unit for row in incidents for unit in _units_of(row)))
    return [row for row in incidents if row["group_id"] is None or _is_chosen(row, groups, units)]


def _is_any(selection: SelectionSettings) -> bool:
    return any(lists.include or lists.exclude for _, lists in selection)


def _is_chosen(incident: Incident, groups: set[str], units: set[Unit]) -> bool:
    own = _units_of(incident)
    return incident["group_id"] in groups and (not own or not units.isdisjoint(own))


def _units_of(incident: Incident) -> list[Unit]:
    return [(each["topic"], each["partition"]) for each in incident["partitions"] or ()]


def _chosen_units(selection: SelectionSettings, units: Iterable[Unit]) -> set[Unit]:
    found = set(units)
    topics = chosen_names(selection.topics, {topic for topic, _ in found})
    named = {f"{topic}-{partition}": (topic, partition) for topic, partition in found if topic in topics}
    return {named[name] for name in chosen_names(selection.partitions, named)}


def _any_of(patterns: Iterable[str]) -> str:
    return "|".join(f"(?:{pattern})" for pattern in patterns)
