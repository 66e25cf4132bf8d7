"""Goal: the history of KIP-848, share and streams groups agrees with the simulator's coordinator, whatever happens."""

from __future__ import annotations

import pytest

from lab.truth.consumer_claims import false_claims_of_cleaned, false_claims_of_holed
from lab.truth.consumer_groups import History
from lab.truth.modern_simulated import PLAYED, compare, play

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", PLAYED)
def test_history_is_the_truth(name: str) -> None:
    """Goal: the history has the true holdings after each operation, the epochs with their causes, and the members;
    `bench.modern_accuracy` has more seeds."""
    compared = compare(name, 1)
    assert {what: wrong for what, (_, wrong) in compared.items() if wrong} == {}
    assert all(count > 1 for count, _ in compared.values())


@pytest.mark.parametrize("name", PLAYED)
def test_parts_of_a_log(name: str) -> None:
    """Goal: a history that is folded record by record is the one that is folded at once; where a beginning was cleaned,
    or any part was not read, nothing is claimed that is not so."""
    played = play(name, 2)
    log, looks = played.log, played.looks
    whole, cut = History(played.group_id), History(played.group_id)
    whole.fold(event for *_, event in log)
    for *_, event in log:
        cut.fold([event])
    assert cut.tables == whole.tables
    claims: list[str] = []
    for number, begin in enumerate(looks):
        claims += false_claims_of_cleaned(played.group_id, log, looks, begin)
        for end in looks[number + 1 :: 5]:
            claims += false_claims_of_holed(played.group_id, log, looks, (begin, end))
    assert claims == []
    assert len(log) > len(looks) > 5
