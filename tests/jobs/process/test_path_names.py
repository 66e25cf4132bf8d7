"""Goal: every name has a part of a path that browsers and proxies leave alone, and no two share one."""

from __future__ import annotations

from urllib.parse import urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.path_names import NAME_CHARACTERS_MAX, name_in, part

ODD = ("", ".", "..", "~", "~.", "~..", "~~", "~~..", "...", "~x", ".x", "a/b", "a//b", "%2E", "?", "#", "\0", "💩")
NAMES = st.one_of(st.sampled_from(ODD), st.text(alphabet="~./%a"), st.text(st.characters(exclude_categories=["Cs"])))


@given(NAMES)
def test_a_name_comes_back(name: str) -> None:
    """Goal: a name is one part of a path, which is not taken for a way up, and it is read there again."""
    found = part(name)
    assert name_in(found) == name
    assert found
    assert "/" not in found
    assert urljoin("http://a/b/c", f"/groups/{found}/why") == f"http://a/groups/{found}/why"


@given(st.lists(NAMES, unique=True))
def test_names_have_parts_of_their_own(names: list[str]) -> None:
    """Goal: two names never have one part."""
    assert len({part(name) for name in names}) == len(names)


def test_what_others_write() -> None:
    """Goal: a percent-encoded name is understood, too, and a name that is too long or no UTF-8 is refused."""
    assert [name_in(text) for text in ("", "%2E", "%2e%2E", "a%2Fb", "%7E", "%7Ea", "pay")] == [
        *("", ".", "..", "a/b", "", "~a", "pay")
    ]
    for text in ("%FF", "a" * (NAME_CHARACTERS_MAX + 1)):
        with pytest.raises(InputError):
            name_in(text)
