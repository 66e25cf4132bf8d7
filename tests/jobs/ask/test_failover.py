"""Goal: command, JSON and page report the effect of a failover, from two ledgers and MirrorMaker's syncs, and the
unknown parts with their reasons."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.failover import Names, failover
from groupledger.jobs.cli.main import main
from groupledger.jobs.ingest.offset_syncs import KEPT_MAX, kept, row_of
from groupledger.jobs.kafka.share_state_topic import StateRecord
from groupledger.jobs.process.errors import InputError
from groupledger.schemas.codec.offset_sync import OffsetSync, encode_offset_sync
from tests.jobs.ask.mirrored import EAST, TOPIC, WEST, commits, fill, syncs
from tests.jobs.serve.serving import AT, MINUTE, served, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return fill(tmp_path)


def run(warehouse: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["failover", "pay", "--warehouse", str(warehouse), *words])


def rows(warehouse: Path, *words: str) -> dict[int, dict[str, Any]]:
    done = run(warehouse, "--cluster", EAST, "--to", WEST, "--json", *words)
    assert done.exit_code == 0, done.output
    return {row["partition"]: row for row in map(json.loads, done.stdout.splitlines())}


def test_each_outcome(warehouse: Path) -> None:
    """Goal: exact, skipped, repeated as an interval; before the first sync, without a commit and without a sync it is
    unknown, with the reason."""
    found = rows(warehouse)
    assert {at: row["outcome"] for at, row in found.items()} == {
        0: "exact",
        1: "skips",
        2: "repeats",
        3: "unknown",
        4: "no_commit",
        5: "unknown",
    }
    counts = ("repeated_min", "repeated_max", "skipped_min", "skipped_max")
    assert [found[1][count] for count in counts] == [0, 0, 15, 15]
    assert [found[2][count] for count in counts] == [51, 100, 0, 0]
    assert "before the first known" in found[3]["reason"]
    assert "auto.offset.reset" in found[4]["reason"]
    assert "no offset sync names the partition" in found[5]["reason"]
    assert all(found[at][count] is None for at in (3, 4, 5) for count in counts)
    done = run(warehouse, "--cluster", EAST, "--to", WEST)
    assert (
        "A failover of pay from east to west would read 51 to 100 records again and skip 15; of 3 of 6 partitions it"
        " is not known." in done.output
    )


def test_without_syncs(tmp_path: Path) -> None:
    """Goal: without the syncs nothing is known, and the answer says which topic has them."""
    commits(tmp_path, EAST, TOPIC, {0: 100})
    commits(tmp_path, WEST, f"{EAST}.{TOPIC}", {0: 80})
    found = rows(tmp_path)
    assert (found[0]["outcome"], "mm2-offset-syncs." in found[0]["reason"]) == ("unknown", True)
    assert "is unknown: see the reasons" in run(tmp_path, "--cluster", EAST, "--to", WEST).output


def test_names_of_copies(warehouse: Path) -> None:
    """Goal: an alias and equal names are taken as asked; where two topics may be the copy, it is asked for."""
    assert rows(warehouse, "--same-names")[0]["target_topic"] == "orders"
    assert rows(warehouse, "--same-names")[0]["outcome"] == "no_commit"
    assert rows(warehouse, "--alias", EAST)[0]["outcome"] == "exact"
    there = ClusterRows(str(warehouse), WEST)
    commits(warehouse, "north", f"a.{TOPIC}", {0: 1})
    commits(warehouse, "north", f"b.{TOPIC}", {0: 1})
    north = ClusterRows(str(warehouse), "north")
    with pytest.raises(InputError, match=r"may be the copy of orders: a\.orders, b\.orders\. Give MirrorMaker"):
        failover(ClusterRows(str(warehouse), EAST), north, "pay", AT + 2 * MINUTE, Names())
    with pytest.raises(InputError, match="goes to another cluster"):
        failover(there, there, "pay")


def test_which_syncs(warehouse: Path) -> None:
    """Goal: syncs may lie in the target, too; those to a third cluster don't count, and ambiguous ones are refused."""
    syncs(warehouse, "mm2-offset-syncs.north.internal", (0, 100, 1))
    assert rows(warehouse)[0]["outcome"] == "exact"
    syncs(warehouse, f"mm2-offset-syncs.{EAST}.internal", (0, 100, 2), cluster=WEST)
    done = run(warehouse, "--cluster", EAST, "--to", WEST)
    assert (done.exit_code, "may have the offset syncs from east to west" in done.output) == (2, True)


def test_the_group_is_not_in_the_target(warehouse: Path) -> None:
    """Goal: a group that the target's log does not have has no commit there; one that nobody knows is refused."""
    other = {"cluster": "south", "kafka_partition": 7, "completeness": "complete", "from_offset": 0, "to_offset": 100}
    write(warehouse, "coverage", other | {"from_time": AT, "to_time": AT + 10 * MINUTE})
    done = run(warehouse, "--cluster", EAST, "--to", "south", "--json")
    assert {json.loads(line)["outcome"] for line in done.stdout.splitlines()} == {"no_commit"}
    done = CliRunner().invoke(
        main, ["failover", "nobody", "--warehouse", str(warehouse), "--cluster", EAST, "--to", WEST]
    )
    assert done.exit_code == 2


def test_page_and_json(warehouse: Path) -> None:
    """Goal: both say what the command says; the group's page leads there; names are data."""
    with served(warehouse) as client:
        path = f"clusters/{EAST}/groups/pay/failover"
        answer = client.get(f"/api/v1/{path}?to={WEST}")
        assert answer.status == 200, answer.text
        assert {row["partition"]: row for row in answer.json["partitions"]}[2]["repeated_max"] == 100
        assert (answer.json["target"], answer.json["not_known"]) == (WEST, None)
        page = client.get(f"/{path}", Accept="text/html")
        assert page.status == 200
        assert "51 to 100 records again and skip 15" in page.text
        assert "before the first known offset sync" in page.text
        for wrong in (f"?to={EAST}", "?to=nowhere", f"?to={WEST}&alias=a&same_names=true"):
            assert client.get(f"/api/v1/{path}{wrong}").status in {400, 404}


def test_rows_of_records() -> None:
    """Goal: a record that is no sync is kept with its reason; of a busy partition the last sync is always kept."""
    key, value = encode_offset_sync(OffsetSync("orders", 1, 5, 4))
    found = row_of(StateRecord(0, 9, 1_000, key, value))
    assert (found["topic"], found["upstream_offset"], found["downstream_offset"]) == ("orders", 5, 4)
    assert row_of(StateRecord(0, 10, None, b"", None))["decode_error"] == "truncated"
    rows = [row_of(StateRecord(0, offset, None, key, value)) for offset in range(1_000)]
    assert len(kept(rows)) <= KEPT_MAX
    assert kept(rows)[-1]["kafka_offset"] == 999
