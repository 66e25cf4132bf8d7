"""Finds the present diagnoses of all groups in trouble, the most severe first: `groupledger groups --why`.

A diagnosis takes a moment. So only the groups with the most severe trouble are diagnosed, and the others are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.ask.episode_diagnosis import diagnosis_of_group
from groupledger.jobs.ask.incidents import wrapped
from groupledger.jobs.ask.troubled import gravity, in_words, is_troubled
from groupledger.jobs.process.instants import in_zone
from groupledger.jobs.process.terminal import coloured, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer


def present_diagnoses(
    tables: ClusterRows, groups: Sequence[Answer], until: datetime, most: int
) -> tuple[list[Answer], int]:
    """Returns the gravest present diagnosis of each of the first `most` groups in trouble, and how many more groups are
    in trouble. `groups` are rows of `group_list`, in its order, and `until` is the last known instant. A group without
    a diagnosis is described by its status, or by the number of its open incidents."""
    troubled = [row for row in groups if is_troubled(row)]
    found = [_present(tables, row, until) for row in troubled[:most]]
    return sorted(found, key=lambda row: -gravity(row["severity"])), len(troubled) - len(found)


def _present(tables: ClusterRows, row: Answer, until: datetime) -> Answer:
    found = diagnosis_of_group(tables, row["group_id"], until)
    of_group = {name: row[name] for name in ("group_id", "status", "lag_sum", "open_incidents")}
    if found is None:
        severity, what = in_words(row)
        none = dict.fromkeys(("cause", "fault", "title", "who", "since", "harm", "remedy", "change"))
        return {**of_group, "severity": severity, **none, "what": what}
    return {
        **of_group,
        "severity": found.severity,
        "cause": found.cause,
        "fault": found.fault,
        "title": found.title,
        "who": found.who,
        "since": found.since,
        "harm": "; ".join(found.harms) or None,
        "remedy": found.remedy or None,
        "change": found.change,
        "what": found.what,
    }


def present_lines(row: Answer) -> Iterator[str]:
    """Yields the lines of a present diagnosis for a terminal; all names in them are escaped."""
    title = "" if row["title"] is None else f"  {row['title']}, since {in_zone(row['since'])}"
    yield f"{coloured(row['severity'])}  {printable(row['group_id'])}{title}"
    yield from (f"    {line}" for line in wrapped(row["what"]))
    if row["harm"] is not None:
        yield from (f"    {line}" for line in wrapped(f"harm: {row['harm']}"))
