"""Goal: the pages of share and streams groups show who has what, how far behind it is, and who keeps copies."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import write_deltalake

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.group_timeline import owners_now
from groupledger.jobs.ask.owners import read_history
from groupledger.jobs.serve.axis import Window
from groupledger.jobs.serve.group_rows import read_groups
from groupledger.jobs.serve.group_values import group_values
from groupledger.jobs.serve.shown import templates
from groupledger.schemas.definitions import schema_of
from tests.jobs.ask.real_groups import EAST, at, write_group
from tests.transforms.history.rules.consumer_groups import of_group
from tests.transforms.history.rules.test_modern_groups import DESCRIBED, LOG, NAMES, SHARE, STREAMS

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

HOUR = timedelta(hours=1)


def warehouse(folder: Path, group_id: str, step: str) -> tuple[ClusterRows, datetime, dict[str, Any]]:
    """Returns the tables up to the end of a step, its instant, and the broker's description of the group then."""
    log = of_group(LOG, group_id)
    last = max(place for place, record in enumerate(log) if record["step"] == step)
    write_group(folder, group_id, log[: last + 1], NAMES)
    (said,) = (each for each in DESCRIBED if (each["group_id"], each["step"]) == (group_id, step))
    return ClusterRows(str(folder), EAST), at(log[last]["after_ms"]) + timedelta(milliseconds=1), said


def page_of(tables: ClusterRows, group_id: str, when: datetime) -> tuple[dict[str, Any], str]:
    """Returns what the page shows, and its text."""
    (rows,) = read_groups(tables, [read_history(tables, group_id)], when - HOUR, when, when)
    shown = group_values(rows, Window(when - HOUR, when), when, 50)
    links = dict.fromkeys(("to_topic", "to_place", "to_instant"), lambda *_: "")
    return shown, templates().get_template("group_body.html").render(**shown, **links, searched_until=when)


def test_a_share_group(tmp_path: Path) -> None:
    """Goal: each partition has a row for each member that shares it, its start and its lag; the picture has
    its bars."""
    tables, when, said = warehouse(tmp_path, SHARE, "s4 and s5 join, more members than partitions")
    place = {"cluster": EAST, "group_id": SHARE, "sampled_at": when, "sample_date": when.date(), "topic": "pages"}
    standing = [{**place, "partition": number, "start_offset": 100 + number, "lag": 7} for number in range(4)]
    write_deltalake(str(tmp_path / "share_partitions"), pa.Table.from_pylist(standing, schema_of("share_partitions")))
    shown, text = page_of(tables, SHARE, when)
    rows = {(f"{row['topic']}-{row['partition']}", row["member_id"]) for row in shown["owners"]}
    assert rows == {(held, member["member_id"]) for member in said["members"] for held in member["holds"][0]}
    assert shown["lag"]["pages", 3]["committed_offset"] == 103
    assert '<th class="n">Start</th>' in text
    assert ">103</td>" in text
    lanes = [lane for topic in shown["drawing"].topics for lane in topic.lanes]
    assert any(" and 1 more since" in each.text for lane in lanes for each in lane.shapes)


def test_a_streams_group(tmp_path: Path) -> None:
    """Goal: the page shows beside the tasks of each member the tasks of which it keeps copies, as the broker says."""
    tables, when, said = warehouse(tmp_path, STREAMS, "a3 joins")
    shown, text = page_of(tables, STREAMS, when)
    expected = {
        member["member_id"]: f"standby {' '.join(member['holds'][1])}"
        for member in said["members"]
        if member["holds"][1]
    }
    assert shown["copies"] == expected
    assert len(expected) > 1
    assert all(f"<td>{words}</td>" in text for words in expected.values())
    owns = {row["member_id"]: row["owns"] for row in owners_now(tables, STREAMS)}
    assert all(owns[member_id].endswith(words) for member_id, words in expected.items())
