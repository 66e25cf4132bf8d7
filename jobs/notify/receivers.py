"""Formats a message for each kind of receiver, as the body of one POST.

    json           one JSON object, as `docs/notify.md` describes it
    slack          an incoming webhook (also Mattermost and whatever takes Slack's `text`)
    pagerduty      Events API v2: `trigger` and `resolve`, with the episode as `dedup_key`
    alertmanager   its API v2; it forgets an alert that is not repeated
    otlp           an event of OpenTelemetry: a log record with a name, by OTLP's JSON

`jobs.notify.by_apprise` sends to the kind `apprise`.

Names come from clients. In texts they are escaped (`escaped`), and an address in a name is broken with brackets, so
that a receiver does not make a link of it. Slack's and Mattermost's texts have markup, which a name could contain, so
they are sent as a block of code, in which nothing is markup or a mention. In JSON fields names stay as they are.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from groupledger.jobs.ask.verdict import what_follows
from groupledger.jobs.process.otlp import attributes, nanoseconds, resource, scope
from groupledger.jobs.process.path_names import part
from groupledger.jobs.process.terminal import escaped
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.words import Severity
from groupledger.transforms.coverage.rules.coverage_at import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from groupledger.jobs.notify.episodes import IncidentEpisode, Message

PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"
SUMMARY_CHARACTERS_MAX = 1_024  # PagerDuty refuses more
ALERTMANAGER_PATH = "/api/v2/alerts"
OTLP_LOGS_PATH = "/v1/logs"
# The signs without which chats and pagers make no link of an address.
LINK = re.compile(r"(?i):(?=//)|(?<=\bwww)\.|(?<=\bmailto):")
FENCE = "```"


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageContext:
    """Holds the values that a text needs besides the message. `link` is the address of `groupledger serve`, and `key`
    the receiver's secret; each is None if the settings have none."""

    cluster: str
    link: str | None
    key: str | None


@dataclass(frozen=True, slots=True)
class Body:
    """Holds the request: a path below the receiver's URL, the content as JSON, and further headers."""

    json: Any
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> bytes:
        return json.dumps(self.json).encode()


def page_of(episode: IncidentEpisode, context: MessageContext) -> str | None:
    """Returns the URL of the page of `groupledger serve` that shows the group at the beginning of the episode, or the
    incidents of the cluster for an episode without a group. Returns None if the settings have no link to pages."""
    if context.link is None:
        return None
    cluster = f"{context.link.rstrip('/')}/clusters/{part(context.cluster)}"
    if episode.group_id is None:
        since = _instant(episode.first_seen_ms)
        return f"{cluster}/incidents?{urlencode({'since': since})}"
    return f"{cluster}/groups/{part(episode.group_id)}?{urlencode({'at': _instant(episode.first_seen_ms)})}"


def _instant(at_ms: int) -> str:
    return iso(instant_of_ms(at_ms))


def _subject(episode: IncidentEpisode, context: MessageContext) -> str:
    of_team = "" if episode.team is None else f" ({episode.team})"
    group = "__consumer_offsets" if episode.group_id is None else escaped(episode.group_id)
    return f"{group}{of_team} on {context.cluster}"


def text_of(message: Message, context: MessageContext) -> str:
    """Returns the message as one line of text, in which no name is a link."""
    return LINK.sub(r"[\g<0>]", _text(message, context))


def _text(message: Message, context: MessageContext) -> str:
    episode = message.episode
    if episode is None:
        return f"OVER: a log that came later shows otherwise, and episode {message.episode_id[:8]} is withdrawn."
    if message.event == "resolved":
        last = _instant(episode.last_seen_ms)
        return f"OVER: {', '.join(episode.kinds)} in {_subject(episode, context)}, last seen at {last}."
    head = f"{episode.severity.upper()}: {_subject(episode, context)}: {escaped(episode.sentence)}"
    advice = None if episode.advice is None else escaped(episode.advice)
    end = what_follows(episode.harm, advice, ", ".join(episode.settings), episode.known)
    return f"{head} {end}" if end else head


def _json(message: Message, context: MessageContext) -> Body:
    content: dict[str, Any] = {
        "event": "resolved" if message.event == "resolved" else "fired",
        "cluster": context.cluster,
        "episode_id": message.episode_id,
        "text": text_of(message, context),
    }
    episode = message.episode
    if episode is not None:
        content |= {
            "group_id": episode.group_id,
            "team": episode.team,
            "kinds": episode.kinds,
            "severity": episode.severity,
            "cause": episode.cause,
            "explanation": episode.sentence,
            "who": episode.who,
            "harm": episode.harm,
            "advice": episode.advice,
            "known": episode.known,
            "settings_to_change": episode.settings,
            "first_seen_at": _instant(episode.first_seen_ms),
            "last_seen_at": _instant(episode.last_seen_ms),
            "link": page_of(episode, context),
        }
    return Body(content, headers=_authorized(context))


