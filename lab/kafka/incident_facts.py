"""Reads the facts for the incident rules from a real broker's logs. To check the rules, it also finds, with code of its
own, which lines of the request log have a refusal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from groupledger.schemas.kinds.incidents import kind_of_refusal
from lab.truth.from_logs import event_facts, request_facts

if TYPE_CHECKING:
    from groupledger.transforms.incidents.rules import CoordinatorEvent, Request
    from lab.kafka.local_broker import LocalBroker


def requests_of(broker: LocalBroker) -> dict[str, list[Request]]:
    """Returns the requests in the broker's request log, by group."""
    return request_facts(("requests", line) for line in broker.request_log.read_text().splitlines())


def events_of(broker: LocalBroker) -> dict[str, list[CoordinatorEvent]]:
    """Returns the coordinator's events in the broker's server log, by group."""
    return event_facts(broker.server_log.read_text(errors="replace").splitlines())


def refused_lines(broker: LocalBroker, group: str) -> list[int]:
    """Returns the numbers of those lines of the request log in which a request of the group was refused so that it is
    an incident."""
    found = []
    for number, line in enumerate(broker.request_log.read_text().splitlines(), 1):
        if f'"groupId":"{group}"' not in line:
            continue
        body = json.loads(line.partition("Completed request:")[2].rpartition(" (")[0])
        api, answer = body["requestHeader"]["requestApiKeyName"], body["response"]
        parts = [each for topic in answer.get("topics", ()) for each in topic.get("partitions", ())]
        codes = {each["errorCode"] for each in (answer, *parts, *answer.get("members", ())) if "errorCode" in each}
        if any(kind_of_refusal(api, code) for code in codes):
            found.append(number)
    return found
