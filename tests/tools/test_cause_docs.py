"""Goal: the page about causes says what the table of causes says; `python -m tools.cause_docs` writes it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from groupledger.schemas.kinds.causes import CAUSES
from groupledger.schemas.kinds.clauses import clauses_of
from tools.cause_docs import PAGE, PLACES, advice_of, page, sentences_of

if TYPE_CHECKING:
    from groupledger.schemas.kinds.causes.cause import Cause

DEFAULT_AFTER_AN_ARTICLE = re.compile(r"\b([Tt]he|[Aa]n?)( \w+)? (a member|a partition)\b")


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page()


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_no_two_sentences_are_glued_together(cause: Cause) -> None:
    """Goal: each clause that begins a sentence comes after the end of one, and names that are left open read well."""
    for text in (cause.happened, advice_of(cause)):
        said = sentences_of(text)
        for clause in clauses_of(text):
            words = clause.text.strip().format(**PLACES)
            before = said.partition(words)[0] if words[:1].isupper() and words in said else ""
            assert before == "" or before.endswith((". ", ": ")), said
        assert not DEFAULT_AFTER_AN_ARTICLE.search(said)
