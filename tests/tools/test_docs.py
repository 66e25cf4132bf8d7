"""Goal: the site's pages can be read without scrolling sideways, on a telephone, too."""

from __future__ import annotations

import pytest

from tools.docs import OPTIONS, PAGES, TEXT_WIDTH_MAX, readable

FIRST_PAGES_WIDTH_MAX = 92
"""What fits beside both columns of the site on a screen 1,400 pixels wide."""


@pytest.mark.parametrize(("width", "is_wide"), [(TEXT_WIDTH_MAX, False), (TEXT_WIDTH_MAX + 1, True)])
def test_wide_blocks(width: int, *, is_wide: bool) -> None:
    """Goal: only a table that is wider than text is not wrapped; markup and escapes do not count."""
    page = f'<div class="highlight"><pre><span></span>short\n{"&lt;" * width}\n</pre></div>'
    assert ('class="highlight wide"' in readable(page)) == is_wide
    assert readable("<p>no block</p>") == "<p>no block</p>"


def test_pictures_can_be_enlarged() -> None:
    picture = '<img alt="A page" src="_images/serve.png" />'
    assert readable(f"<p>{picture}</p>") == f'<p><a href="_images/serve.png" title="Enlarge">{picture}</a></p>'


@pytest.mark.parametrize("name", ["first_incident.md", "start.md"])
def test_the_first_pages_are_narrow(name: str) -> None:
    """Goal: a newcomer sees commands and answers whole."""
    blocks = [line for line in (PAGES / name).read_text().splitlines() if line.startswith("    ")]
    assert blocks
    assert max(len(line) - 4 for line in blocks) <= FIRST_PAGES_WIDTH_MAX


def test_who_holds_the_copyright() -> None:
    assert OPTIONS["copyright"].endswith("The groupledger authors")


def test_options_are_as_typed() -> None:
    """Goal: Sphinx makes no dash of the two hyphens of an option in running text, which nobody could paste."""
    assert OPTIONS["smartquotes"] == "0"
