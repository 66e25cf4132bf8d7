"""Names from data, made fit to be read on a page.

Clients choose them, and no broker checks them: what has no picture of its own (control characters, bidirectional
marks, lone surrogates) is shown as an escape, and a name of thousands of characters is cut in its middle, so that both
ends tell it from its neighbours. Against markup each place where a name is put protects itself: the template engine,
`embed.json_for_script`, and in the browser `textContent`.
"""

from __future__ import annotations

from typing import Any

from groupledger.jobs.process.terminal import escaped

NAME_CHARACTERS_MAX = 96
TEXT_CHARACTERS_MAX = 2_000
ENDING_CHARACTERS = 24


def shown(name: object, characters_max: int = NAME_CHARACTERS_MAX) -> str:
    text = escaped("-" if name is None else str(name))
    if len(text) <= characters_max:
        return text
    return f"{text[: characters_max - ENDING_CHARACTERS - 1]}…{text[-ENDING_CHARACTERS:]}"


def whole(name: str) -> str | None:
    """Returns the whole name, escaped, where `shown` cuts it; else None."""
    text = escaped(name)
    return text if shown(name) != text else None


def readable(value: Any) -> Any:
    """Returns the same data with every text in it escaped; all data for the page goes through here."""
    if isinstance(value, str):
        return value if value.isprintable() else escaped(value)
    if isinstance(value, dict):
        return {key: readable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [readable(each) for each in value]
    return value


def shown_text(text: object) -> str | None:
    """Returns a sentence of the ledger, which may hold names, fit to be read."""
    return None if text is None else shown(text, TEXT_CHARACTERS_MAX)
