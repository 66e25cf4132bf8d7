"""What stands inside `<script>` and `<style>`, and the policy that keeps everything else out.

The browser ends a script at `</script`, whatever the script's language thinks, and JavaScript before ES2019 ends a line
at U+2028. So data is JSON in ASCII with the characters of markup as escapes, and with rows as columns, which takes less
room. Code can't be escaped without being changed: `code_for_script` refuses what would end it early.

The policy names each script by its hash, and `default-src 'none'` forbids every connection, image and frame. Styles are
allowed inline, since Plotly sets them on what it draws; with no source to load from they can't carry anything away.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Iterable

ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&"}
ENDS_SCRIPT = re.compile(r"</script|<!--", re.IGNORECASE)


def json_for_script(value: Any) -> Markup:
    text = json.dumps(in_columns(value), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return Markup(text.translate(ESCAPES))  # noqa: S704  # just made safe for where it goes


def in_columns(value: Any) -> Any:
    """Returns the same data with each list of rows as `{"columns": {name: values}}`, so that a page of many rows holds
    each name once; `parsed` of parts.js gives the rows back."""
    if isinstance(value, dict):
        return {name: in_columns(each) for name, each in value.items()}
    if not isinstance(value, list | tuple):
        return value
    names = value[0].keys() if value and isinstance(value[0], dict) else ()
    if names and all(isinstance(row, dict) and row.keys() == names for row in value):
        return {"columns": {name: [in_columns(row[name]) for row in value] for name in names}}
    return [in_columns(each) for each in value]


def code_for_script(text: str) -> Markup:
    """Returns code as it is. Raises ValueError if it would arrive in the browser as something else."""
    if ENDS_SCRIPT.search(text) or "\0" in text or "\r" in text:
        raise ValueError("The script holds what ends a script element, or what a browser changes.")
    return Markup(text)  # noqa: S704  # code of ours or of Plotly, never data


def content_security_policy(scripts: Iterable[str]) -> str:
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none';"
        " form-action 'none'"
    )
