"""Finds the part of a question about an owner that the ledger has never seen (group, topic or partition), and suggests
similar names.

If a topic exists and the group owns nothing of it, the answer is that the group does not own it. But if nobody ever
read, committed or sampled a topic, the ledger can say nothing about it, and most often its name was typed wrongly.
Partitions are numbered from 0, so those below the highest one that was seen exist, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from groupledger.schemas.words import NeverSeen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Unseen:
    """The part that was never seen (a word of `NeverSeen`), its name in the question, and the most similar names that
    were seen."""

    what: str
    name: str
    nearest_names: list[str]


def unseen_group(name: str, group_ids: Iterable[str]) -> Unseen:
    """Returns the answer for a group without a row in the ledger."""
    return Unseen(NeverSeen.GROUP, name, _nearest(name, group_ids))


def unseen_place(topic: str, partition: int, last_partitions: Mapping[str, int | None]) -> Unseen | None:
    """Returns which part was never seen, the topic or the partition; None if the partition exists."""
    if topic not in last_partitions:
        return Unseen(NeverSeen.TOPIC, topic, _nearest(topic, last_partitions))
    last = last_partitions[topic]
    if last is not None and partition <= last:
        return None
    return Unseen(NeverSeen.PARTITION, f"{topic} {partition}", [] if last is None else [f"{topic} {last}"])


def _nearest(name: str, names: Iterable[str]) -> list[str]:
    """Returns up to three names, the nearest first; upper and lower case may be mixed up, too."""
    folded: dict[str, list[str]] = {}
    for each in sorted(names):
        folded.setdefault(each.casefold(), []).append(each)
    return [each for close in get_close_matches(name.casefold(), folded) for each in folded[close]][:3]
