"""Goal: the documents are where links say, and their statements are true."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from pygments.lexers import get_lexer_by_name
from pygments.token import Error

from groupledger.jobs.cli.main import main as command_line
from groupledger.jobs.notify.episodes import IncidentEpisode, Message
from groupledger.jobs.notify.receivers import BODIES, MessageContext
from groupledger.jobs.process.settings import ReceiverSettings, load_settings
from groupledger.jobs.serve.answers import Warehouse
from groupledger.jobs.serve.app import questions
from groupledger.schemas.words import BurrowStatus, LagFlag, LagSecondsMethod, LagStatus, NoCommit, words_of
from groupledger.transforms.lag.rules.status import BURROW_BESIDE

TOP = Path(__file__).parents[1]
FOLDERS = ("conf", "coordinator", "docs", "jobs", "lab", "schemas", "tools", "transforms")
FILES = [file for folder in FOLDERS for file in (TOP / folder).rglob("*") if file.suffix in {".py", ".md", ".yaml"}]
PAGE = re.compile(r"\bdocs/\w+\.md\b")
README_LINES_MAX = 120
REPORTS_MIN = 60
OPEN = {"cause unknown", "silent", "wrong"}
VERDICTS = {"right", "right with logs", "fixed", *OPEN}
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
ANCHOR = re.compile(r"\]\(([^)#:]*)#([^)]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
CALL = re.compile(r"\bgroupledger(?:-ask)? +([a-z][a-z-]+)\b([^|#`\n]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
OPTIONS_MIN = 100
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_pages_are_there() -> None:
    """Goal: every page of docs that is named, and every link of a page, leads to a file."""
    missing = []
    for file in (*TOP.glob("*.md"), *FILES):
        text = file.read_text()
        links = LINK.findall(text) if file.suffix == ".md" else []
        missing += [(file, name) for name in PAGE.findall(text) if not (TOP / name).is_file()]
        missing += [(file, link) for link in links if not (file.parent / link).exists()]
    assert missing == []


def test_the_readme_is_short() -> None:
    """Goal: the first page is short enough to be read to its end; long texts are pages of docs, to which another page
    leads."""
    assert len((TOP / "README.md").read_text().splitlines()) <= README_LINES_MAX
    pages = [*(TOP / "docs").glob("*.md")]
    linked = {
        (page.parent / link).resolve()
        for page in (*TOP.glob("*.md"), *pages)
        for link in LINK.findall(page.read_text())
    }
    assert [page for page in pages if page.resolve() not in linked] == []


def test_the_site_has_every_page() -> None:
    """Goal: each page is in one section of the site's first page, which makes the site's table of contents."""
    sections = re.split(r"^## .+$", (TOP / "docs" / "index.md").read_text(), flags=re.MULTILINE)[1:]
    matches = [link for section in sections for link in LINK.findall(section) if not link.startswith("..")]
    assert sorted(matches) == sorted({page.name for page in (TOP / "docs").glob("*.md")} - {"index.md"})


def test_anchors_are_there() -> None:
    """Goal: a link into the middle of a page leads to a heading that it has. `make docs` checks the site itself."""
    pages = {page.resolve(): page.read_text() for page in (*TOP.glob("*.md"), *(TOP / "docs").glob("*.md"))}
    headings = {page: {anchor_of(line) for line in HEADING.findall(text)} for page, text in pages.items()}
    missing = [
        (page.name, link, anchor)
        for page, text in pages.items()
        for link, anchor in ANCHOR.findall(text)
        if anchor not in headings.get((page.parent / link).resolve() if link else page, set())
    ]
    assert missing == []


def anchor_of(heading: str) -> str:
    """Returns the anchor that forges and the site give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def test_blocks_are_in_their_language() -> None:
    """Goal: the site can colour each block of code; a block that is not in the language that it names ends the build of
    the site."""
    pages = [*TOP.glob("*.md"), *(TOP / "docs").glob("*.md")]
    blocks = [(page, *block) for page in pages for block in BLOCK.findall(page.read_text())]
    assert [(page, text) for page, language, text in blocks if _has_error(language, text)] == []


def _has_error(language: str, text: str) -> bool:
    return any(kind is Error for kind, _ in get_lexer_by_name(language).get_tokens(text))


