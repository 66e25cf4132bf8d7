"""Goal: users log in by OpenID Connect as its issuer says, and each sees the groups of the teams of the roles; nothing
else is open, whatever cookies, tokens and paths are tried."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from click.testing import CliRunner
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from groupledger.jobs.cli.main import main
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.settings import Settings, load_settings
from groupledger.jobs.serve.logins import path_of
from groupledger.jobs.serve.oidc import Oidc, RefusedError, User, oidc_of, teams_of
from tests.jobs.serve.serving import CLUSTER, Client, fill, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET, CLIENT_ID = "a-long-secret-of-the-client", "groupledger"
PAGE = {"accept": "text/html"}
TEAMS = {"pay": {"groups": "pay.*"}, "shop": {"groups": "shop.*"}}
ROLES = {"sre": "all", "pay-devs": ["pay"], "nobody": []}
OWN, OTHER = f"/clusters/{CLUSTER}/groups/pay-eu", f"/clusters/{CLUSTER}/groups/shop-eu"


@dataclass
class Issuer:
    """An issuer of ID tokens. `claims` are added to the next one, `userinfo` is the answer about its user; `asked` are
    the login's parameters, by code."""

    url: str = ""
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "k1"}))
    other_keys: list[Any] = field(default_factory=list)
    claims: dict[str, Any] = field(default_factory=dict)
    userinfo: dict[str, Any] = field(default_factory=dict)
    refusal: int = 400
    asked: dict[str, dict[str, str]] = field(default_factory=dict)
    authorizations: list[str] = field(default_factory=list)

    def token(self, key: Any = None, alg: str = "RS256", typ: str = "JWT", **claims: Any) -> str:
        now_s = now_ms() // 1_000
        usual = {"iss": self.url, "aud": CLIENT_ID, "sub": "u1", "iat": now_s, "exp": now_s + 300}
        return jwt.encode(
            {"alg": alg, "kid": self.key.kid, "typ": typ},
            usual | self.claims | claims,
            key or self.key,
            algorithms=[alg],
        )

    def consent(self, location: str) -> str:
        """Plays the user at the issuer: returns the callback's path and query."""
        parts = urlsplit(location)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        code = f"code{len(self.asked)}"
        self.asked[code] = asked
        return f"{urlsplit(asked['redirect_uri']).path}?code={code}&state={quote(asked['state'])}"

    def answer(self, path: str, form: dict[str, list[str]]) -> dict[str, Any] | None:
        if path == "/.well-known/openid-configuration":
            ends = {"authorization_endpoint": "/auth", "token_endpoint": "/token", "jwks_uri": "/keys"}
            ends |= {"userinfo_endpoint": "/me"} if self.userinfo else {}
            return {"issuer": self.url} | {name: self.url + end for name, end in ends.items()}
        if path == "/keys":
            return {"keys": [*self.other_keys, self.key.as_dict(private=False)]}
        if path == "/me":
            return self.userinfo
        asked = self.asked.pop(form["code"][0], None)
        if asked is None or create_s256_code_challenge(form["code_verifier"][0]) != asked["code_challenge"]:
            return None
        return {"id_token": self.token(nonce=asked["nonce"]), "access_token": "opaque"}


@contextmanager
def issuing() -> Iterator[Issuer]:
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        timeout = 60

        def do_GET(self) -> None:
            is_known = self.path != "/me" or self.headers["Authorization"] == "Bearer opaque"
            self.send(issuer.answer(self.path, {}) if is_known else None)

        def do_POST(self) -> None:
            issuer.authorizations.append(self.headers["Authorization"])
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.send(issuer.answer(self.path, parse_qs(text)))

        def send(self, value: dict[str, Any] | None) -> None:
            body = json.dumps(value or {"error": "invalid_grant"}).encode()
            self.send_response(200 if value is not None else issuer.refusal)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept")
    for name in ("pay-eu", "shop-eu", "pay/odd name"):
        fill(folder, name, "orders", "pod-b")
    return folder


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as found, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OIDC_SECRET", SECRET)
        yield found


def settings_with(url: str, **changed: Any) -> Settings:
    oidc = {"issuer": url, "client_id": CLIENT_ID, "client_secret": {"env": "OIDC_SECRET"}, "roles": ROLES}
    oidc |= {"callback": "http://localhost/login/callback"} | changed
    return load_settings(serve=load_settings().serve.model_dump() | {"oidc": oidc}, teams=TEAMS)


