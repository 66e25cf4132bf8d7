"""Combines sets of partitions by topic id: the partitions of members of consumer and share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Partitions = dict[str, tuple[int, ...]]
"""Partitions by topic id, ascending. A topic without partitions is left out, but for `all_partitions_of`."""


def partitions_of(listed: Iterable[Mapping[str, Any]]) -> Partitions:
    return {each["topic_id"]: tuple(sorted(each["partitions"])) for each in listed if each["partitions"]}


def all_partitions_of(listed: Iterable[Mapping[str, Any]]) -> Partitions:
    """Returns partitions by topic id. Unlike `partitions_of` it includes topics without partitions."""
    return {each["topic_id"]: tuple(sorted(each["partitions"])) for each in listed}


def without(partitions: Mapping[str, Iterable[int]], others: Mapping[str, Iterable[int]]) -> Partitions:
    """Returns the partitions that are not among `others`."""
    return _those(partitions, lambda topic, number: number not in others.get(topic, ()))


def common(partitions: Mapping[str, Iterable[int]], others: Mapping[str, Iterable[int]]) -> Partitions:
    """Returns the partitions that are also among `others`."""
    return _those(partitions, lambda topic, number: number in others.get(topic, ()))


def _those(partitions: Mapping[str, Iterable[int]], is_one: Callable[[str, int], bool]) -> Partitions:
    found = {
        topic: tuple(sorted(number for number in numbers if is_one(topic, number)))
        for topic, numbers in partitions.items()
    }
    return {topic: numbers for topic, numbers in found.items() if numbers}


def together(partitions: Mapping[str, Iterable[int]], others: Mapping[str, Iterable[int]]) -> Partitions:
    both = dict.fromkeys([*partitions, *others])
    numbers = {topic: [*partitions.get(topic, ()), *others.get(topic, ())] for topic in both}
    return {topic: tuple(sorted(dict.fromkeys(numbers[topic]))) for topic in both}


def units_of(partitions: Mapping[str, Iterable[int]]) -> list[tuple[str, int]]:
    """Returns each partition as (topic id, partition number)."""
    return [(topic, number) for topic, numbers in partitions.items() for number in numbers]
