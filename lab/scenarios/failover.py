"""Plays scenarios 66 and 67: failover, the vote for an assignor, and a new generation. The table of state transitions
is tested in test_group.py."""

from groupledger.schemas.kafka.errors import Error

from .driver import RANGE_AND_ROUNDROBIN, ROUNDROBIN_AND_RANGE, Driver
from .registry import FAILOVER, UNLOAD, scenario


@scenario(66, "OnLoaded", needs=(FAILOVER,))
def on_loaded(driver: Driver) -> None:
    group = driver.stable_group("leader-instance", None, session_ms=20_000)
    driver.failover()
    assert driver.state() == "Stable"
    assert driver.member_ids() == {member.member_id for member in group.members}
    driver.advance(9_999)
    for member in group.members:
        assert driver.heartbeat(member.member_id, group.generation) is Error.NONE
    driver.advance(20_000)
    assert driver.state() == "Empty"


@scenario(66, "OnLoadedExceedingMaxSize", needs=(FAILOVER,))
def on_loaded_exceeding_max_size(driver: Driver) -> None:
    driver.stable_group(*[None] * 11, session_ms=60_000, rebalance_ms=30_000)
    driver.failover(group_max_size=10)
    assert driver.state() == "PreparingRebalance"


@scenario(66, "OnUnloaded", needs=(UNLOAD,))
def on_unloaded(driver: Driver) -> None:
    group = driver.completing_group(None, None)
    sync = driver.sync(group.follower.member_id, group.generation)
    other = driver.join_with_new_id(group_id=driver.other_group_id)
    driver.unload()
    assert sync.error is Error.NOT_COORDINATOR
    assert other.is_parked
    assert driver.join().error is Error.NOT_COORDINATOR


@scenario(66, "OnUnloadedWhilePreparing", needs=(UNLOAD,))
def on_unloaded_while_preparing(driver: Driver) -> None:
    join = driver.join_with_new_id()
    driver.unload()
    assert (join.error, join.response.member_id) == (Error.NOT_COORDINATOR, join.request.member_id)


@scenario(67, "VotePrefersTheMajority")
def vote_prefers_the_majority(driver: Driver) -> None:
    preferences = (RANGE_AND_ROUNDROBIN, ROUNDROBIN_AND_RANGE, ROUNDROBIN_AND_RANGE)
    joins = [driver.join(api_version=3, protocols=protocols) for protocols in preferences]
    driver.advance(6_000)
    assert [join.response.protocol_name for join in joins] == ["roundrobin"] * 3


@scenario(67, "NewGenerationClearsPendingSync")
def new_generation_clears_pending_sync(driver: Driver) -> None:
    group = driver.completing_group(None, None, session_ms=60_000)
    driver.advance(5_000)
    again = [
        driver.join(member.member_id, protocols=RANGE_AND_ROUNDROBIN, session_ms=60_000) for member in group.members
    ]
    driver.sync_all(driver.joined(*again))
    # The sync timer of the first generation would fire now.
    driver.advance(5_000)
    assert driver.state() == "Stable"
