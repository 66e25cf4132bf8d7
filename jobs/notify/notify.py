"""Sends incidents to the receivers of the settings `notify`: reads the table, sends messages, and stores which were
sent.

The sent messages are in a small file, `_groupledger/<cluster>/notified.json`, written after each message, so that after
a crash at most the one message in progress is repeated. Only the holder of the lease sends.

If a receiver does not answer in time, or refuses, its messages are tried again in the next round, until their episodes
are too old. Each receiver has a thread of its own, so that none delays another. If the file can't be written, nothing
is sent: otherwise each start would send the same again.

Addresses and keys are secrets: no message shows them, and no redirect is followed.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.jobs.notify.by_apprise import check_apprise, send_by_apprise
from groupledger.jobs.notify.diagnosed import Diagnoser
from groupledger.jobs.notify.episodes import (
    IncidentEpisode,
    Message,
    Notified,
    ReceiverFilter,
    after,
    episodes_of,
    messages,
    still_needed,
)
from groupledger.jobs.notify.receivers import BODIES, FORGETS, PAGERDUTY_URL, MessageContext
from groupledger.jobs.process import clock
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.name_patterns import first_matching, names_matching
from groupledger.jobs.process.selection import chosen_incidents
from groupledger.jobs.process.settings import Secret, checked_url
from groupledger.jobs.process.web import post
from groupledger.jobs.process.worker import Worker
from groupledger.jobs.warehouse.storage import STATE_FOLDER, read_parsed
from groupledger.jobs.warehouse.tables import is_among
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.words import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.jobs.process.settings import NotifySettings, ReceiverSettings, Settings
    from groupledger.jobs.warehouse.ledger import Ledger

    State = dict[str, dict[str, Notified]]

COLUMNS = (
    *("episode_id", "group_id", "kind", "severity", "explanation", "setting_to_change", "first_seen_at"),
    *("last_seen_at", "is_open", "partitions"),
)
LOOK_EVERY_S = 15
APPRISE = "apprise"
REMEDY = "move it out of the warehouse: recent incidents are then sent again"


@dataclass(frozen=True, slots=True)
class Receiver:
    """A receiver of the settings, with its secrets."""

    name: str
    settings: ReceiverSettings
    url: str
    key: str | None = field(repr=False)

    def send(self, message: Message, context: MessageContext, timeout_s: int) -> None:
        """Sends a message. Raises OutsideError if the receiver did not accept it."""
        try:
            self._send(message, context, timeout_s)
        except OutsideError as error:
            raise OutsideError(f"The receiver {self.name} of notify.receivers was not reached: {error}.") from error

    def _send(self, message: Message, context: MessageContext, timeout_s: int) -> None:
        if self.settings.kind == APPRISE:
            send_by_apprise(self.key or "", message, context, timeout_s)
            return
        body = BODIES[self.settings.kind](message, context)
        if body is None:
            return
        headers = {"Content-Type": "application/json", **body.headers}
        # Its status says that it has the message, however long it takes for the rest.
        post(self.url.rstrip("/") + body.path, body.text, headers, timeout_s, answer_bytes_max=0)


def receivers_of(settings: NotifySettings) -> list[Receiver]:
    """Returns the receivers of the settings. Raises InputError if a secret is missing."""
    return [_receiver(name, each) for name, each in settings.receivers.items()]


def _receiver(name: str, settings: ReceiverSettings) -> Receiver:
    setting = f"notify.receivers.{name}"
    url = settings.url or PAGERDUTY_URL
    if isinstance(url, Secret):
        try:
            url = checked_url(url.resolve(f"{setting}.url").get_secret_value())
        except ValueError as error:
            raise InputError(f"The settings are wrong: {setting}.url: {error}.") from error
    key = None if settings.key is None else settings.key.resolve(f"{setting}.key").get_secret_value()
    if settings.kind == APPRISE:
        check_apprise(key or "")
    return Receiver(name, settings, url, key)


class Notifier:
    """Sends one cluster's incidents to the receivers. `counts` has the number of messages by receiver and outcome
    (`sent`, `failed`)."""

    def __init__(self, ledger: Ledger, stop: threading.Event | None = None) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._ledger = ledger
        self._stop = stop or threading.Event()
        self._settings = ledger.settings.notify
        self._receivers = receivers_of(self._settings)
        self._diagnoser = Diagnoser(ledger.warehouse, ledger.cluster)
        self._notified: State = {}
        self._lock = threading.Lock()  # guards the sent messages and their file
        self._is_read = self._is_noted = False
        self._workers: dict[str, Worker] = {}
        self._failing: dict[str, str] = {}

    @property
    def has_receivers(self) -> bool:
        return bool(self._receivers)

    def follow(self) -> None:
        """Runs a round at intervals, until stopped. A receiver that is still busy is skipped until the next round."""
        while not self._stop.wait(LOOK_EVERY_S):
            for worker in self._workers.values():
                worker.check()
            self._begin(clock.now_ms())

    def look(self, now_ms: int) -> int:
        """Sends due notifications and returns how many. Once stopped, it sends no more; the next round sends the
        rest."""
        before = self._sent()
        self._begin(now_ms)
        for worker in self._workers.values():
            worker.join()
        for worker in self._workers.values():
            worker.check()
        return self._sent() - before

    def _sent(self) -> int:
        return sum(count for (_, outcome), count in self.counts.items() if outcome == "sent")

    def _begin(self, now_ms: int) -> None:
        """Starts sending to each receiver that is not busy."""
        if not self._receivers or not self._ledger.exists(INCIDENTS):
            return
        if not self._is_read:
            self._notified = read_parsed(self._ledger.storage, self._file, _parsed, REMEDY) or {}
            self._is_read = True
        since_ms = now_ms - self._settings.age_max_s * 1_000
        episodes = self._episodes(since_ms)
        self._diagnoser.begin(episodes)
        for receiver in self._receivers:
            before = self._workers.get(receiver.name)
            if before is None or not before.is_alive():
                send = partial(self._send_new, receiver, episodes, since_ms)
                self._workers[receiver.name] = Worker(f"notify {receiver.name}", send)
                self._workers[receiver.name].start()

    def _episodes(self, since_ms: int) -> list[IncidentEpisode]:
        """Returns the episodes that are recent, or that some receiver got."""
        with self._lock:
            known = {key for notified in self._notified.values() for key, each in notified.items() if not each.is_over}
        is_recent = pc.field("last_seen_at") >= pa.scalar(since_ms * 1_000, pa.timestamp("us", "UTC"))
        recent = self._ledger.arrow(INCIDENTS, is_recent, ["episode_id"])["episode_id"].to_pylist()
        wanted = is_among("episode_id", known | set(recent))
        read = self._ledger.arrow(INCIDENTS, wanted, COLUMNS).to_pylist()
        rows = chosen_incidents(self._ledger.settings.selection, read)
        groups = {row["group_id"] for row in rows if row["group_id"] is not None}
        return episodes_of(rows, first_matching(self._ledger.settings.team_patterns(), groups))

    def _send_new(self, receiver: Receiver, episodes: list[IncidentEpisode], since_ms: int) -> None:
        """Sends one receiver its new messages, as far as it accepts them."""
        notified = self._notified.get(receiver.name, {})
        for message in messages(episodes, notified, wanted_of(receiver.settings, episodes), since_ms):
            if self._stop.is_set():
                break
            self._ledger.lease.check()
            if not self._is_noted:
                self._note(receiver.name, notified)
            try:
                receiver.send(self._worded(message), self._context(receiver), self._settings.timeout_s)
            except OutsideError as error:
                self.counts[receiver.name, "failed"] += 1
                self._say_once(receiver.name, str(error))
                break
            self._failing.pop(receiver.name, None)
            self.counts[receiver.name, "sent"] += 1
            if message.event != "repeated":
                notified = still_needed(after(notified, message), since_ms)
                self._note(receiver.name, notified)

    def _worded(self, message: Message) -> Message:
        """Returns a message about trouble in the words of the group's diagnosis; its end needs none."""
        if message.episode is None or message.event == "resolved":
            return message
        return replace(message, episode=self._diagnoser.of(message.episode))

    def _note(self, name: str, notified: dict[str, Notified]) -> None:
        with self._lock:
            self._notified[name] = notified
            self._ledger.storage.write(self._file, _dumped(self._notified))
            self._is_noted = True

    def _context(self, receiver: Receiver) -> MessageContext:
        return MessageContext(
            cluster=self._ledger.cluster,
            link=self._settings.link,
            key=receiver.key,
        )

    def _say_once(self, name: str, sentence: str) -> None:
        if self._failing.get(name) != sentence:
            self._failing[name] = sentence
            self._ledger.warn(f"{sentence} It is tried again.")

    @property
    def _file(self) -> str:
        return f"{STATE_FOLDER}/{self._ledger.cluster}/notified.json"


