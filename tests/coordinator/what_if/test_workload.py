"""Goal: a ledger's tenures become what their processes must have done, and long quiet times cost nothing."""

from typing import Any

from groupledger.coordinator.what_if.setting import Setting
from groupledger.coordinator.what_if.workload import (
    LEFT,
    REPLACED,
    SILENT,
    TOO_SLOW,
    MemberSilence,
    Tenure,
    TopicGrowth,
    Workload,
    script,
)

DAY_MS = 86_400_000
TOPICS = (("orders", 6),)


def tenure(number: int, joined_ms: int | None, left_ms: int | None, end: str = "", **more: Any) -> Tenure:
    return Tenure(
        member_id=f"member-{number}",
        joined_ms=joined_ms,
        left_ms=left_ms,
        end=end,
        **{"client_id": "client", "client_host": "/10.0.0.1", **more},
    )


def of(*tenures: Tenure, actual: Setting | None = None, loosely: bool = False, **more: object) -> list[tuple[str, int]]:
    """Returns what happens in a script, and how long after the event before."""
    workload = Workload(actual=actual or Setting(), tenures=tenures, topics=TOPICS, **more)  # type: ignore[arg-type]
    played = script(workload, 1, 45_000, loosely=loosely)
    assert played is not None
    times = [played.from_ms, *(event.at_ms for event in played.events)]
    return [(event.action, event.at_ms - at) for event, at in zip(played.events, times, strict=False)]


def names(*tenures: Tenure, loosely: bool = False) -> set[str]:
    workload = Workload(actual=Setting(), tenures=tenures, topics=TOPICS)
    played = script(workload, 1, 45_000, loosely=loosely)
    assert played is not None
    return {*played.members_at_start, *(event.member for event in played.events)}


def test_a_doubtful_end() -> None:
    """Goal: a guess that may be wrong is played both ways, but not for a process that was back within a session."""
    doubtful = tenure(1, None, 100_000, LEFT, doubt=0.5)
    workload = Workload(actual=Setting(), tenures=(doubtful, tenure(2, None, None)), topics=TOPICS)
    played = [script(workload, seed, 45_000, loosely=False) for seed in range(20)]
    assert {each.events[0].action for each in played if each is not None} == {"leave", "crash"}
    assert [what for what, _ in of(doubtful, tenure(2, 120_000, None))] == ["leave", "join"]


def test_nothing_happened() -> None:
    """Goal: members that were there all the time make no script."""
    workload = Workload(actual=Setting(), tenures=(tenure(1, None, None),), topics=TOPICS)
    assert script(workload, 1, 45_000, loosely=False) is None


def test_restart() -> None:
    """Goal: one that left and one that came soon after are one process, if host and client are the same."""
    before, after = tenure(1, None, 100_000, LEFT), tenure(2, 120_000, None)
    ((leaves, _), (joins, apart)) = of(before, after)
    assert (leaves, joins) == ("leave", "join")
    assert 16_000 <= apart <= 24_000
    assert len(names(before, after)) == 1
    elsewhere = tenure(2, 120_000, None, client_host="/10.0.0.2")
    assert len(names(before, elsewhere)) == 2
    assert len(names(before, elsewhere, loosely=True)) == 1
    much_later = tenure(2, 500_000, None)
    assert len(names(before, much_later, loosely=True)) == 2


def test_two_at_once_are_two() -> None:
    """Goal: one that came before the other had left is another process."""
    assert len(names(tenure(1, None, 100_000, LEFT), tenure(2, 90_000, None), loosely=True)) == 2


def test_names_sort_like_member_ids() -> None:
    """Goal: the assignor, which goes by member ids, meets the members in the order of their client ids, whichever came
    first."""
    found = [tenure(number, number * 100_000, None, client_id=client) for number, client in enumerate("zcxab", 1)]
    played = script(Workload(actual=Setting(), tenures=tuple(found), topics=TOPICS), 1, 45_000, loosely=False)
    assert played is not None
    by_client = {each.client_id: event.member for each, event in zip(found, played.events, strict=True)}
    assert [by_client[client] for client in sorted(by_client)] == sorted(by_client.values())


