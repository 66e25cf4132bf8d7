"""Goal: a web server that receives gets the incidents of a table: in its own form, each once, through kills and
refusals, and without secrets in the printed lines."""

from __future__ import annotations

import errno
import json
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from groupledger.jobs.cli.main import main
from groupledger.jobs.notify.notify import Notifier, receivers_of
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.process.web import post
from groupledger.jobs.warehouse.ledger import Ledger
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.definitions import schema_of
from tests.jobs.notify.receiving import Receiving, dripping, receiving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.jobs.warehouse.lease import Lease

NOW = datetime(2026, 1, 1, 3, 0, tzinfo=timezone.utc)
NOW_MS = round(NOW.timestamp() * 1_000)
MINUTE = timedelta(minutes=1)
MINUTE_MS = 60_000
EVIL = "pay <!channel> & \x1b[2J\u202e*x*"


def incident(episode: str, group: str = "pay-eu", severity: str = "error", **other: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"cluster": "east", "incident_id": f"{episode}/1", "episode_id": episode, "group_id": group}
    found |= {"kind": "illegal_generation", "severity": severity, "explanation": f"A member of {group} was refused."}
    found |= {"setting_to_change": "max.poll.interval.ms", "is_open": True}
    return {**found, "first_seen_at": NOW - 5 * MINUTE, "last_seen_at": NOW - MINUTE, **other}


class Ours:
    """A warehouse with incidents, and a sender of them; its lines are kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.selection: dict[str, Any] = {}
        self.is_lost = False

    def write(self, *rows: dict[str, Any]) -> None:
        table = pa.Table.from_pylist(list(rows), schema_of("incidents"))
        write_deltalake(str(self.folder / "incidents"), table, mode="overwrite")

    def notifier(self, receivers: dict[str, Any], **settings: Any) -> Notifier:
        conf = self.folder / "settings.yaml"
        conf.write_text(
            json.dumps(
                {
                    "notify": {"receivers": receivers, **settings},
                    "teams": {"pay": {"groups": "pay.*"}},
                    "selection": self.selection,
                }
            )
        )
        return Notifier(
            Ledger(
                cast("SparkSession", None),
                str(self.folder),
                "east",
                storage=LocalStorage(self.folder),
                lease=cast("Lease", SimpleNamespace(check=self._check)),
                say=self.said.append,
                settings=load_settings(conf, cluster="east"),
            )
        )

    def _check(self) -> None:
        if self.is_lost:
            raise OutsideError("lost")


@pytest.fixture
def ours(tmp_path: Path) -> Ours:
    return Ours(tmp_path)


@pytest.fixture
def web() -> Iterator[Receiving]:
    with receiving() as found:
        yield found


def test_a_night(ours: Ours, web: Receiving) -> None:
    """Goal: a night has four episodes, and each look is a process of its own; the receiver gets the three that are
    grave enough, once each and once at the end; then nothing."""
    receivers = {"chat": {"kind": "json", "url": web.url, "severity": "warning"}}
    rows = [
        incident("e1"),
        incident("e2", "search", "warning"),
        incident("e3", severity="info"),
        incident("old", last_seen_at=NOW - timedelta(hours=2)),
    ]
    heard = []
    for minute in range(30):
        found = rows[:1] if minute < 5 else rows
        ours.write(*({**row, "is_open": minute < 20} for row in found))
        ours.notifier(receivers).look(NOW_MS + minute * MINUTE_MS)
        heard += [(minute, body["event"], body["episode_id"]) for body in web.bodies]
        web.came.clear()
    assert heard == [
        *((0, "fired", "e1"), (5, "fired", "e2")),
        *((20, "resolved", "e1"), (20, "resolved", "e2")),
    ]


def test_what_the_settings_exclude(ours: Ours, web: Receiving) -> None:
    """Goal: no message is sent about a group that is left out, nor about an incident only of a topic that is left out;
    an incident that is left out after it was sent is over."""
    receivers = {"chat": {"kind": "json", "url": web.url}}
    of_topic = {"topic": "orders-retry", "partition": 0, "refused_offset": None, "last_accepted_offset": None}
    units = [{**of_topic, "owner_member_id": None, "owner_client_id": None}]
    ours.write(incident("e1"), incident("e2", "search"), incident("e3", partitions=units))
    ours.selection = {"groups": {"exclude": ["sea.*"]}, "topics": {"exclude": [".*-retry"]}}
    assert ours.notifier(receivers).look(NOW_MS) == 1
    ours.selection = {"groups": {"include": ["search"]}}
    assert ours.notifier(receivers).look(NOW_MS) == 2
    heard = [(body["event"], body["episode_id"]) for body in web.bodies]
    assert heard == [("fired", "e1"), ("resolved", "e1"), ("fired", "e2")]


def test_killed_between_message_and_note(ours: Ours, web: Receiving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a process that goes on after a kill repeats the one message that was under way, and no other."""
    ours.write(incident("e1"), incident("e2"))
    receivers = {"chat": {"kind": "json", "url": web.url}}
    killed = ours.notifier(receivers)
    written: list[str] = []
    really_write = LocalStorage.write

    def write(storage: LocalStorage, name: str, text: str) -> None:
        if storage.root == ours.folder:  # else another test's lease is renewed by its thread
            if len(written) == 2:  # that it can be written, and the first message
                raise KeyboardInterrupt
            written.append(name)
        really_write(storage, name, text)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "write", write)
        with pytest.raises(KeyboardInterrupt):
            killed.look(NOW_MS)
    assert ours.notifier(receivers).look(NOW_MS) == 1
    assert [body["episode_id"] for body in web.bodies] == ["e1", "e2", "e2"]