@pytest.fixture(scope="module")
def oidc(issuer: Issuer) -> Oidc:
    found = settings_with(issuer.url).serve.oidc
    assert found is not None
    return oidc_of(found)


@pytest.fixture(scope="module")
def client(warehouse: Path, oidc: Oidc, issuer: Issuer) -> Iterator[Client]:
    with served(warehouse, settings=settings_with(issuer.url), oidc=oidc, with_mcp=True) as found:
        yield found


def cookie_of(headers: dict[str, str], name: str) -> str:
    return SimpleCookie(headers["set-cookie"])[name].value


def logged_in(client: Client, issuer: Issuer, *roles: str, where: str = OWN) -> str:
    """Logs a user in as a browser does, and returns the Cookie header of the session."""
    issuer.claims = {"groups": [*roles]}
    begun = client.get(f"/login?where={quote(where, '')}", **PAGE)
    assert begun.status == 302
    login = cookie_of(begun.headers, "groupledger_login")
    ended = client.get(issuer.consent(begun.headers["location"]), cookie=f"groupledger_login={login}", **PAGE)
    assert (ended.status, ended.headers.get("location")) == (302, where), ended.text
    return f"groupledger_session={cookie_of(ended.headers, 'groupledger_session')}"


def test_nobody(client: Client) -> None:
    """Goal: without a login a browser is sent to log in and comes back to the page that it asked for; a program is
    refused."""
    for path in ("/", OWN, f"/api/v1{OWN}", "/v3/kafka", "/static/page.css", "/mcp", "/nowhere"):
        assert client.get(path).status == (405 if path == "/mcp" else 401)
    asked = client.get(f"{OWN}?at=2h", **PAGE)
    assert (asked.status, asked.headers["location"]) == (302, f"/login?where={quote(OWN + '?at=2h', '')}")
    assert client.get("/livez").status == 200


def test_everything(client: Client, issuer: Issuer) -> None:
    """Goal: a user with the role for everything sees everything; the code is exchanged with the client's secret;
    logging out ends the session."""
    cookie = logged_in(client, issuer, "sre")
    for path in (f"/clusters/{CLUSTER}", OWN, OTHER, f"/clusters/{CLUSTER}/incidents", f"/api/v1{OTHER}", "/v3/kafka"):
        assert client.get(path, cookie=cookie).status == 200
    assert issuer.authorizations[-1].startswith("Basic ")
    out = client.get("/logout", cookie=cookie)
    assert out.status == 200
    assert 'groupledger_session=""' in out.headers["set-cookie"]
    assert "httponly" in out.headers["set-cookie"].lower()


def test_a_team(client: Client, issuer: Issuer) -> None:
    """Goal: a user of a team sees its groups with all their pages, a list of them, and nothing that has others."""
    cookie = logged_in(client, issuer, "pay-devs", "unknown role")
    odd = f"/clusters/{CLUSTER}/groups/{quote('pay/odd name', '')}"
    for path in (
        OWN,
        odd,
        f"{OWN}/deploys",
        f"/api/v1{OWN}",
        f"/api/v1{OWN}/lag",
        f"/v3/kafka/{CLUSTER}/consumer/pay-eu",
    ):
        assert client.get(path, cookie=cookie).status == 200, path
    page = client.get(f"/clusters/{CLUSTER}", cookie=cookie, **PAGE)
    assert "pay-eu" in page.text
    assert "shop-eu" not in page.text
    listed = client.get(f"/api/v1/clusters/{CLUSTER}/groups?team=pay&all=true", cookie=cookie)
    assert {row["group_id"] for row in listed.json["groups"]} == {"pay-eu", "pay/odd name"}


