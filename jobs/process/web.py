"""Sends a POST to an address of the settings: it goes there or nowhere, and what went wrong shows no secret."""

from __future__ import annotations

from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from groupledger.jobs.process.errors import OutsideError

if TYPE_CHECKING:
    from collections.abc import Mapping

ANSWER_BYTES_MAX = 2**20


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follows nobody: body and headers go to the address of the settings, or nowhere."""


def post(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> bytes:
    """Returns the answer. Raises OutsideError with the end of a sentence, why there is none."""
    request = Request(url, body, {"User-Agent": "groupledger", **headers}, method="POST")  # noqa: S310 - http(s)
    try:
        with build_opener(_NoRedirect).open(request, timeout=timeout_s) as answer:
            found: bytes = answer.read(ANSWER_BYTES_MAX)
            return found
    except HTTPError as error:
        error.close()
        why = f"it answered with status {error.code}"
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        why = getattr(reason, "strerror", None) or type(reason).__name__
    raise OutsideError(why)
