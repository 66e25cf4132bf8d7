"""Goal: the inventory has each present member once, by the last name of its client, and says which members can't move
to KIP-848."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.inventory import blocked_groups, inventory
from groupledger.jobs.cli.main import main
from groupledger.schemas.words import MoveBlocker
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, fill, write

if TYPE_CHECKING:
    from pathlib import Path


def member(group: str, client: str, *, is_open: int = 1, **fields: Any) -> dict[str, Any]:
    row = {"group_id": group, "incarnation": 1, "member_id": f"{group}-{client}", "client_id": client}
    row |= {"client_host": f"/10.0.0.{len(client)}", "group_type": "classic", "is_classic": True, "from_offset": 9}
    return row | {"is_open": is_open, **fields}


def request(client: str, version: str, minute: int, name: str = "apache-kafka-java") -> dict[str, Any]:
    row = {"client_id": client, "client_host": f"10.0.0.{len(client)}", "happened_at": AT + minute * MINUTE}
    return row | {"client_software_name": name, "client_software_version": version, "happened_date": AT.date()}


def make(warehouse: Path) -> ClusterRows:
    for name in ("pay", "odd", "moved"):
        fill(warehouse, name, "orders", "gone")
    current = {"incarnation": 1, "generation": 3, "kafka_offset": 9, "is_current": True, "protocol_type": "consumer"}
    write(
        warehouse,
        "generations",
        {**current, "group_id": "pay", "protocol": "range"},
        {**current, "group_id": "odd", "protocol": "acme-sticky"},
        {**current, "group_id": "moved", "protocol": "uniform"},
    )
    write(
        warehouse,
        "members",
        member("pay", "a", group_instance_id="one"),
        member("pay", "bb"),
        member("pay", "ccc"),
        member("pay", "left", is_open=0),
        member("odd", "bb"),
        member("moved", "dddd", group_type="consumer", is_classic=False),
    )
    write(
        warehouse,
        "requests",
        request("a", "3.7.0", 1),
        request("a", "4.1.0", 2),
        request("bb", "4.1.0", 1),
        request("dddd", "2.0.0", 1, "sarama"),
    )
    return ClusterRows(str(warehouse), CLUSTER)


def test_an_inventory(tmp_path: Path) -> None:
    found = inventory(make(tmp_path))
    rows = {(row["group_id"], row["library"], row["version"]): row for row in found}
    assert {key: (row["members"], row["static_members"], row["move_blockers"]) for key, row in rows.items()} == {
        ("pay", "apache-kafka-java", "4.1.0"): (2, 1, []),
        ("pay", None, None): (1, 0, [MoveBlocker.UNKNOWN_CLIENT]),
        ("odd", "apache-kafka-java", "4.1.0"): (1, 0, [MoveBlocker.OWN_ASSIGNOR]),
        ("moved", "sarama", "2.0.0"): (1, 0, []),
    }
    assert blocked_groups(found) == {MoveBlocker.OWN_ASSIGNOR: ["odd"], MoveBlocker.UNKNOWN_CLIENT: ["pay"]}


def test_the_command(tmp_path: Path) -> None:
    """Goal: the command has the rows of one group, those that can't move first."""
    make(tmp_path)
    words = ["inventory", "pay", "--warehouse", str(tmp_path), "--cluster", CLUSTER]
    printed = CliRunner().invoke(main, [*words, "--json"])
    rows = [json.loads(line) for line in printed.stdout.splitlines()]
    assert [row["move_blockers"] for row in rows] == [["unknown_client"], []]
    plain = CliRunner().invoke(main, words)
    assert "1 group kept from KIP-848 by unknown_client" in plain.stderr
    assert CliRunner().invoke(main, [*words[:1], "nobody", *words[2:]]).exit_code == 2