CLOSED = (
    OTHER,
    f"{OTHER}/lag",
    f"/api/v1{OTHER}",
    f"/api/v1{OTHER}/lag",
    f"/v3/kafka/{CLUSTER}/consumer/shop-eu/lag",
    f"/v3/kafka/{CLUSTER}/consumer",
    f"/clusters/{CLUSTER}/incidents",
    f"/clusters/{CLUSTER}/audit",
    f"/clusters/{CLUSTER}/rows/lag?group_id=shop-eu",
    f"/clusters/{CLUSTER}/owner?topic=orders&partition=0",
    f"/api/v1/clusters/{CLUSTER}/groups",
    f"/api/v1/clusters/{CLUSTER}/groups?team=shop",
    f"/api/v1/clusters/{CLUSTER}/groups?team=pay&team=shop",
    f"/api/v1/clusters/{CLUSTER}/groups?team=pay&team=",
    f"/api/v1/clusters/{CLUSTER}/groups?team=&team=pay",
    f"/api/v1/clusters/{CLUSTER}/groups?q=shop",
    f"/api/v1/clusters/{CLUSTER}/incidents",
    f"/api/v1/clusters/{CLUSTER}/events",
    "/api/v1/queries/rebalance-triggers",
    f"/clusters/{CLUSTER}/groups/pay-eu%2F..%2Fshop-eu",
    f"/clusters/{CLUSTER}/groups/../groups/shop-eu",
    f"/clusters/{CLUSTER}/groups/pay-eu/../shop-eu",
    f"/clusters//groups/pay-eu/../../{CLUSTER}/groups/shop-eu",
    f"/clusters/{CLUSTER}/groups/shop-eu%0Apay",
    f"/CLUSTERS/{CLUSTER}/groups/shop-eu",
)


def test_what_is_closed_to_a_team(client: Client, issuer: Issuer) -> None:
    """Goal: others' groups and all lists of all groups are refused, in each form of path."""
    cookie = logged_in(client, issuer, "pay-devs")
    for path in CLOSED:
        answer = client.get(path, cookie=cookie)
        assert answer.status in {400, 403, 404}, path
        assert "pod-b" not in answer.text, path


def test_no_role(client: Client, issuer: Issuer) -> None:
    """Goal: a user whom the issuer knows, and who has no role, sees nothing, and no session begins."""
    several: tuple[Any, ...] = (["nobody"], ["else"], "all", [["sre"]], None)
    for roles in several:
        issuer.claims = {"groups": roles}
        begun = client.get("/login", **PAGE)
        login = f"groupledger_login={cookie_of(begun.headers, 'groupledger_login')}"
        ended = client.get(issuer.consent(begun.headers["location"]), cookie=login)
        assert ended.status == 403, roles
        assert "set-cookie" not in ended.headers


def test_forged_logins(client: Client, issuer: Issuer) -> None:
    """Goal: a callback without its cookie, with another state, a used code or an answer of another login is refused."""
    issuer.claims = {"groups": ["sre"]}
    begun = client.get("/login", **PAGE)
    login = f"groupledger_login={cookie_of(begun.headers, 'groupledger_login')}"
    callback = issuer.consent(begun.headers["location"])
    assert client.get(callback).status == 403
    refused = client.get(callback.replace("code=", "error="), cookie=login)
    assert (refused.status, "did not log you in" in refused.text) == (403, True)
    assert client.get(callback + "x", cookie=login).status == 403
    other = client.get("/login", **PAGE)
    assert client.get(issuer.consent(other.headers["location"]), cookie=login).status == 403
    assert client.get(callback, cookie=login).status == 302
    again = client.get(callback, cookie=login, **PAGE)
    assert (again.status, "refuses the code of this login" in again.text) == (403, True)
    assert "Ask again" not in again.text
    issuer.refusal = 401  # as for another client secret
    assert client.get(callback, cookie=login).status == 503
    issuer.refusal = 400


def test_forged_sessions(client: Client, issuer: Issuer, oidc: Oidc) -> None:
    """Goal: no cookie but one that we signed for a session lets anybody in, and none after its end."""
    cookie = logged_in(client, issuer, "pay-devs")
    value = cookie.partition("=")[2]
    head, body, sign = value.split(".")
    now_s = now_ms() // 1_000
    none = jwt.encode({"alg": "HS256"}, {"name": "x", "teams": None, "exp": now_s + 99}, OctKey.import_key("k" * 32))
    begun = client.get("/login", **PAGE)
    forged = [none, f"{head}.{body}.", f"{head}.{body}.{sign[:-2]}AA", "x", "", "a.b.c", "x" * 5_000]
    forged += [cookie_of(begun.headers, "groupledger_login"), issuer.token(groups=["sre"])]
    for each in forged:
        assert client.get(OWN, cookie=f"groupledger_session={each}").status == 401, each
    assert client.get(OWN, cookie=cookie).status == 200
    assert client.get(OWN, cookie=f"odd={{[(; other; {cookie}").status == 200
    user = oidc.user_of(value, now_s)
    assert user is not None
    assert user.teams == frozenset({"pay"})
    assert oidc.user_of(value, now_s + 9 * 3_600) is None