def test_commands_have_their_options() -> None:
    """Goal: a command on a page has only options that the program accepts."""
    pages = [*(TOP / "docs").glob("*.md"), *(TOP / "conf").rglob("*.md"), TOP / "README.md"]
    uses = [
        (page.name, name, option)
        for page in pages
        for name, rest in CALL.findall(page.read_text().replace("\\\n", " "))
        if name in command_line.commands
        for option in OPTION.findall(rest)
    ]
    options = {name: {each for of in found.params for each in of.opts} for name, found in command_line.commands.items()}
    assert len(uses) >= OPTIONS_MIN
    assert [use for use in uses if use[2] not in options[use[1]] | {"--help"}] == []


def test_the_page_of_notify() -> None:
    """Goal: the page lists every kind of receiver, every condition, and every field of the JSON form."""
    page = (TOP / "docs/notify.md").read_text()
    rows = {name for line in page.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)}
    episode = IncidentEpisode(
        episode_id="e",
        group_id="g",
        team=None,
        kinds=("k",),
        severity="error",
        sentence="s",
        settings=(),
        first_seen_ms=0,
        last_seen_ms=0,
        is_open=True,
    )
    body = BODIES["json"](Message("fired", "e", episode), MessageContext(cluster="c", link=None, key=None))
    assert body is not None
    assert {*BODIES, *ReceiverSettings.model_fields, *body.json} - {"kind", "url", "key"} <= rows


def test_the_page_of_serve(tmp_path: Path) -> None:
    """Goal: the page names every path of the JSON, and the number that it gives an autoscaler is at one of them."""
    page = (TOP / "docs/serve.md").read_text()
    app = questions(Warehouse(str(tmp_path), load_settings()))
    paths = [
        path.replace("{cluster}", "C").replace("{group}", "G").replace("{topic}", "T")
        for path in app.openapi()["paths"]
        if path.startswith("/api/v1/clusters")
        if path.startswith("/api/v1/clusters")
    ]
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `/C")]
    reported = {
        "/api/v1/clusters",
        *(f"/api/v1/clusters{path}" for row in rows for path in unfolded(row.partition("?")[0])),
    }
    assert reported == {*paths}
    scaled = yaml.safe_load(page.partition("```yaml")[2].partition("```")[0])
    (trigger,) = scaled["spec"]["triggers"]
    path = "/api/v1" + trigger["metadata"]["url"].partition("/api/v1")[2]
    assert path.replace("/east/", "/C/").replace("/checkout/", "/G/") in paths
    assert trigger["metadata"]["valueLocation"] == "lag"


def test_the_page_of_lag() -> None:
    """Goal: the page has a row for each status, with the statuses that Burrow's rules may give beside it, and for each
    flag, method and policy, and no others."""
    page = (TOP / "docs/lag.md").read_text()
    tables = {
        section.splitlines()[0]: [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
        for section in page.split("\n## ")
    }
    statuses = tables["Status"]
    short: dict[str, set[str | None]] = {"any": {each for each in words_of(BurrowStatus) if each != "ERR"}, "-": {None}}
    assert [row[0].strip("| `") for row in statuses] == [*words_of(LagStatus)]
    for name, _, burrows, *_ in statuses:
        beside = {each for word in burrows.split(", ") for each in short.get(word, {word})}
        assert beside == BURROW_BESIDE[name.strip("| `")], name
    for section, words in (
        ("Flags", LagFlag),
        ("How the seconds are found", LagSecondsMethod),
        ("One number for autoscalers", NoCommit),
    ):
        assert {row[0].strip("| `") for row in tables[section]} == {*words_of(words)}, section


def unfolded(path: str) -> list[str]:
    """`/a/{b,c}` as `/a/b` and `/a/c`."""
    head, brace, names = path.partition("{")
    return [head + name for name in names.rstrip("}").split(",")] if brace else [path]


def test_the_field_log() -> None:
    """Goal: at least 60 reports, each once, in one line with source and verdict; each open one is a limit."""
    lines = (TOP / "docs/field_log.md").read_text().splitlines()
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if "#" in line or "| KAFKA-" in line
    ]
    rows = [row for row in rows if re.fullmatch(r"[\w.-]+/[\w.-]+#\d+|KAFKA-\d+", row[0])]
    assert len(rows) >= REPORTS_MIN
    assert len({row[0] for row in rows}) == len(rows)
    assert {len(row) for row in rows} == {4}
    assert {row[3] for row in rows} <= VERDICTS
    limits = (TOP / "docs/accuracy.md").read_text().partition("## Known limits from the field")[2].partition("\n## ")[0]
    matches = set(re.findall(r"[\w.-]+#\d+|KAFKA-\d+", limits))
    assert matches == {row[0].rpartition("/")[2] for row in rows if row[3] in OPEN}