def wanted_of(settings: ReceiverSettings, episodes: list[IncidentEpisode]) -> ReceiverFilter:
    names = {episode.group_id for episode in episodes if episode.group_id is not None}
    return ReceiverFilter(
        severity=settings.severity,
        kinds=settings.kinds,
        teams=settings.teams,
        groups=frozenset(names_matching(settings.groups, names)),
        forgets=settings.kind in FORGETS,
    )


def send_test(settings: Settings, now_ms: int) -> Iterator[tuple[str, str]]:
    """Sends to each receiver a test message, and then the message that the test is over. Yields the receiver's name,
    and the sentence of the error, which is empty after a success."""
    episode = IncidentEpisode(
        episode_id="groupledger-test",
        group_id="groupledger-test",
        team=None,
        kinds=("test",),
        severity=Severity.INFO,
        sentence="This is a test of `groupledger notify --test`; nothing has happened.",
        settings=(),
        first_seen_ms=now_ms,
        last_seen_ms=now_ms,
        is_open=True,
    )
    for receiver in receivers_of(settings.notify):
        context = MessageContext(cluster=settings.cluster, link=settings.notify.link, key=receiver.key)
        try:
            for message in (
                Message("fired", episode.episode_id, episode),
                Message("resolved", episode.episode_id, episode),
            ):
                receiver.send(message, context, settings.notify.timeout_s)
        except OutsideError as error:
            yield receiver.name, str(error)
        else:
            yield receiver.name, ""


def _parsed(text: str) -> State:
    return {
        name: {key: Notified(**fields) for key, fields in notified.items()}
        for name, notified in json.loads(text)["receivers"].items()
    }


def _dumped(state: State) -> str:
    receivers = {name: {key: asdict(each) for key, each in notified.items()} for name, notified in state.items()}
    return json.dumps({"receivers": receivers})
