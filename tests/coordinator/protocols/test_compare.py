"""Whole scripts run under every protocol: some properties hold whatever happens, others distinguish the protocols."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupledger.coordinator.protocols.compare import PROTOCOLS, compare, play
from groupledger.coordinator.protocols.join_sync import Release
from groupledger.coordinator.protocols.join_sync_member import JoinSyncGroup
from groupledger.coordinator.protocols.reconciliation import ConsumerProtocolGroup
from groupledger.coordinator.protocols.script import SCRIPTS, member_names, script_of

if TYPE_CHECKING:
    from groupledger.coordinator.protocols.compare import MakeGroup, ProtocolOutcome
    from groupledger.coordinator.protocols.script import Script

pytestmark = pytest.mark.slow

QUIET_MS = 700_000
NAMES = member_names(5)


@st.composite
def scripts(draw: st.DrawFn, actions: tuple[str, ...] = ("leave", "crash", "pause", "slow")) -> Script:
    """Returns a script of some events, after which nothing happens for so long that every protocol has settled."""
    there, at_ms = dict.fromkeys(NAMES[:3]), 40_000
    events: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 6))):
        at_ms += draw(st.sampled_from([50, 900, 4_000, 13_000, 50_000, 320_000]))
        absent = [name for name in NAMES if name not in there]
        do = draw(st.sampled_from(["join", *actions] if absent else actions))
        if do == "join" or len(there) == 1:
            name = draw(st.sampled_from(absent))
            there[name] = None
            events.append({"at_ms": at_ms, "do": "join", "member": name})
            continue
        name = draw(st.sampled_from(list(there)))
        events.append({"at_ms": at_ms, "do": do, "member": name})
        if do in ("pause", "slow"):
            events[-1]["for_ms"] = draw(st.sampled_from([2_000, 20_000, 70_000, 310_000]))
        else:
            del there[name]
    until_ms = at_ms + QUIET_MS
    return script_of("s", {"topics": {"a": 4, "b": 3}, "members": 3, "events": events, "until_ms": until_ms})


def owners_at_the_end(script: Script, outcome: ProtocolOutcome) -> Counter[object]:
    return Counter(each.partition for each in outcome.intervals if each.to_ms == script.until_ms)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_in_the_end_everything_has_one_owner(protocol: str, data: st.DataObject) -> None:
    """Goal: when nothing happened for long, each partition has just one owner, but under ZooKeeper's, where
    a member may have given up: there it has at most one."""
    script = data.draw(scripts())
    outcome = play(script, protocol, PROTOCOLS[protocol], seed=data.draw(st.integers(0, 9)))
    held = owners_at_the_end(script, outcome)
    assert set(held.values()) <= {1}
    if not protocol.startswith("zookeeper"):
        assert held.keys() == outcome.created_ms.keys()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_no_two_without_a_pause(protocol: str, data: st.DataObject) -> None:
    """Goal: while every member runs, no partition is consumed by two, and records are read again only after crashes."""
    script = data.draw(scripts(actions=("leave", "crash")))
    outcome = play(script, protocol, PROTOCOLS[protocol])
    assert outcome.cost.doubled_ms == 0
    if all(event.action != "crash" for event in script.events) and not protocol.startswith("zookeeper"):
        assert outcome.cost.processed_twice == 0


@pytest.mark.parametrize("name", ["crash", "long-gc"])
def test_a_seed_says_all(name: str) -> None:
    """Goal: the same seed gives the same run, and another one another run."""
    first, again, other = (compare(SCRIPTS[name], seed) for seed in (3, 3, 4))
    assert first == again
    assert all(one.trace != two.trace for one, two in zip(first, other, strict=True))


def test_what_distinguishes_them() -> None:
    """Goal: a rolling deploy costs static members no rebalance, the consumer protocol the fewest requests,
    ZooKeeper the most; a crash is seen after each protocol's session."""
    deploy = {each.protocol: each for each in compare(SCRIPTS["rolling-deploy"])}
    assert deploy["static (4.2)"].rebalances == 0
    assert all(each.rebalances >= 20 for name, each in deploy.items() if name != "static (4.2)")
    requests = {name: each.requests_for_rebalances for name, each in deploy.items() if name != "static (4.2)"}
    assert min(requests, key=lambda name: requests[name]) == "consumer (4.2)"
    assert max(requests, key=lambda name: requests[name]) == "zookeeper (0.8)"
    assert {name for name, each in deploy.items() if each.conflicts is not None} == {"zookeeper (0.8)"}
    grown = play(SCRIPTS["scale-out"], "zookeeper (0.8)", PROTOCOLS["zookeeper (0.8)"])
    assert (grown.conflicts or 0) > 0 == grown.give_ups
    seen_ms = {each.protocol: each.converged_ms[0] for each in compare(SCRIPTS["crash"])}
    bounds = {
        "zookeeper (0.8)": (2_000, 8_000),
        "first coordinator (2015)": (25_000, 36_000),
        "eager (0.9)": (25_000, 36_000),
        "eager (0.10.1)": (5_000, 14_000),
        "eager (4.2)": (40_000, 49_000),
        "cooperative (4.2)": (40_000, 49_000),
        "connect (4.2)": (305_000, 316_000),
        "consumer (4.2)": (38_000, 51_000),
    }
    for name, (low, high) in bounds.items():
        seen = seen_ms[name]
        assert seen is not None
        assert low <= seen <= high, name


@pytest.mark.parametrize(
    "make",
    [
        partial(JoinSyncGroup, release=Release(heartbeat_ms=100, initial_delay_ms=0)),
        partial(ConsumerProtocolGroup, heartbeat_ms=100),
    ],
)
def test_who_leaves_does_not_join_again(make: MakeGroup) -> None:
    """Goal: a heartbeat that is on its way while its member leaves does not bring it back, which would cost a round."""
    for at_ms in range(3_000, 3_210, 3):
        leaves = [{"at_ms": at_ms, "do": "leave", "member": "m02"}]
        script = script_of("close", {"topics": {"t": 3}, "members": 3, "events": leaves, "until_ms": at_ms + 2_000})
        outcome = play(script, "close", make, latency_ms=(1, 50))
        assert outcome.rounds == 1
        assert outcome.cost.unowned_ms < 1_500
