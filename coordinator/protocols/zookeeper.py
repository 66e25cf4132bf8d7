"""Models ZooKeeper as the consumers of Kafka 0.8 used it: sessions, ephemeral nodes, watches, and servers that lag.

The leader orders all writes. Each server applies them later, in their order, and shows its clients what it has applied.
When a client gets the answer to its own write, its server has applied that write. A watch is set by a read and fires
once, when the client's server applies the change; it only reports that something changed. A session ends when its
client has sent nothing for the session timeout, and the leader then removes its ephemeral nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.coordinator.protocols.world import Reply, World

SESSION_TIMEOUT_MS: Final = 6_000
PING_MS: Final = SESSION_TIMEOUT_MS // 3
SERVERS: Final = 3


def parent_of(path: str) -> str:
    return path.rpartition("/")[0]


class Server:
    """One server: the nodes as far as it has applied the changes, and its clients' watches."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.nodes: dict[str, str] = {}
        self._watches: dict[str, list[tuple[Session, Callable[[], None]]]] = {}
        self._applied_until_ms = 0

    def apply(self, path: str, data: str | None, lag_ms: int) -> int:
        """Schedules a change to be applied after `lag_ms`, but never before an earlier one. Returns the time at which
        it is applied."""
        self._applied_until_ms = max(self._applied_until_ms, self.world.now_ms + lag_ms)
        self.world.at(self._applied_until_ms, lambda: self._applied(path, data))
        return self._applied_until_ms

    def _applied(self, path: str, data: str | None) -> None:
        is_new_or_gone = (data is None) == (path in self.nodes)
        if data is None:
            self.nodes.pop(path, None)
        else:
            self.nodes[path] = data
        if is_new_or_gone:
            self._fire(f"{parent_of(path)}/")
        self._fire(path)

    def _fire(self, watched: str) -> None:
        for session, notify in self._watches.pop(watched, ()):
            if not session.is_over:
                self.world.notifications += 1
                self.world.after(self.world.latency_ms(), notify)

    def watch(self, session: Session, watched: str, notify: Callable[[], None]) -> None:
        """Sets a watch on a node's data or, if `watched` ends with a slash, on a path's children. The watch ends with
        its session."""
        self._watches.setdefault(watched, []).append((session, notify))

    def children(self, path: str) -> list[str]:
        return sorted(node.rpartition("/")[2] for node in self.nodes if parent_of(node) == path)


class Session:
    """One client's session with its server."""

    def __init__(self, zookeeper: ZooKeeper, server: Server) -> None:
        self.zookeeper = zookeeper
        self.server = server
        self.is_over = False
        self.ping()

    def ping(self) -> bool:
        """Extends the session. Returns False if it was already over."""
        if not self.is_over:
            self.deadline_ms = self.zookeeper.world.now_ms + SESSION_TIMEOUT_MS
            self.zookeeper.world.at(self.deadline_ms, self._expire)
        return not self.is_over

    def _expire(self) -> None:
        if not self.is_over and self.zookeeper.world.now_ms >= self.deadline_ms:
            self.zookeeper.world.log("zookeeper", "a session is over")
            self.close()

    def close(self) -> None:
        self.is_over = True
        self.zookeeper.remove_those_of(self)


class ZooKeeper:
    """The leader's nodes, each with the session that it ends with, if it is ephemeral; and the servers."""

    def __init__(self, world: World, lag_ms: tuple[int, int]) -> None:
        self.world = world
        self.nodes: dict[str, tuple[str, Session | None]] = {}
        self.servers = [Server(world) for _ in range(SERVERS)]
        self._lag_ms = lag_ms
        self._sessions = 0

    def connect(self) -> Session:
        """Returns a new session. Sessions go to the servers in turn."""
        self._sessions += 1
        return Session(self, self.servers[self._sessions % SERVERS])

    def create(self, session: Session, path: str, data: str, reply: Reply) -> None:
        """Creates an ephemeral node that ends with the session. Replies True if the node then exists with this data,
        and False if the session is over or the node has other data."""
        if session.is_over or path in self.nodes:
            reply.give(not session.is_over and self.nodes[path][0] == data)
            return
        self.nodes[path] = (data, session)
        self._replicate(path, data, session, reply)

    def write(self, path: str, data: str, session: Session, reply: Reply) -> None:
        self.nodes[path] = (data, None)
        self._replicate(path, data, session, reply)

    def delete(self, session: Session, path: str, reply: Reply) -> None:
        """Removes a node, whoever created it. Replies whether it existed."""
        was_there = self.nodes.pop(path, None) is not None
        if was_there:
            self._replicate(path, None, session, reply)
        else:
            reply.give(value=False)

    def remove_those_of(self, session: Session) -> None:
        for path in [path for path, (_, owner) in self.nodes.items() if owner is session]:
            del self.nodes[path]
            self._replicate(path, None, None, None)

    def _replicate(self, path: str, data: str | None, session: Session | None, reply: Reply | None) -> None:
        """Sends a change to all servers. The session that asked for it gets its answer when its own server has applied
        it."""
        for server in self.servers:
            applied_ms = server.apply(path, data, self.world.random.between(*self._lag_ms))
            if reply is not None and session is not None and server is session.server:
                self._answer_at(applied_ms, reply)

    def _answer_at(self, at_ms: int, reply: Reply) -> None:
        self.world.at(at_ms, lambda: reply.give(value=True))