def test_the_forms(ours: Ours, web: Receiving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: each kind of receiver gets its form, with sentence, setting and link; a client's name is harmless in
    each."""
    monkeypatch.setenv("KEY", "secret-key")
    key = {"env": "KEY"}
    receivers = {
        "chat": {"kind": "slack", "url": web.url + "/chat"},
        "pager": {"kind": "pagerduty", "url": web.url + "/pager", "key": key},
        "alerts": {"kind": "alertmanager", "url": web.url + "/", "key": key},
        "plain": {"kind": "json", "url": web.url + "/plain", "key": key},
    }
    ours.write(incident("e1", EVIL))
    notifier = ours.notifier(receivers, link="https://ledger.example/")
    assert notifier.look(NOW_MS) == 4
    reported = {path: (headers, body) for path, headers, body in web.came}
    page = (
        "https://ledger.example/clusters/east/groups/pay%20%3C%21channel%3E%20%26%20%1B%5B2J%E2%80%AE%2Ax%2A"
        "?at=2026-01-01T02%3A55%3A00.000Z"
    )
    assert reported["/chat"][1]["text"] == (
        "```\nERROR: pay &lt;!channel&gt; &amp; \\x1b[2J\\u202e*x* (pay) on east: A member of pay &lt;!channel&gt;"
        f" &amp; \\x1b[2J\\u202e*x* was refused. Change: max.poll.interval.ms.\n```\n<{page}|Open>"
    )
    pager = reported["/pager"][1]
    assert (pager["routing_key"], pager["dedup_key"], pager["event_action"]) == ("secret-key", "e1", "trigger")
    assert pager["payload"]["severity"] == "error"
    assert pager["links"][0]["href"] == page
    headers, (alert,) = reported["/api/v2/alerts"]
    assert headers["Authorization"] == "secret-key"
    assert alert["labels"]["group"] == EVIL
    assert alert["startsAt"] == "2026-01-01T02:55:00.000Z"
    assert "endsAt" not in alert  # its own clock decides
    assert alert["generatorURL"] == page
    plain = reported["/plain"][1]
    assert (plain["event"], plain["group_id"], plain["team"], plain["link"]) == ("fired", EVIL, "pay", page)
    web.came.clear()
    ours.write(incident("e1", EVIL, is_open=False))
    notifier.look(NOW_MS + MINUTE_MS)
    over = {path: body for path, _, body in web.came}
    assert over["/chat"]["text"].startswith("```\nOVER: illegal_generation in pay &lt;!channel&gt;")
    assert over["/pager"]["event_action"] == "resolve"
    assert over["/api/v2/alerts"][0]["endsAt"] == "2026-01-01T02:59:00.000Z"
    assert over["/plain"]["event"] == "resolved"


LINKS = "http://evil.example/a www.evil.example mailto:a@evil.example [a](https://evil.example) ```\n@all"


@pytest.mark.parametrize("kind", ["slack", "pagerduty", "alertmanager", "json"])
def test_names_are_no_links(ours: Ours, web: Receiving, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Goal: in no receiver's text is a client's name a link, bold or a mention: its addresses are broken, and if the
    text has markup the name is in a block of code, which no name ends."""
    monkeypatch.setenv("KEY", "secret-key")
    ours.write(incident("e1", LINKS))
    ours.notifier({"it": {"kind": kind, "url": web.url, "key": {"env": "KEY"}}}).look(NOW_MS)
    (body,) = web.bodies
    text = {
        "slack": lambda: body["text"],
        "pagerduty": lambda: body["payload"]["summary"],
        "alertmanager": lambda: body[0]["annotations"]["summary"],
        "json": lambda: body["text"],
    }[kind]()
    assert "http[:]//evil.example/a www[.]evil.example mailto[:]a@evil.example [a](https[:]//evil.example)" in text
    if kind == "slack":
        assert text.startswith("```\n")
        assert text.endswith("\n```")
        assert text.count("`") == 6
        assert text.count("\n") == 2


DRIPS = {
    "status": (b"HTTP/1.1 200 OK", b" "),
    "head": (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
    "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "error": (b"HTTP/1.1 500 No", b" "),
}


@pytest.mark.parametrize("drip", DRIPS.values(), ids=DRIPS.keys())
def test_an_answer_that_drips(drip: tuple[bytes, bytes]) -> None:
    """Goal: an exchange has one deadline, however often a byte comes, and its connection is closed then."""
    with dripping(*drip) as (url, is_closed):
        with pytest.raises(OutsideError, match="it did not answer in time"):
            post(url, b"{}", {}, 0.3)
        assert is_closed.wait(60)


def test_a_body_that_drips() -> None:
    """Goal: the status says that a message was taken, however long the rest takes; a sender that needs the answer waits
    for it until the deadline, and takes no more of it than there may be."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"
    with dripping(head, b"x") as (url, is_closed):
        assert post(url, b"{}", {}, 60, answer_bytes_max=0) == b""
        assert is_closed.wait(60)
        with pytest.raises(OutsideError, match="it did not answer in time"):
            post(url, b"{}", {}, 0.3)
    with dripping(head + b"x" * 3_000_000, b"x") as (url, _):
        assert post(url, b"{}", {}, 60) == b"x" * 2**20


def test_a_receiver_that_drips_holds_up_no_other(ours: Ours, web: Receiving) -> None:
    """Goal: while one receiver's exchange is under way, others get their messages in this look and in later ones."""
    ours.write(incident("e1"))
    with dripping(*DRIPS["error"]) as (url, _):
        receivers = {"slow": {"kind": "json", "url": url}, "chat": {"kind": "json", "url": web.url}}
        notifier = ours.notifier(receivers, timeout_s=60)
        notifier._begin(NOW_MS)
        notifier._workers["chat"].join()
        ours.write(incident("e1"), incident("e2"))
        notifier._begin(NOW_MS + 1)
        notifier._workers["chat"].join()
        assert notifier._workers["slow"].is_alive()
        assert [body["episode_id"] for body in web.bodies] == ["e1", "e2"]
    notifier._workers["slow"].join()
    assert notifier.counts == {("chat", "sent"): 2, ("slow", "failed"): 1}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_what_can_not_be_noted_is_not_reported(
    ours: Ours, web: Receiving, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Goal: without room, inodes or a working disk for the note nothing is sent: each start would send it again."""

    def write(*_: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(LocalStorage, "write", write)
    ours.write(incident("e1"))
    with pytest.raises(OSError, match="no"):
        ours.notifier({"chat": {"kind": "json", "url": web.url}}).look(NOW_MS)
    assert web.came == []


def test_a_receiver_that_is_away(ours: Ours, web: Receiving) -> None:
    """Goal: a receiver that refuses, redirects or does not listen holds up no other receiver, is asked again, and is
    reported once and without its address."""
    with receiving() as gone:
        gone_url = gone.url
    receivers = {"away": {"kind": "json", "url": f"{gone_url}/secret"}, "chat": {"kind": "json", "url": web.url}}
    ours.write(incident("e1"))
    notifier = ours.notifier(receivers)
    assert notifier.look(NOW_MS) == 1
    assert notifier.look(NOW_MS + 1) == 0
    assert notifier.counts == {("away", "failed"): 2, ("chat", "sent"): 1}
    web.status = 302
    ours.write(incident("e1"), incident("e2"))
    notifier.look(NOW_MS + 2)
    assert not any(path == "/elsewhere" for path, *_ in web.came)
    web.status = 200
    assert notifier.look(NOW_MS + 3) == 1
    assert len(ours.said) == 2
    assert "The receiver chat of notify.receivers was not reached: it answered with status 302." in ours.said[1]
    assert gone_url not in "".join(ours.said)
    assert "secret" not in "".join(ours.said)


def test_only_the_writer_sends(ours: Ours, web: Receiving) -> None:
    """Goal: a process that has lost the lease sends nothing any more."""
    ours.write(incident("e1"))
    ours.is_lost = True
    with pytest.raises(OutsideError):
        ours.notifier({"chat": {"kind": "json", "url": web.url}}).look(NOW_MS)
    assert web.came == []


def test_asked_to_stop(ours: Ours, web: Receiving) -> None:
    """Goal: a process that is asked to stop sends nothing more, however many messages wait; the next process sends
    them."""
    ours.write(incident("e1"), incident("e2"))
    receivers = {"chat": {"kind": "json", "url": web.url}}
    stopped = ours.notifier(receivers)
    stopped._stop.set()
    assert stopped.look(NOW_MS) == 0
    assert ours.notifier(receivers).look(NOW_MS) == 2


def test_nothing_to_send(ours: Ours, web: Receiving) -> None:
    """Goal: without a table, without rows and without anything recent, no message is sent."""
    notifier = ours.notifier({"chat": {"kind": "json", "url": web.url}})
    assert notifier.look(NOW_MS) == 0
    for rows in ([], [incident("old", last_seen_at=NOW - timedelta(hours=2))]):
        ours.write(*rows)
        assert notifier.look(NOW_MS) == 0
    assert web.came == []


def test_what_was_sent_is_damaged(ours: Ours, web: Receiving) -> None:
    """Goal: a damaged file is named with its remedy, and nothing is sent twice by mistake."""
    ours.write(incident("e1"))
    (ours.folder / "_groupledger" / "east").mkdir(parents=True)
    (ours.folder / "_groupledger" / "east" / "notified.json").write_text("{")
    with pytest.raises(OutsideError, match=r"notified\.json of the warehouse is damaged"):
        ours.notifier({"chat": {"kind": "json", "url": web.url}}).look(NOW_MS)
    assert web.came == []


@pytest.mark.parametrize(
    ("receiver", "sentence"),
    [
        ({"kind": "slack"}, "slack needs a url"),
        ({"kind": "slack", "url": "file:///etc/passwd"}, "begins with http:// or https://"),
        ({"kind": "pagerduty"}, "pagerduty needs the key"),
        ({"kind": "json", "url": "http://x", "kinds": ["nothing"]}, "no such kind of incident"),
        ({"kind": "fax", "url": "http://x"}, "notify.receivers.chat.kind"),
    ],
)
def test_settings_that_are_wrong(ours: Ours, receiver: dict[str, Any], sentence: str) -> None:
    """Goal: a receiver that can't be reached is refused where the settings are read."""
    with pytest.raises(InputError, match=sentence):
        ours.notifier({"chat": receiver})


def test_a_secret_address_that_is_none(ours: Ours, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a reference to a wrong address is refused without showing the address."""
    monkeypatch.setenv("URL", "ftp://hidden")
    conf = ours.folder / "settings.yaml"
    conf.write_text("notify: {receivers: {chat: {kind: slack, url: {env: URL}}}}")
    with pytest.raises(InputError, match=r"notify\.receivers\.chat\.url") as caught:
        receivers_of(load_settings(conf).notify)
    assert "hidden" not in str(caught.value)


def test_the_command(ours: Ours, web: Receiving) -> None:
    """Goal: `notify --test` sends each receiver a message and its end, and names the one that got nothing. With
    `clusters` in the settings it does so for each of them, as `monitor` would, or for the one that is asked for."""
    conf = ours.folder / "settings.yaml"
    conf.write_text(json.dumps({"notify": {"receivers": {"chat": {"kind": "slack", "url": web.url}}}}))
    found = CliRunner().invoke(main, ["notify", "--test", "--conf", str(conf)])
    assert (found.exit_code, "sent" in found.output) == (0, True), found.output
    assert ["OVER" in body["text"] for body in web.bodies] == [False, True]
    web.status = 404
    found = CliRunner().invoke(main, ["notify", "--test", "--json", "--conf", str(conf)])
    assert found.exit_code == 1
    assert "status 404" in found.output
    assert CliRunner().invoke(main, ["notify"]).exit_code == 2
    web.status = 200
    own = {"bootstrap_servers": "w:1", "notify": {"receivers": {"hook": {"kind": "json", "url": web.url}}}}
    settings = {**json.loads(conf.read_text()), "clusters": {"east": {"bootstrap_servers": "e:1"}, "west": own}}
    conf.write_text(json.dumps(settings))
    for arguments, expected in (
        ([], [("chat", "east"), ("chat", "west"), ("hook", "west")]),
        (["--cluster", "east"], [("chat", "east")]),
    ):
        web.came.clear()
        found = CliRunner().invoke(main, ["notify", "--test", "--json", "--conf", str(conf), *arguments])
        assert found.exit_code == 0, found.output
        sent = [json.loads(line) for line in found.output.splitlines()]
        assert [(each["receiver"], each["cluster"]) for each in sent] == expected
        for body, (_, named) in zip(web.bodies[::2], expected, strict=True):
            assert named in json.dumps(body)
    nobody = CliRunner().invoke(main, ["notify", "--test"])
    assert (nobody.exit_code, "name no receiver" in nobody.output) == (2, True)
