"""Logs users of `serve` in by OpenID Connect (the setting `serve.oidc`, the extra `oidc`), and says which teams each
may see.

A browser without a session is sent to the issuer (authorization code flow with PKCE, state and nonce), comes back to
`/login/callback`, and gets a session: a signed cookie with the teams and an end. Nothing is kept here, so that any
process with the same client secret knows the session. A program sends an ID token of the same issuer and client as
`Authorization: Bearer`. Names and keys of the issuer are read again after an hour, and keys sooner if a token names an
unknown one. What the issuer says is data: only claims that its signature covers count, or that it hands to us itself
for the user of such a token.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, KeySet, OctKey

from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.web import StatusError, get, post

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.jobs.process.settings import OidcSettings

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
OWN_ALGORITHM = "HS256"
TIMEOUT_S, LEEWAY_S = 10, 60
KEPT_S, KEYS_AGAIN_S, AWAY_S = 3_600.0, 60.0, 5.0
OF_ID_TOKENS = {"jwt", "id_token+jwt"}
COOKIE_CHARACTERS_MAX = 4_000
"""Browsers drop a cookie whose name and value have more than 4,096."""
LOGIN_S = 600
SESSION, LOGIN = "session", "login"
ALL = "all"


class RefusedError(Exception):
    """The user is not let in; the text is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who is logged in. `teams` are those that the user may see; None means all of the ledger."""

    name: str
    teams: frozenset[str] | None


@dataclass
class Oidc:
    """The login by one issuer. Methods that ask the issuer raise OutsideError if it does not answer."""

    settings: OidcSettings
    secret: str = field(repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _metadata: dict[str, Any] = field(default_factory=dict, repr=False)
    _metadata_s: float = float("-inf")
    _away: str = ""
    _away_s: float = float("-inf")
    _keys: KeySet | None = field(default=None, repr=False)
    _keys_s: float = float("-inf")

    def begin(self, where: str, now_s: int) -> tuple[str, str]:
        """Returns the URL of the issuer to which a browser is sent, and the cookie by which it is known again. `where`
        is the path that the user asked for."""
        login = {"state": secrets.token_urlsafe(24), "nonce": secrets.token_urlsafe(24), "where": where}
        verifier = secrets.token_urlsafe(48)
        asked = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.settings.callback,
            "scope": self.settings.scopes,
            "state": login["state"],
            "nonce": login["nonce"],
            "code_challenge": create_s256_code_challenge(verifier),
            "code_challenge_method": "S256",
        }
        endpoint = self._endpoint("authorization_endpoint")
        cookie = self._signed(LOGIN, login | {"verifier": verifier}, now_s + LOGIN_S)
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}", cookie

    def end(self, cookie: str, state: str, code: str, now_s: int) -> tuple[str, str]:
        """Returns the path that the user asked for, and the cookie of the session. Raises RefusedError."""
        login = self._read(LOGIN, cookie, now_s)
        if login is None or not hmac.compare_digest(login["state"].encode(), state.encode()):
            raise RefusedError("The login took too long, or was begun elsewhere: ask for the page again.")
        tokens = self._tokens(code, login["verifier"])
        claims = self._claims(tokens["id_token"], now_s, login["nonce"])
        if self.settings.claim not in claims:
            claims = {**self._userinfo(tokens.get("access_token"), claims["sub"]), **claims}
        user = self._user(claims)
        teams = None if user.teams is None else sorted(user.teams)
        end_s = now_s + self.settings.session_h * 3_600
        session = self._signed(SESSION, {"name": user.name, "teams": teams}, end_s)
        if len(session) > COOKIE_CHARACTERS_MAX:  # without this the browser would log in again and again
            raise RefusedError("Your roles name more teams than a session can hold: ask for a role for all teams.")
        return login["where"], session

    def user_of(self, cookie: str, now_s: int) -> User | None:
        """Returns the user of a session; None if the cookie is not ours, or has ended."""
        session = self._read(SESSION, cookie, now_s)
        if session is None:
            return None
        teams = session["teams"]
        return User(session["name"], None if teams is None else frozenset(teams))

    def bearer(self, token: str, now_s: int) -> User:
        """Returns the user of an ID token. Raises RefusedError."""
        return self._user(self._claims(token, now_s, None))

    def _tokens(self, code: str, verifier: str) -> dict[str, Any]:
        """Exchanges the code for the ID token and what comes with it. Raises RefusedError if the issuer does not give
        one."""
        asked = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.settings.callback,
            "code_verifier": verifier,
        }
        pair = f"{quote(self.settings.client_id, '')}:{quote(self.secret, '')}"
        headers = {
            "Authorization": "Basic " + base64.b64encode(pair.encode()).decode(),
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        try:
            found = _object(post(self._endpoint("token_endpoint"), urlencode(asked).encode(), headers, TIMEOUT_S))
        except StatusError as error:
            if error.status != HTTPStatus.BAD_REQUEST:
                raise
            raise RefusedError("The issuer refuses the code of this login: ask for the page again.") from error
        if not isinstance(found.get("id_token"), str):
            raise RefusedError("The login gave no ID token.")
        return found

    def _userinfo(self, access_token: object, subject: str) -> dict[str, Any]:
        """Returns the claims that the issuer keeps out of ID tokens, as it may where it also gives an access token
        (OpenID Connect Core, 5.4). Those of another subject are refused (5.3.2)."""
        endpoint = self._known().get("userinfo_endpoint")
        if not isinstance(endpoint, str) or not isinstance(access_token, str):
            return {}
        found = _object(get(endpoint, TIMEOUT_S, {"Authorization": f"Bearer {access_token}"}))
        if found.get("sub") != subject:
            raise RefusedError("The issuer named two users: log in again.")
        return found

    def _user(self, claims: Mapping[str, Any]) -> User:
        if self.settings.claim not in claims:
            raise RefusedError(f"You are logged in, and the issuer does not send your {self.settings.claim}.")
        listed = claims[self.settings.claim]
        names = [listed] if isinstance(listed, str) else listed if isinstance(listed, list) else []
        teams = teams_of(self.settings.roles, (each for each in names if isinstance(each, str)))
        if teams is not None and not teams:
            raise RefusedError("You are logged in, and no role of yours may see anything here.")
        return User(str(claims.get("preferred_username", claims["sub"])), teams)

    def _claims(self, token: str, now_s: int, nonce: str | None) -> Mapping[str, Any]:
        found = None
        for again in (False, True):
            try:
                found = jwt.decode(token, self._key_set(again=again, at_once=nonce is not None), algorithms=ALGORITHMS)
                break
            except (JoseError, ValueError):
                continue  # perhaps by a key that is newer than ours
        # Tokens for other uses, such as access and logout tokens, say so in their type (RFC 8725, 3.11).
        if found is None or str(found.header.get("typ", "JWT")).lower() not in OF_ID_TOKENS:
            raise RefusedError("The token is no ID token of the issuer's.")
        options = {"iss": {"essential": True, "value": self._issuer()}}
        options["aud"] = {"essential": True, "value": self.settings.client_id}
        wanted = {"client_id": self.settings.client_id, "nonce": nonce}
        claims = CodeIDToken(found.claims, found.header, options, wanted)
        try:
            claims.validate(now_s, LEEWAY_S)
        except JoseError as error:
            raise RefusedError("The token is not for this server, or has ended: log in again.") from error
        return dict(found.claims)

    def _issuer(self) -> str:
        return str(self._known()["issuer"])

    def _endpoint(self, name: str) -> str:
        return str(self._known()[name])

    def _known(self) -> dict[str, Any]:
        """Returns what the issuer publishes about itself (OpenID Connect Discovery)."""
        with self._lock:
            if monotonic() - self._metadata_s > KEPT_S:
                found = self._asked()
                needed = ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri")
                if not all(isinstance(found.get(each), str) for each in needed):
                    raise OutsideError(f"its description lacks one of {', '.join(needed)}")
                if found["issuer"].rstrip("/") != self.settings.issuer.rstrip("/"):
                    raise OutsideError("it calls itself by another name than serve.oidc.issuer")
                self._metadata, self._metadata_s = found, monotonic()
            return self._metadata

    def _asked(self) -> dict[str, Any]:
        """Asks the issuer for its description. If it did not answer just now, this fails at once: otherwise all threads
        would wait for it, one after the other, and users with a session with them."""
        if monotonic() - self._away_s < AWAY_S:
            raise OutsideError(self._away)
        try:
            return _object(get(self.settings.issuer.rstrip("/") + "/.well-known/openid-configuration", TIMEOUT_S))
        except OutsideError as error:
            self._away, self._away_s = str(error), monotonic()
            raise

    def _key_set(self, *, again: bool, at_once: bool) -> KeySet:
        """Returns the issuer's keys. With `again` they are read anew, unless that was done a minute ago: otherwise
        wrong tokens would make us ask on and on. A token from the issuer's own hand is worth asking for `at_once`."""
        url = self._endpoint("jwks_uri")
        with self._lock:
            age_s = monotonic() - self._keys_s
            if self._keys is None or age_s > KEPT_S or (again and (at_once or age_s > KEYS_AGAIN_S)):
                self._keys = _keys_in(_object(get(url, TIMEOUT_S)))
                self._keys_s = monotonic()
            return self._keys

    def _own_key(self, what: str) -> OctKey:
        """Returns the key that signs cookies of one kind: so none can be taken for one of another."""
        digest = hmac.digest(self.secret.encode(), f"groupledger {what}".encode(), hashlib.sha256)
        key: OctKey = OctKey.import_key(digest)
        return key

    def _signed(self, what: str, values: Mapping[str, Any], end_s: int) -> str:
        key = self._own_key(what)
        return jwt.encode({"alg": OWN_ALGORITHM}, {**values, "exp": end_s}, key, algorithms=[OWN_ALGORITHM])

    def _read(self, what: str, cookie: str, now_s: int) -> dict[str, Any] | None:
        try:
            found = jwt.decode(cookie, self._own_key(what), algorithms=[OWN_ALGORITHM]).claims
        except (JoseError, ValueError):
            return None
        return found if found["exp"] > now_s else None


