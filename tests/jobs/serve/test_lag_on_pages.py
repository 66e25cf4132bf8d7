"""Goal: five situations in which lag was reported wrongly, each played through the rules of lag with what a broker
showed, and asked as a person, a program that reads Burrow, and an autoscaler do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from groupledger.jobs.ask.lag_answers import PLAIN
from groupledger.schemas.instants import instant_if_known, instant_of_ms
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.lag.rules import Commit, End, GroupFacts, LagRow, LagState, Owner, Round, Watermark
from groupledger.transforms.lag.rules.row import MILLISECONDS
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, Client, served, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START_MS = round(AT.timestamp() * 1_000)
ROUND_MS = 15_000
ROUNDS = 41  # ten minutes: far beyond lag.standstill_s
GROUP = {"kafka_partition": 7, "incarnation": 1, "group_type": "classic", "first_seen_at": AT, "last_seen_at": AT}
STATUSES = ("status", "burrow_status")


class Played:
    """One group in rounds; `ends` are log start, high watermark, last stable offset and markers of each partition."""

    def __init__(self, name: str, topic: str) -> None:
        self.name, self.topic = name, topic
        self._state = LagState()
        self._commits = 0
        self.rows: list[LagRow] = []

    def commit(self, offset: int, number: int, partition: int = 0) -> None:
        at_ms = START_MS + number * ROUND_MS - 1_000
        self._state.commit(self.name, self.topic, partition, Commit(offset, at_ms, 7, self._commits))
        self._commits += 1

    def round(self, number: int, *ends: tuple[int, int, int, int | None]) -> None:
        at_ms = START_MS + number * ROUND_MS
        places = [TopicPartition(self.topic, partition) for partition in range(len(ends))]
        watermarks = {
            place: Watermark(at_ms, start, high, stable, markers_at_end=markers)
            for place, (start, high, stable, markers) in zip(places, ends, strict=True)
        }
        owner = Owner(owned=True, member_id="m", client_id="c", client_host="/10.0.0.1")
        facts = {self.name: GroupFacts("Stable", dict.fromkeys(places, owner), is_ownership_known=True)}
        self.rows = list(self._state.round(Round(at_ms, {7: End(self._commits)}, watermarks), facts))

    def keep(self, warehouse: Path) -> None:
        write(warehouse, "groups", {**GROUP, "group_id": self.name, "is_alive": True})
        for row in self.rows:
            instants = {name: instant_if_known(getattr(row, field)) for name, field in MILLISECONDS.items()}
            plain = {name: getattr(row, name) for name in PLAIN}
            date = instant_of_ms(row.sampled_at_ms).date()
            write(warehouse, "lag", {**plain, **instants, "flags": list(row.flags), "sample_date": date})


def after_short_transactions() -> Played:
    """The last offset is the marker of a transaction, which no sample saw open; a fetch of the log's end has."""
    played = Played("eos-lag1", "tx1")
    for number in range(ROUNDS):
        transactions = min(number, 14) + 1
        if number < 15:
            played.commit(2 * transactions - 1, number)
        played.round(number, (0, 2 * transactions, 2 * transactions, 1 if number > 15 else None))
    return played


def behind_an_open_transaction() -> Played:
    """A transaction stays open while others append; its consumer has read all that is committed."""
    played = Played("lso-stuck", "tx2")
    for number in range(ROUNDS):
        end = 54 + max(number - 4, 0) * 6
        if number < 4:
            played.commit(54, number)
        played.round(number, (0, end, 54, None))
    return played


def beyond_the_end() -> Played:
    """A tool has committed 5,000 in a log of 30 records, as mirroring does."""
    played = Played("mm2-literal", "mirror3")
    played.commit(5_000, 0)
    for number in range(ROUNDS):
        played.round(number, (0, 30, 30, None))
    return played


def one_of_three_committed() -> Played:
    """A member owns three partitions of 200 records and has committed one; a fourth never had a record."""
    played = Played("never-committed", "nevercom")
    played.commit(300, 0)
    for number in range(ROUNDS):
        played.round(number, *[(100, 300, 300, None)] * 3, (0, 0, 0, None))
    return played


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    warehouse = tmp_path_factory.mktemp("ledger")
    stretch = {"completeness": "complete", "from_offset": 0, "to_offset": 100, "from_time": AT}
    write(warehouse, "coverage", {"kafka_partition": 7, **stretch, "to_time": AT + 10 * MINUTE})
    plays = (after_short_transactions, behind_an_open_transaction, beyond_the_end, one_of_three_committed)
    for play in plays:
        play().keep(warehouse)
    for name, is_alive in (("loop-848", False), ("kafka-go-like", True)):
        write(warehouse, "groups", {**GROUP, "group_id": name, "is_alive": is_alive})
    with served(warehouse) as found:
        yield found