def test_bearer_tokens(client: Client, issuer: Issuer) -> None:
    """Goal: a program's ID token counts if the issuer signed it for us and it has not ended."""

    def get(token: str, path: str = OWN) -> int:
        return client.get(path, authorization=f"Bearer {token}").status

    assert get(issuer.token(groups=["sre"]), OTHER) == 200
    assert (get(issuer.token(groups=["pay-devs"])), get(issuer.token(groups=["pay-devs"]), OTHER)) == (200, 403)
    other = RSAKey.generate_key(2048, {"kid": "k1"})
    public = OctKey.import_key(str(issuer.key.as_dict(private=False)["n"]))
    wrong = [
        issuer.token(key=other, groups=["sre"]),
        issuer.token(key=public, alg="HS256", groups=["sre"]),
        issuer.token(typ="at+jwt", groups=["sre"]),
        issuer.token(typ="logout+jwt", groups=["sre"]),
        issuer.token(aud=[CLIENT_ID, "else"], azp="else", groups=["sre"]),
        "x",
        "a.b.c",
    ]
    wrong += [issuer.token(groups=["sre"], **each) for each in ({"aud": "else"}, {"iss": "http://else"}, {"exp": 1})]
    assert {get(each) for each in wrong} == {403}


def ended(oidc: Oidc, issuer: Issuer, now_s: int) -> User | None:
    """Logs in, and returns the user of the session."""
    url, cookie = oidc.begin("/", now_s)
    given = parse_qs(urlsplit(issuer.consent(url)).query)
    return oidc.user_of(oidc.end(cookie, given["state"][0], given["code"][0], now_s)[1], now_s)


def test_claims_that_are_not_in_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: an issuer that keeps claims out of its ID tokens is asked for them; those of another user are refused, and
    an issuer that has none is named as the reason."""
    monkeypatch.setenv("OIDC_SECRET", SECRET)
    now_s = now_ms() // 1_000
    with issuing() as issuer:
        settings = settings_with(issuer.url).serve.oidc
        assert settings is not None
        with pytest.raises(RefusedError, match="the issuer does not send your groups"):
            ended(oidc_of(settings), issuer, now_s)
        issuer.userinfo = {"sub": "u1", "groups": ["pay-devs"], "preferred_username": "ann"}
        assert ended(oidc_of(settings), issuer, now_s) == User("ann", frozenset({"pay"}))
        issuer.claims = {"groups": ["sre"]}
        assert ended(oidc_of(settings), issuer, now_s) == User("u1", None)
        issuer.claims, issuer.userinfo = {}, issuer.userinfo | {"sub": "u2"}
        with pytest.raises(RefusedError, match="named two users"):
            ended(oidc_of(settings), issuer, now_s)


@pytest.mark.parametrize(
    "other",
    [
        *({"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA"}, {"kty": "EC", "crv": "new", "x": "AA", "y": "AA"}),
        *({"kty": ["RSA"]}, {"kty": "RSA", "n": "AA"}, {"kty": "OKP", "crv": "Ed25519", "x": "AA"}, "text"),
    ],
)
def test_keys_of_other_kinds(monkeypatch: pytest.MonkeyPatch, other: Any) -> None:
    """Goal: a key that is not understood beside the others keeps nobody out."""
    monkeypatch.setenv("OIDC_SECRET", SECRET)
    with issuing() as issuer:
        settings = settings_with(issuer.url).serve.oidc
        assert settings is not None
        issuer.other_keys = [other]
        assert oidc_of(settings).bearer(issuer.token(groups=["sre"]), now_ms() // 1_000).teams is None


def test_new_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: when the issuer changes its key, the new one is read; a client that sends wrong tokens makes us ask once a
    minute."""
    monkeypatch.setenv("OIDC_SECRET", SECRET)
    now_s, at_s = now_ms() // 1_000, [1_000.0]
    monkeypatch.setattr("groupledger.jobs.serve.oidc.monotonic", lambda: at_s[0])
    with issuing() as issuer:
        settings = settings_with(issuer.url).serve.oidc
        assert settings is not None
        oidc = oidc_of(settings)
        assert oidc.bearer(issuer.token(groups=["sre"]), now_s).teams is None
        issuer.key = RSAKey.generate_key(2048, {"kid": "k2"})
        with pytest.raises(RefusedError):
            oidc.bearer(issuer.token(groups=["sre"]), now_s)
        at_s[0] += 61
        assert oidc.bearer(issuer.token(groups=["sre"]), now_s).teams is None
        issuer.key, issuer.claims = RSAKey.generate_key(2048, {"kid": "k3"}), {"groups": ["sre"]}
        assert ended(oidc, issuer, now_s) == User("u1", None)  # a login need not wait for the minute


