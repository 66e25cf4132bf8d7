"""Lets users in by OpenID Connect (`jobs.serve.oidc`), and shows each only what the roles allow.

- A browser without a session is sent to `/login`, a program is refused with 401.
- A user with all of the ledger sees everything. A user of some teams sees the groups of these teams, each with all of
  its pages and answers, the list of these groups, and nothing else: whatever is not named here is refused. So a page
  that a later release adds is closed until somebody opens it here.
- Requests with a cookie change nothing, since the server only answers questions; `/mcp` needs a bearer token.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from anyio import to_thread
from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from groupledger.jobs.gate.troubles import log_trouble
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import JobError, OutsideError
from groupledger.jobs.process.name_patterns import first_matching
from groupledger.jobs.process.path_names import name_in
from groupledger.jobs.serve.answers import problem_answer
from groupledger.jobs.serve.error_page import error_page, is_for_people
from groupledger.jobs.serve.oidc import COOKIE_CHARACTERS_MAX, LOGIN_S, RefusedError, User
from groupledger.jobs.serve.shown import templates

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.types import ASGIApp, Receive, Scope, Send

    from groupledger.jobs.serve.answers import Warehouse
    from groupledger.jobs.serve.oidc import Oidc

BEGIN, CALLBACK, LOGOUT = "/login", "/login/callback", "/logout"
SESSION_COOKIE, LOGIN_COOKIE = "groupledger_session", "groupledger_login"
# What shows nothing of any group.
OF_NOBODY = re.compile(r"/static/[^/]+|/docs|/api/v1/openapi\.json")
CLUSTER = re.compile(r"/clusters/([^/]+)")
OF_GROUP = re.compile(r"(?:/api/v1)?/clusters/[^/]+/groups/([^/]+)(?:/.*)?|/v3/kafka/[^/]+/consumer/([^/]+)(?:/.*)?")
LIST_OF_GROUPS = re.compile(r"/api/v1/clusters/[^/]+/groups")
MCP = "/mcp"
WHERE_CHARACTERS_MAX = 1_500
LOGGED_OUT = "You are logged out of groupledger. The issuer may know you still.\n"
NOT_YOURS = "Your roles do not show you this: they show the groups of {}."


@dataclass(slots=True)
class Logins:
    """Passes a request to the application `app` only if its user is logged in and may see what it asks for."""

    app: ASGIApp
    oidc: Oidc
    warehouse: Warehouse
    environment: Environment = field(default_factory=templates)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = None
        if scope["type"] == "http":
            try:
                answer = await to_thread.run_sync(self._answer, scope)
            except RefusedError as error:
                if isinstance(error.__cause__, OutsideError):
                    log_trouble("oidc", f"groupledger serve: the issuer of serve.oidc refuses: {error.__cause__}")
                answer = self._refused(scope, 403, str(error))
            except OutsideError as error:
                log_trouble("oidc", f"groupledger serve: the login by the issuer of serve.oidc fails: {error}")
                answer = self._refused(scope, 503, "The login does not work now: the server's log says why.")
        await (answer or self.app)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response | None:
        """Returns the answer to a request that the application does not get; None if it gets it."""
        path, headers, now_s = scope["path"], Headers(scope=scope), now_ms() // 1_000
        if path in (BEGIN, CALLBACK, LOGOUT):
            return self._login(path, scope, headers, now_s)
        user = self._user(path, headers, now_s)
        if user is None:
            if "text/html" in headers.get("accept", "") and path != MCP:
                asked = path + ("?" + scope["query_string"].decode("latin-1") if scope["query_string"] else "")
                return RedirectResponse(f"{BEGIN}?{urlencode({'where': asked})}", 302)
            return problem_answer(401, "Log in, or send a bearer token.", {"www-authenticate": "Bearer"})
        return None if user.teams is None else self._limited(path, scope, user.teams)

    def _user(self, path: str, headers: Headers, now_s: int) -> User | None:
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.oidc.bearer(token.strip(), now_s)
        cookie = "" if path == MCP else cookie_in(headers, SESSION_COOKIE)
        return self.oidc.user_of(cookie, now_s) if cookie else None

    def _login(self, path: str, scope: Scope, headers: Headers, now_s: int) -> Response:
        given = QueryParams(scope["query_string"])
        if path == BEGIN:
            url, cookie = self.oidc.begin(path_of(given.get("where", "/")), now_s)
            answer = RedirectResponse(url, 302)
            self._set(answer, LOGIN_COOKIE, cookie, LOGIN_S)
            return answer
        if path == LOGOUT:
            # A redirect to a page would log the user in again, without a question, if the issuer still knows them.
            out: Response = PlainTextResponse(LOGGED_OUT)
            self._set(out, SESSION_COOKIE, "", 0)
            return out
        if "code" not in given:
            raise RefusedError("The issuer did not log you in: ask for the page again.")
        login = cookie_in(headers, LOGIN_COOKIE)
        where, session = self.oidc.end(login, given.get("state", ""), given["code"], now_s)
        answer = RedirectResponse(where, 302)
        self._set(answer, LOGIN_COOKIE, "", 0)
        self._set(answer, SESSION_COOKIE, session, self.oidc.settings.session_h * 3_600)
        return answer

    def _set(self, answer: Response, name: str, value: str, lasts_s: int) -> None:
        is_secure = urlsplit(self.oidc.settings.callback).scheme == "https"
        answer.set_cookie(name, value, max_age=lasts_s, httponly=True, secure=is_secure, samesite="lax")

    def _limited(self, path: str, scope: Scope, teams: frozenset[str]) -> Response | None:
        """Returns None if a user of some teams may see what the path shows, or the answer in its place."""
        asked = OF_GROUP.fullmatch(path)
        try:
            if path == "/" or OF_NOBODY.fullmatch(path) or (asked and self._team(asked[1] or asked[2]) in teams):
                return None
            cluster = CLUSTER.fullmatch(path)
            if cluster is not None:
                return self._own_groups(cluster[1], teams)
        except JobError as error:
            return problem_answer(404, str(error))
        if LIST_OF_GROUPS.fullmatch(path):
            # Read as the application reads it, which takes the last of several.
            asked_teams = QueryParams(scope["query_string"]).getlist("team")
            if asked_teams and teams.issuperset(asked_teams):
                return None
        raise RefusedError(NOT_YOURS.format(", ".join(sorted(teams))))

    def _team(self, group: str) -> str | None:
        name = name_in(group)
        return first_matching(self.warehouse.settings.team_patterns(), [name]).get(name)

    def _own_groups(self, cluster: str, teams: frozenset[str]) -> Response:
        """Returns the page that a user of some teams sees in place of the overview."""
        tables = self.warehouse.rows(cluster)
        rows = [row for row in self.warehouse.groups(tables) if row["team"] in teams]
        page = self.environment.get_template("own_groups.html")
        return HTMLResponse(page.render(cluster=tables.cluster, rows=rows, teams=sorted(teams)))

    def _refused(self, scope: Scope, status: int, detail: str) -> Response:
        """Returns an error as a page for a browser, which can't ask for the callback again, and as a problem for
        others."""
        request = Request(scope)
        if not is_for_people(request):
            return problem_answer(status, detail)
        again = scope["path"] != CALLBACK
        return HTMLResponse(error_page(self.environment, self.warehouse, request, status, detail, again=again), status)


def path_of(where: str) -> str:
    """Returns a path of this server; `/` if the text is anything else, such as an address elsewhere, or is too long for
    a cookie."""
    is_path = where.startswith("/") and not where.startswith(("//", "/\\")) and where.isprintable()
    return where if is_path and "\\" not in where and len(where) <= WHERE_CHARACTERS_MAX else "/"


def cookie_in(headers: Headers, name: str) -> str:
    """Returns the value of a cookie; an empty text if it is not there, or is longer than any of ours."""
    found = cookie_parser(headers.get("cookie", "")).get(name, "")
    return found if len(found) <= COOKIE_CHARACTERS_MAX else ""
