"""Goal: the one table of the coordinator's texts is that of a real broker, word for word, reading and writing.

`coordinator_4_2.txt` has an entry of each kind that a 4.2 broker of the broker tests wrote, `coordinator_4_4.txt` of a
4.4 broker. The broker tests do the same with all that their broker writes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from groupledger.coordinator.model.log_lines import LogEvent, Reason, render
from groupledger.schemas.kafka.coordinator_log import CLASSES, CLASSIC, LEVELS, OTHERS
from groupledger.schemas.kafka.log_template import current_formats
from groupledger.schemas.kafka.rebalance_reasons import REASONS
from groupledger.schemas.kinds.triggers import TRIGGERS, trigger_of
from groupledger.schemas.words import CoordinatorEventKind, words_of
from tests.schemas.kafka.written_again import written_again

RECORDED, RECORDED_4_4 = (
    (Path(__file__).parent / f"coordinator_{release}.txt").read_text(encoding="utf-8").splitlines()
    for release in ("4_2", "4_4")
)
CLASSIC_KINDS = {kind for kind, _ in CLASSIC}
# Logged by the reference coordinator, too.
ALSO_WRITTEN = {"simple_group_created", "partitions_deleted", "groups_deleted"}


@pytest.mark.parametrize("line", RECORDED)
def test_a_brokers_lines_are_written_again(line: str) -> None:
    """Goal: the values that are read from a real line give the same text again, and the whole line for texts that the
    coordinator of this project writes, too: time, level, partition, words and logger."""
    message, again = written_again(line)
    assert again is not None
    assert again.by_template == message
    if again.kind in CLASSIC_KINDS | ALSO_WRITTEN:
        assert again.by_coordinator == line


@pytest.mark.parametrize("line", RECORDED_4_4)
def test_lines_of_4_4_are_written_again(line: str) -> None:
    """Goal: the texts that 4.3 and 4.4 have changed or added are read, too."""
    message, again = written_again(line)
    assert again is not None
    assert again.by_template == message


def test_the_recorded_lines_are_of_many_kinds() -> None:
    """Goal: the test above has something to compare."""
    found = [again.kind for _, again in map(written_again, RECORDED) if again is not None]
    assert len(found) == len(RECORDED)
    assert len(CLASSIC_KINDS.intersection(found)) >= 13
    assert set(found) >= ALSO_WRITTEN


def test_levels_and_classes_are_of_kinds_that_exist() -> None:
    """Goal: a kind that is renamed in the table is renamed where its level and its logger are stated."""
    assert set(LEVELS) | set(CLASSES) <= set(current_formats((*CLASSIC, *OTHERS)))


def test_rules_ask_for_kinds_that_exist() -> None:
    """Goal: a kind that is renamed in the table is renamed where rules ask for it."""
    assert {*words_of(CoordinatorEventKind)} <= {*current_formats((*CLASSIC, *OTHERS))}


@pytest.mark.parametrize("kind", sorted({kind for kind, _ in REASONS}))
def test_every_reason_is_a_trigger(kind: str) -> None:
    """Goal: a reason of the table is one of the ledger's triggers, so that no word reaches a row that none declares."""
    assert trigger_of(kind) in TRIGGERS


def test_names_are_never_placeholders() -> None:
    """Goal: a member called like a placeholder is printed, in a reason within a line."""
    reason = Reason("session_expired", {"member_id": "{group_id}"})
    event = LogEvent(
        0,
        0,
        "preparing_rebalance",
        {"group_id": "{state}", "state": "Empty", "previous_generation": 1, "reason": reason},
    )
    assert render(event) == (
        "Preparing to rebalance group {state} in state Empty with old generation 1 (reason: removing member {group_id}"
        " on heartbeat expiration.)."
    )
    assert [text for kind, text in current_formats(REASONS).items() if kind == "session_expired"] == [
        "removing member {member_id} on heartbeat expiration."
    ]
