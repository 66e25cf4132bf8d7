"""Builds the site of the documentation into `build/site`: `make docs`. Once its tools are there it needs no network.

Sphinx (the Sphinx project) reads Markdown by MyST (Executable Books), in the theme furo (the pip team's Pradyun Gedam).
It was taken before MkDocs, which has had no release since 2024, and whose theme Material ended its support in November
2026; their successor Zensical is at 0.1. Sphinx brings 25 small packages, in an environment of their own
(requirements/docs.lock).

The pages are those of `docs`, as a reader of the repository sees them. `docs/index.md` has their order: each of its
sections is one of the site, with the pages that it links to. Links to papers beside `docs` lead to copies of them, and
links to other files to a download. Any warning ends the build, and so does a link or an anchor in the site that leads
nowhere, a page without a section, and a page that would load anything from elsewhere.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tools.setup import ROOT, SetupError, build_apart

ENVIRONMENT = ROOT / ".docs"
PAGES = ROOT / "docs"
SOURCES = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
PAPERS = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
LINK = re.compile(r"(?P<text>!?\[[^\]]*\])\((?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
OPTIONS = {
    "project": "groupledger",
    "extensions": "myst_parser",
    "html_theme": "furo",
    "copyright": (ROOT / "NOTICE").read_text().splitlines()[1].removeprefix("Copyright "),
    "html_static_path": "static",
    "html_css_files": "site.css",
    "html_title": "groupledger",
    # Otherwise an option in running text, as --conf, becomes a dash and a word.
    "smartquotes": "0",
    "html_show_sphinx": "0",
    "html_copy_source": "0",
    "myst_heading_anchors": "6",
    "myst_links_external_new_tab": "1",
}
BLOCK = re.compile(r'<div class="highlight">(?=<pre>(?P<text>.*?)</pre>)', re.DOTALL)
TAG = re.compile(r"<[^>]*>")
PICTURE = re.compile(r'<img alt="[^"]*" src="(?P<file>_images/[^"]+)" />')
TEXT_WIDTH_MAX = 120
"""Wider blocks are tables that a command prints: wrapped, their columns would be lost."""
FROM_ELSEWHERE = ("script", "img", "iframe", "link")


def main() -> int:
    try:
        build_apart(ENVIRONMENT)
        for problem in built():
            print(problem, file=sys.stderr)
            return 1
    except SetupError as error:
        print(f"docs: {error}", file=sys.stderr)
        return 2
    print(f"{len([*SITE.glob('*.html')])} pages are in {SITE}; open index.html")
    return 0


def built() -> list[str]:
    """Builds the site and returns the broken links. Raises SetupError if Sphinx prints a warning."""
    for folder in (SOURCES, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(PAGES, SOURCES)
    for name in PAPERS:
        shutil.copy(ROOT / name, SOURCES / name)
    for page in SOURCES.glob("*.md"):
        page.write_text(moved(page.read_text(), ROOT if page.name in PAPERS else PAGES))
    index = SOURCES / "index.md"
    index.write_text(index.read_text() + navigation(index.read_text()))
    options = [part for name, value in OPTIONS.items() for part in ("-D", f"{name}={value}")]
    command = [str(ENVIRONMENT / "bin" / "sphinx-build"), "-C", "-E", "-W", "-n", "-q", "--keep-going", "-b", "html"]
    done = subprocess.run([*command, *options, str(SOURCES), str(SITE)], check=False)
    if done.returncode:
        raise SetupError("Sphinx has warned: its lines above name page and line.")
    for page in SITE.glob("*.html"):
        page.write_text(readable(page.read_text()))
    return problems(SITE)


def moved(text: str, folder: Path) -> str:
    """Returns a page with its links changed to where their targets lie in the site. `folder` is that of the page."""

    def of_link(match: re.Match[str]) -> str:
        target, anchor = match["target"], match["anchor"] or ""
        if not target or urlsplit(target).scheme:
            return match[0]
        file = (folder / target).resolve()
        if file == ROOT / "README.md":
            return f"{match['text']}(index.md)"
        if file.parent == PAGES or (file.parent == ROOT and file.name in PAPERS):
            return f"{match['text']}({file.name}{anchor})"
        if PAGES in file.parents:
            return f"{match['text']}({file.relative_to(PAGES)})"
        if file.is_file():
            copy = SOURCES / "files" / file.relative_to(ROOT)
            copy = copy.with_name(f"{copy.name}.txt") if copy.suffix == ".md" else copy
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
            return f"{match['text']}({copy.relative_to(SOURCES)})"
        return match["text"].strip("[]")  # a folder

    return LINK.sub(of_link, text)


def readable(page: str) -> str:
    """Returns the HTML of a page in which blocks of wide tables have the class `wide`, and each picture is a link to
    its file, so that it can be read on a small screen."""

    def of_block(match: re.Match[str]) -> str:
        widest = max(map(len, unescape(TAG.sub("", match["text"])).splitlines()), default=0)
        return '<div class="highlight wide">' if widest > TEXT_WIDTH_MAX else match[0]

    return PICTURE.sub(r'<a href="\g<file>" title="Enlarge">\g<0></a>', BLOCK.sub(of_block, page))


def navigation(index: str) -> str:
    """Returns the tables of contents of the sections of the first page."""
    _, *parts = SECTION.split(index)
    sections = zip(parts[::2], parts[1::2], strict=True)
    return "".join(
        "\n```{toctree}\n:hidden:\n:caption: " + title + "\n\n" + "\n".join(dict.fromkeys(pages_in(text))) + "\n```\n"
        for title, text in sections
    )


def pages_in(text: str) -> list[str]:
    """Returns the pages that a text links to, without anchors, in order."""
    found = [Path(match["target"]).name for match in LINK.finditer(text) if not match["anchor"]]
    return [name for name in found if name.endswith(".md") and name != "index.md"]


class Seen(HTMLParser):
    """Collects a page's anchors, links and loaded resources."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := found.get(name))}
        address = found.get("href") or found.get("src")
        if address:
            self.links.append(address)
            if tag in FROM_ELSEWHERE:
                self.loaded.append(address)


def problems(site: Path) -> list[str]:
    """Returns the broken links of a site, and resources that its pages load from other sites."""
    pages = {page: seen(page) for page in sorted(site.rglob("*.html"))}
    found = []
    for page, parts in pages.items():
        where = page.relative_to(site)
        found += [f"{where}: loads {each}" for each in parts.loaded if urlsplit(each).netloc]
        for link in parts.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = (page.parent / unquote(address.path)).resolve() if address.path else page
            anchors = pages[target].anchors if target in pages else set()
            if not target.exists() or (address.fragment and unquote(address.fragment) not in anchors | {""}):
                found.append(f"{where}: leads nowhere: {link}")
    return found


def seen(page: Path) -> Seen:
    parts = Seen()
    parts.feed(page.read_text())
    return parts


if __name__ == "__main__":
    sys.exit(main())
