"""Goal: a name is taken out of the open state of a KIP-848 group, wherever the ids of its members are."""

from __future__ import annotations

from groupledger.transforms.forgetting import CLIENT, Forgotten
from groupledger.transforms.history.rules.events import Coverage
from groupledger.transforms.history.rules.fold import fold
from groupledger.transforms.history.rules.state import load
from tests.transforms.history.rules.consumer_groups import consumer_groups, event, of_group

CLASSIC_CLIENT = "migrated-classic"
UUID = "-01234567-89ab-cdef-0123-456789abcdef"


def test_the_state_of_a_group_that_was_upgraded() -> None:
    """Goal: the id of a classic member begins with its client's id, also as the key of its steps and targets and where
    another member waits for it; after it the state is read as before."""
    log = of_group(consumer_groups(), "migrated")
    (classic_id,) = {
        member["member_id"] for each in log if each["value"] for member in each["value"].get("members", ())
    }
    upgraded = [
        event(each) for each in log if "KIP-848 joins" in each["step"] or "classic member joins" in each["step"]
    ]
    for count in range(1, len(upgraded) + 1):
        state = fold("migrated", 0, None, [Coverage(0, "complete"), *upgraded[:count]]).open_group["state"]
        named = state.replace(f'"{classic_id}"', f'"{CLASSIC_CLIENT}{UUID}"')
        row = Forgotten(CLIENT, (CLASSIC_CLIENT,)).out_of({"group_id": "migrated", "state": named})
        assert CLASSIC_CLIENT not in row["state"]
        assert load(row["state"]).members.keys() == {
            each.replace(CLASSIC_CLIENT, "forgotten") for each in load(named).members
        }
