"""Goal: events by OTLP, and messages of Apprise, have the content of the other receivers, and no secret, link or
mention."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.jobs.notify.by_apprise import send_by_apprise
from groupledger.jobs.notify.episodes import IncidentEpisode, Message
from groupledger.jobs.notify.notify import receivers_of
from groupledger.jobs.notify.receivers import MessageContext
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.settings import load_settings
from tests.jobs.notify.receiving import dripping, receiving

if TYPE_CHECKING:
    from groupledger.jobs.notify.notify import Receiver

# A library of Apprise warns of what Python 3.13 no longer has.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
EVIL = "pay <!channel> [a](https://evil.example) @all `x` *b*"
CONTEXT = MessageContext(cluster="east", link="https://ledger.example", key=None)


def message(event: str = "fired") -> Message:
    episode = IncidentEpisode(
        episode_id="e1",
        group_id=EVIL,
        team="pay",
        kinds=("illegal_generation",),
        severity="error",
        sentence=f"A member of {EVIL} was refused.",
        settings=("max.poll.interval.ms",),
        first_seen_ms=1_000,
        last_seen_ms=2_000,
        is_open=event != "resolved",
    )
    return Message("resolved" if event == "resolved" else "fired", "e1", episode)


def receiver(**settings: Any) -> Receiver:
    shipped = load_settings().notify.model_dump()
    (found,) = receivers_of(load_settings(notify=shipped | {"receivers": {"it": settings}}).notify)
    return found


def test_events() -> None:
    """Goal: a log record with a name, its severity, the sentence, and the facts as attributes; the end is one, too."""
    with receiving() as web:
        ours = receiver(kind="otlp", url=web.url + "/")
        ours.send(message(), CONTEXT, 30)
        ours.send(message("resolved"), CONTEXT, 30)
        ours.send(Message("resolved", "e2", None), CONTEXT, 30)
        assert {path for path, _, _ in web.came} == {"/v1/logs"}
        records = [body["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0] for body in web.bodies]
    first = {each["key"]: each["value"]["stringValue"] for each in records[0]["attributes"]}
    assert (records[0]["eventName"], records[0]["severityNumber"]) == ("groupledger.incident", 17)
    assert records[0]["timeUnixNano"] == "1000000000"
    assert records[0]["body"]["stringValue"].startswith("ERROR: pay <!channel>")
    assert first["messaging.consumer.group.name"] == EVIL
    assert (first["groupledger.event"], first["groupledger.episode_id"]) == ("fired", "e1")
    assert first["url.full"].startswith("https://ledger.example/clusters/east/groups/")
    assert [each["severityNumber"] for each in records] == [17, 9, 9]
    assert records[1]["timeUnixNano"] == "2000000000"


def test_apprise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: Apprise's own JSON service gets title, text and kind; names are no mention, no markup and no link."""
    with receiving() as web:
        monkeypatch.setenv("URL", web.url.replace("http://", "json://") + "/?secret=x")
        ours = receiver(kind="apprise", key={"env": "URL"})
        assert "secret" not in repr(ours)
        ours.send(message(), CONTEXT, 30)
        ours.send(message("resolved"), CONTEXT, 30)
        first, second = web.bodies
    assert (first["title"], first["type"], second["type"]) == ("groupledger: east", "failure", "success")
    text = first["message"].splitlines()[0]
    expected = r"pay \u2039!channel\u203a [a](https[:]//evil.example) \uff20all 'x' \u2217b\u2217"
    assert expected.encode().decode("unicode_escape") in text
    assert first["message"].splitlines()[1].startswith("https://ledger.example/clusters/east/groups/")


def test_apprise_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a refusal and a receiver that drips are errors in time, without the URL."""
    with receiving() as web:
        web.status = 500
        monkeypatch.setenv("URL", web.url.replace("http://", "json://") + "/?secret=x")
        with pytest.raises(OutsideError, match=r"receiver it of notify\.receivers was not reached") as found:
            receiver(kind="apprise", key={"env": "URL"}).send(message(), CONTEXT, 30)
        assert "secret" not in str(found.value)
    with dripping(b"HTTP/1.1 200 OK\r\nX: ", b"a") as (url, _), pytest.raises(OutsideError, match="in time"):
        send_by_apprise(url.replace("http://", "json://"), message(), CONTEXT, 1)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"kind": "apprise"}, "apprise needs its URL as key"),
        ({"kind": "apprise", "url": "http://a", "key": {"env": "URL"}}, "takes its URL, which has secrets in it, as"),
        ({"kind": "otlp"}, "otlp needs a url"),
        ({"kind": "apprise", "key": {"env": "URL"}}, "Apprise does not know the URL"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: settings that can't work are refused before anything is sent, without showing the secret."""
    monkeypatch.setenv("URL", "nothing-that-it-knows")
    with pytest.raises(InputError, match=sentence) as found:
        receiver(**settings)
    assert "nothing-that" not in str(found.value)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: if the library is missing, the error says how to install it."""
    monkeypatch.setenv("URL", "json://127.0.0.1")
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(InputError, match=r"pip install 'groupledger\[apprise\]'"):
        receiver(kind="apprise", key={"env": "URL"})