def test_the_issuer_is_away(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: while the issuer is away nobody is let in, the answer says so, and sessions go on."""
    monkeypatch.setenv("OIDC_SECRET", SECRET)
    settings = settings_with("http://127.0.0.1:9")
    assert settings.serve.oidc is not None
    found = oidc_of(settings.serve.oidc)
    with served(warehouse, settings=settings, oidc=found) as client:
        page = client.get("/login", **PAGE)
        assert (page.status, "<h1>No answer now</h1>" in page.text) == (503, True)
        assert client.get(OWN, authorization="Bearer x").status == 503
        signed = found._signed("session", {"name": "u", "teams": ["pay"]}, now_ms() // 1_000 + 60)
        assert client.get(OWN, cookie=f"groupledger_session={signed}").status == 200
    assert SECRET not in repr(found)


def test_who_waits_for_a_dead_issuer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: one request does; those of the next seconds are refused at once, and then it is asked again."""
    monkeypatch.setenv("OIDC_SECRET", SECRET)
    settings, at_s, asked = settings_with("http://a").serve.oidc, [1_000.0], list[str]()
    assert settings is not None

    def get(url: str, _timeout_s: float) -> bytes:
        asked.append(url)
        raise OutsideError("it did not answer in time")

    monkeypatch.setattr("groupledger.jobs.serve.oidc.get", get)
    monkeypatch.setattr("groupledger.jobs.serve.oidc.monotonic", lambda: at_s[0])
    oidc = oidc_of(settings)
    for count, later_s in ((1, 0.0), (1, 4.0), (2, 2.0)):
        at_s[0] += later_s
        with pytest.raises(OutsideError, match="in time"):
            oidc.begin("/", 0)
        assert len(asked) == count


def test_another_issuer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: an issuer that names itself otherwise is refused."""
    monkeypatch.setenv("OIDC_SECRET", SECRET)
    with issuing() as issuer:
        settings = settings_with(issuer.url).serve.oidc
        assert settings is not None
        issuer.url += "/else"
        with pytest.raises(OutsideError, match=r"another name than serve\.oidc\.issuer"):
            oidc_of(settings).begin("/", 0)


@pytest.mark.parametrize(
    ("where", "path"),
    [
        *(("/a?b=c", "/a?b=c"), ("//evil.example", "/"), ("/\\evil.example", "/"), ("https://evil.example", "/")),
        *(("", "/"), ("/a\r\nSet-Cookie: x", "/"), ("/a\\b", "/"), ("/" + "a" * 1_500, "/")),
    ],
)
def test_where_a_login_leads(where: str, path: str) -> None:
    """Goal: to a path of this server, never elsewhere."""
    assert path_of(where) == path


def test_roles() -> None:
    """Goal: roles add up, and one for all is all."""
    roles: dict[str, Any] = {"a": ["x"], "b": ["y", "x"], "c": "all"}
    assert teams_of(roles, ["a", "b", "z"]) == frozenset({"x", "y"})
    assert teams_of(roles, ["a", "c"]) is None
    assert teams_of(roles, []) == frozenset()


def test_wrong_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a team that is not defined, a short secret and two kinds of login at once are refused before serving."""
    with pytest.raises(InputError, match=r"serve\.oidc\.roles\.a has a name that is no team"):
        settings_with("http://a", roles={"a": ["nowhere"]})
    monkeypatch.setenv("OIDC_SECRET", "short")
    found = settings_with("http://a").serve.oidc
    assert found is not None
    with pytest.raises(InputError, match="fewer than 16 characters"):
        oidc_of(found)
    monkeypatch.setenv("OIDC_SECRET", SECRET)
    conf, users = tmp_path / "conf.yaml", tmp_path / "users"
    users.write_text("")
    oidc = {"issuer": "http://a", "client_id": "g", "client_secret": {"env": "OIDC_SECRET"}, "roles": {}}
    conf.write_text(json.dumps({"serve": {"oidc": oidc | {"callback": "http://b/login/callback"}}}))
    words = ["serve", "--warehouse", str(tmp_path), "--conf", str(conf), "--auth-file", str(users)]
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, "leave out --auth-file" in done.output) == (2, True)
