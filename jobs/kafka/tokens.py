"""Fetches tokens for OAUTHBEARER by client credentials (RFC 6749, 4.4), as Java's client does by itself.

A token is used for 80% of its life, and then a new one is fetched. If that fails, the old token is used until it
expires.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64encode
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from kafka.net.sasl.oauth import AbstractTokenProvider

from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.web import post

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.jobs.process.settings import KafkaSettings

LIFE_SHARE = 0.8  # of a token's life, after which a new one is fetched
LIFE_S = 300  # of a token whose answer does not say


@lru_cache(maxsize=8)
def token_provider(settings: KafkaSettings) -> TokenProvider:
    """Returns the one provider for these login settings: connections come and go with each micro-batch, and share a
    token. Raises OutsideError if no token can be fetched."""
    return TokenProvider(settings)


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # no types are published
    """Gives kafka-python its tokens. The first is fetched at once, so that an error in it is reported before any broker
    is asked. Raises OutsideError if no token can be fetched."""

    def __init__(self, settings: KafkaSettings, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._settings = settings
        self._now_s = now_s
        self._lock = threading.Lock()
        self._fetch()

    def token(self) -> str:
        with self._lock:
            if self._now_s() >= self._renew_at_s:
                try:
                    self._fetch()
                except OutsideError:
                    if self._now_s() >= self._ends_at_s:
                        raise
            return self._token

    def _fetch(self) -> None:
        settings = self._settings
        assert settings.sasl_token_url is not None  # noqa: S101 - the settings' validator holds both
        assert settings.sasl_password is not None  # noqa: S101
        secret = settings.sasl_password.resolve("kafka.sasl_password").get_secret_value()
        login = f"{settings.sasl_username}:{secret}"
        headers = {
            "Authorization": f"Basic {b64encode(login.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        wanted = {"grant_type": "client_credentials"} | ({"scope": settings.sasl_scope} if settings.sasl_scope else {})
        asked_s = self._now_s()
        try:
            body = post(
                settings.sasl_token_url, urlencode(wanted).encode(), headers, settings.request_timeout_ms / 1_000
            )
            answer = json.loads(body)
            token, life_s = str(answer["access_token"]), float(answer.get("expires_in", LIFE_S))
        except OutsideError as error:
            why = str(error)
        except (ValueError, KeyError, TypeError, AttributeError):
            why = "its answer holds no access_token"
        else:
            self._token = token
            self._renew_at_s, self._ends_at_s = asked_s + life_s * LIFE_SHARE, asked_s + life_s
            return
        raise OutsideError(
            f"kafka.sasl_token_url gave no token: {why}. Check the address, sasl_username and sasl_password (the id and"
            " the secret of the client), and sasl_scope."
        )