def _authorized(context: MessageContext) -> dict[str, str]:
    return {} if context.key is None else {"Authorization": context.key}


def _slack(message: Message, context: MessageContext) -> Body:
    text = text_of(message, context).replace("`", "'")
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    page = None if message.episode is None else page_of(message.episode, context)
    shown = f"{FENCE}\n{text}\n{FENCE}" + ("" if page is None else f"\n<{page}|Open>")
    return Body({"text": shown, "unfurl_links": False, "unfurl_media": False})


def _pagerduty(message: Message, context: MessageContext) -> Body:
    event: dict[str, Any] = {"routing_key": context.key, "dedup_key": message.episode_id}
    episode = message.episode
    if message.event == "resolved" or episode is None:
        return Body({**event, "event_action": "resolve"})
    page = page_of(episode, context)
    payload: dict[str, Any] = {
        "summary": text_of(message, context)[:SUMMARY_CHARACTERS_MAX],
        "source": context.cluster,
        "severity": episode.severity,  # its words are the same
        "timestamp": _instant(episode.first_seen_ms),
        "class": episode.kinds[0],
        "custom_details": {
            "kinds": episode.kinds,
            "cause": episode.cause,
            "who": episode.who,
            "harm": episode.harm,
            "settings_to_change": episode.settings,
        },
    }
    payload |= {} if episode.group_id is None else {"component": episode.group_id}
    payload |= {} if episode.team is None else {"group": episode.team}
    links = [] if page is None else [{"href": page, "text": "The group at that time"}]
    return Body({**event, "event_action": "trigger", "payload": payload, "links": links})


def _alertmanager(message: Message, context: MessageContext) -> Body | None:
    episode = message.episode
    if episode is None:
        return None  # its labels are not known any more, and it ends by itself
    # The labels are the alert's identity: one that becomes graver is another alert, and the first one ends by itself.
    labels = {
        "alertname": "ConsumerGroupIncident",
        "cluster": context.cluster,
        "group": episode.group_id or "",
        "team": episode.team or "",
        "severity": episode.severity,
        "episode_id": episode.episode_id,
    }
    annotations = {
        "summary": text_of(message, context),
        "kinds": ", ".join(episode.kinds),
        "settings_to_change": ", ".join(episode.settings),
    }
    alert = {
        "labels": labels,
        "annotations": annotations,
        "startsAt": _instant(episode.first_seen_ms),
    }
    # Without an end, Alertmanager's own clock decides how long the alert lasts: by a clock of ours that is minutes slow
    # it would be over when it comes.
    alert |= {"endsAt": _instant(episode.last_seen_ms)} if message.event == "resolved" else {}
    page = page_of(episode, context)
    alert |= {} if page is None else {"generatorURL": page}
    return Body([alert], ALERTMANAGER_PATH, _authorized(context))


SEVERITY_NUMBERS = {Severity.INFO: 9, Severity.WARNING: 13, Severity.ERROR: 17}


def _otlp(message: Message, context: MessageContext) -> Body:
    episode = message.episode
    severity = Severity.INFO if episode is None or message.event == "resolved" else episode.severity
    named = {
        "groupledger.event": "resolved" if message.event == "resolved" else "fired",
        "groupledger.cluster": context.cluster,
        "groupledger.episode_id": message.episode_id,
    }
    if episode is not None:
        further = {
            "messaging.consumer.group.name": episode.group_id,
            "groupledger.team": episode.team,
            "groupledger.kinds": ",".join(episode.kinds),
            "groupledger.cause": episode.cause,
            "url.full": page_of(episode, context),
        }
        named |= {name: value for name, value in further.items() if value is not None}
    record: dict[str, Any] = {
        "severityNumber": SEVERITY_NUMBERS[severity],
        "severityText": severity.upper(),
        "eventName": "groupledger.incident",
        "body": {"stringValue": text_of(message, context)},
        "attributes": attributes(named),
    }
    if episode is not None:
        at_ms = episode.last_seen_ms if message.event == "resolved" else episode.first_seen_ms
        record["timeUnixNano"] = nanoseconds(at_ms)
    logs = {"resource": resource(), "scopeLogs": [{"scope": scope(), "logRecords": [record]}]}
    return Body({"resourceLogs": [logs]}, OTLP_LOGS_PATH, _authorized(context))


BODIES: dict[str, Callable[[Message, MessageContext], Body | None]] = {
    "json": _json,
    "slack": _slack,
    "pagerduty": _pagerduty,
    "alertmanager": _alertmanager,
    "otlp": _otlp,
}
"""The function for each kind of receiver. It returns None if there is nothing to send."""
FORGETS = ("alertmanager",)