def test_restarts_of_static_members_take_alike() -> None:
    """Goal: how long a static member was down is not known, but in one script all restarts are long, or all short."""
    bounds = [None, *range(200_000, 2_000_000, 200_000), None]
    ends = [REPLACED] * (len(bounds) - 2) + [""]
    found = [
        tenure(number, since, until, end, instance_id="i")
        for number, (since, until, end) in enumerate(zip(bounds, bounds[1:], ends, strict=False))
    ]
    workload = Workload(actual=Setting(is_static=True), tenures=tuple(found), topics=TOPICS)
    longest = []
    for seed in range(1, 21):
        played = script(workload, seed, 45_000, loosely=False)
        assert played is not None
        downs = [joins.at_ms - leaves.at_ms for leaves, joins in zip(*[iter(played.events)] * 2, strict=True)]
        assert len(downs) == len(ends) - 1
        assert max(downs) <= 2 * min(downs) + 2
        longest.append(max(downs))
    assert min(longest) < 15_000
    assert 30_000 < max(longest) <= 45_000


def test_silence_began_before() -> None:
    """Goal: a member that was removed for its silence crashed one session before; a member that was too slow stopped
    polling one poll interval before."""
    steady = tenure(9, 10_000, None, client_id="other")
    (_, (action, apart)) = of(steady, tenure(1, None, 100_000, SILENT))
    assert action == "crash"
    assert 100_000 - 45_000 - 10_000 - 6_500 <= apart <= 100_000 - 45_000 - 10_000 + 6_500
    found = of(steady, tenure(1, None, 400_000, TOO_SLOW))
    assert [action for action, _ in found] == ["join", "slow", "crash"]


def test_came_back_by_itself() -> None:
    """Goal: one that was only too slow joins again by itself, when it asks for records again."""
    found = of(tenure(1, None, 400_000, TOO_SLOW), tenure(2, 420_000, None))
    assert [action for action, _ in found] == ["slow"]


def test_static_members() -> None:
    """Goal: a replaced instance was down for less than its session; one that fell silent may have closed."""
    static = Setting(is_static=True)
    ids = {"instance_id": "i", "client_host": "/10.9.9.9"}
    found = of(tenure(1, None, 100_000, REPLACED, **ids), tenure(2, 100_000, None, **ids), actual=static)
    assert [action for action, _ in found] == ["leave", "join"]
    assert 0 < found[1][1] < 45_000
    silent = tenure(1, None, 100_000, SILENT, **ids)
    assert of(silent, actual=static)[0][0] == "crash"
    assert of(silent, actual=static, loosely=True)[0][0] == "leave"


def test_a_replacement_needs_no_round() -> None:
    """Goal: a static member was started when its record was written, and its process is one, however rare heartbeats
    are."""
    leisurely = Setting(is_static=True, session_ms=240_000, heartbeat_ms=80_000)
    before = tenure(1, None, 1_000_000, REPLACED, instance_id="i")
    ((leaves, _), (joins, _)) = of(before, tenure(2, 1_000_000, None, instance_id="i"), actual=leisurely)
    assert (leaves, joins) == ("leave", "join")


def test_pauses() -> None:
    """Goal: a pause lasts until the member spoke again, and outlives its session if it did, wherever heartbeats are."""
    for silent_ms in (20_000, 44_000, 46_000, 90_000):
        workload = Workload(
            actual=Setting(),
            tenures=(tenure(1, None, None),),
            topics=TOPICS,
            silences=(MemberSilence("member-1", 100_000, 100_000 + silent_ms),),
        )
        for seed in range(20):
            played = script(workload, seed, 45_000, loosely=False)
            assert played is not None
            (pause,) = played.events
            assert pause.action == "pause"
            assert pause.for_ms >= 45_000 if silent_ms >= 45_000 else pause.for_ms <= 45_000 - 3_000
            assert silent_ms - 3_000 <= pause.for_ms <= silent_ms


def test_quiet_times_are_cut_short() -> None:
    """Goal: a day without any event is replayed only for as long as the events before need to end; a slow member still
    counts."""
    (_, (_, apart)) = of(tenure(1, 1_000, None), tenure(2, DAY_MS, None, client_id="other"))
    assert apart == 75_000
    both = of(tenure(1, None, 400_000, TOO_SLOW), tenure(2, 900_000, None), tenure(3, 950_000, None, client_id="other"))
    assert [action for action, _ in both] == ["slow", "crash", "join", "join"]


def test_growth() -> None:
    """Goal: a topic grew up to a refresh of metadata before the leader saw it."""
    found = of(tenure(1, 1_000, None), growths=(TopicGrowth(600_000, "orders", 9),))
    assert [action for action, _ in found] == ["join", "grow"]