def of_group(client: Client, name: str, rest: str) -> Any:
    return client.get(f"/api/v1/clusters/{CLUSTER}/groups/{name}{rest}")


def burrow(client: Client, name: str) -> Any:
    return client.get(f"/v3/kafka/{CLUSTER}/consumer/{name}/status")


def partitions(client: Client, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = of_group(client, name, "/lag").json["lag"]
    return found


def listed(client: Client, name: str) -> dict[str, Any]:
    (row,) = client.get(f"/api/v1/clusters/{CLUSTER}/groups?q={name}").json["groups"]
    found: dict[str, Any] = row
    return found


def test_a_marker_is_no_lag(client: Client) -> None:
    (row,) = partitions(client, "eos-lag1")
    assert (row["raw_lag"], row["lag"], row["flags"]) == (1, 0, ["transaction_markers_only"])
    assert [row[name] for name in (*STATUSES, "lag_seconds")] == ["ok", "OK", 0.0]
    assert (listed(client, "eos-lag1")["status"], burrow(client, "eos-lag1").json["status"]["status"]) == ("ok", "OK")
    assert of_group(client, "eos-lag1", "/lag/total").json["lag"] == 0


def test_a_consumer_that_waits_for_a_transaction_is_well(client: Client) -> None:
    (row,) = partitions(client, "lso-stuck")
    assert [row[name] for name in ("committed_offset", "last_stable_offset", "lag", "lag_read_committed")] == [
        *(54, 54, 216, 0)
    ]
    assert [row[name] for name in STATUSES] == ["waiting_for_transaction", "OK"]
    assert row["flags"] == ["open_transaction"]
    assert burrow(client, "lso-stuck").json["status"]["status"] == "OK"
    found = of_group(client, "lso-stuck", "/lag/total").json
    assert (found["lag"], found["persistent_lag"]) == (0, 0)  # nobody is scaled out for it


def test_a_commit_beyond_the_end_is_not_well(client: Client) -> None:
    (row,) = partitions(client, "mm2-literal")
    assert (row["raw_lag"], row["lag"], row["status"]) == (-4_970, None, "ahead_of_log")
    (of_burrow,) = burrow(client, "mm2-literal").json["status"]["partitions"]
    assert (of_burrow["status"], burrow(client, "mm2-literal").json["status"]["status"]) == ("REWIND", "ERR")
    total = listed(client, "mm2-literal")
    assert (total["lag_sum"], total["partitions_without_lag"], total["status"]) == (None, 1, "ahead_of_log")
    refused = of_group(client, "mm2-literal", "/lag/total")
    assert (refused.status, "No lag of the group is known" in refused.json["detail"]) == (400, True)


def test_what_was_not_committed_is_not_zero(client: Client) -> None:
    rows = partitions(client, "never-committed")
    lags = [(row["lag"], row["status"]) for row in rows]
    assert lags == [(0, "ok"), (None, "no_commit"), (None, "no_commit"), (0, "ok")]
    assert rows[3]["flags"] == ["no_commit"]  # nothing is left to read there
    total = listed(client, "never-committed")
    assert (total["lag_sum"], total["partitions_without_lag"], total["status"]) == (0, 2, "no_commit")
    found = {
        policy: of_group(client, "never-committed", f"/lag/total?no_commit={policy}").json.get("lag")
        for policy in ("earliest", "latest", "none", "error")
    }
    assert found == {"earliest": 400, "latest": 2, "none": 0, "error": None}
    assert of_group(client, "never-committed", "/lag/total").json["partitions_without_lag"] == 2
    assert burrow(client, "never-committed").json["status"]["partitions_without_lag"] == 2


def test_burrow_about_groups_without_lag(client: Client) -> None:
    alive, ended, nobody = (burrow(client, name) for name in ("kafka-go-like", "loop-848", "nobody"))
    found = alive.json["status"]
    assert (alive.status, found["group"], found["partition_count"], found["totallag"]) == (200, "kafka-go-like", 0, 0)
    for answer in (ended, nobody):
        assert (answer.status, answer.json["error"]) == (404, True)
    assert listed(client, "kafka-go-like")["status"] is None
