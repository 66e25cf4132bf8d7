"""Keeps timers as data, and finds the deadline that comes next.

A coordinator with thousands of groups moves a session deadline with every heartbeat, and almost none of these deadlines
is ever reached. So moving one is a dict write: the heap has at most one *guard* entry that counts for each timer, at or
before its deadline, and the deadline itself is looked up when the guard comes to the top. Timers with equal deadlines
fire in the order in which they were set, as in Kafka's timing wheel.
"""

from heapq import heappop, heappush

Timer = tuple[str, int, str, str]
"""The name of a timer: kind, `__consumer_offsets` partition, group id, member id. Setting a timer again moves it."""


class Deadlines:
    __slots__ = ("_deadlines", "_guards", "_heap", "_sequence")

    def __init__(self) -> None:
        self._deadlines: dict[Timer, tuple[int, int]] = {}
        self._guards: dict[Timer, tuple[int, int]] = {}
        self._heap: list[tuple[tuple[int, int], Timer]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, timer: Timer) -> bool:
        return timer in self._deadlines

    def set(self, timer: Timer, deadline_ms: int) -> None:
        self._sequence += 1
        deadline = (deadline_ms, self._sequence)
        self._deadlines[timer] = deadline
        guard = self._guards.get(timer)
        if guard is None or guard[0] > deadline_ms:
            self._push(timer, deadline)

    def cancel(self, timer: Timer) -> None:
        self._deadlines.pop(timer, None)

    def cancel_partition(self, partition: int) -> None:
        for timer in [timer for timer in self._deadlines if timer[1] == partition]:
            del self._deadlines[timer]

    def next_deadline_ms(self) -> int | None:
        while self._heap:
            (deadline_ms, _), _ = self._heap[0]
            if self._is_deadline_at_top():
                return deadline_ms
        return None

    def pop_due(self, now_ms: int) -> tuple[int, Timer] | None:
        """Removes and returns the first timer that is due at or before `now_ms`, with its deadline."""
        while self._heap and self._heap[0][0][0] <= now_ms:
            if self._is_deadline_at_top():
                (deadline_ms, _), timer = heappop(self._heap)
                del self._guards[timer], self._deadlines[timer]
                return deadline_ms, timer
        return None

    def _is_deadline_at_top(self) -> bool:
        """Whether the heap's top is a deadline. If it is only a guard, the timer's deadline takes its place."""
        guard, timer = self._heap[0]
        deadline = self._deadlines.get(timer)
        if guard == deadline:
            return True
        heappop(self._heap)
        if self._guards.get(timer) == guard:
            del self._guards[timer]
            if deadline is not None:
                self._push(timer, deadline)
        return False

    def _push(self, timer: Timer, deadline: tuple[int, int]) -> None:
        self._guards[timer] = deadline
        heappush(self._heap, (deadline, timer))