def teams_of(roles: Mapping[str, str | list[str]], names: Iterable[str]) -> frozenset[str] | None:
    """Returns the teams that the roles `names` may see together; None means all."""
    given = [roles[name] for name in names if name in roles]
    if ALL in given:
        return None
    return frozenset(team for teams in given for team in teams)


def _keys_in(found: Mapping[str, Any]) -> KeySet:
    """Returns the keys of a set that can be used; the others are left out, as RFC 7517 (5) wants it."""
    keys, listed = [], found.get("keys")
    for each in listed if isinstance(listed, list) else []:
        with suppress(JoseError, ValueError, TypeError, KeyError):  # KeyError: an unknown curve
            keys.append(JWKRegistry.import_key(each))
    return KeySet(keys)


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise OutsideError("its answer is no JSON") from error
    if not isinstance(found, dict):
        raise OutsideError("its answer is no JSON object")
    return found


def oidc_of(settings: OidcSettings) -> Oidc:
    """Returns the login of the settings. Raises InputError if the secret is missing or guessable."""
    secret = settings.client_secret.resolve("serve.oidc.client_secret").get_secret_value()
    if len(secret) < 16:  # noqa: PLR2004 - it signs sessions, too
        raise InputError("The secret of serve.oidc.client_secret has fewer than 16 characters: use a longer one.")
    return Oidc(settings, secret)
