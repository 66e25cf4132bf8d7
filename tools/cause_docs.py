"""Writes `docs/causes.md` from the table of causes (`schemas/kinds/causes`): `python -m tools.cause_docs`.

So the page always says what a diagnosis says; a test compares the two.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from groupledger.schemas.kinds.causes import FAMILIES
from groupledger.schemas.kinds.clauses import Fact, clauses_of
from groupledger.schemas.kinds.incidents import INCIDENT_KINDS
from groupledger.schemas.kinds.symptoms import SYMPTOMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from groupledger.schemas.kinds.causes.cause import Cause
    from groupledger.schemas.kinds.clauses import Clause, Text
    from groupledger.schemas.kinds.signs import Sign

PAGE = Path(__file__).resolve().parent.parent / "docs" / "causes.md"
HEAD = """\
# Symptoms and causes

Made from `schemas/kinds/symptoms.py` and `schemas/kinds/causes` by `python -m tools.cause_docs`; a test compares them.

`groupledger why NAME` begins with a diagnosis: what is wrong with the group, since when, at what harm, and why. It
takes the symptom, goes through all causes that can show it, and looks for the signs for and against each. A cause is
**proved** if all signs of one of its proofs were seen, and none that speaks against it. Otherwise the answer is what is
left, the **rivals**, with what would tell them apart. What a broker's log says wins over a guess from records.

A sign is seen in the topic (`__consumer_offsets`), in samples (a monitor's rounds), in a server log or in a request
log; what is not imported can't be seen, and then more rivals are left.
"""
PLACES = {
    "who": "a member",
    "times": "so many times",
    "seconds": "so many",
    "records": "so many",
    "place": "a partition",
    "offset": "so and so",
    "members": "so many",
    "count": "so many",
    "duplicates": "",
    "detail": "so many",
    "claimed": "one",
    "current": "another",
    "instance": "so and so",
    "partition": "one",
}
# How the types of group are called beside a clause that only one of them has.
GROUPS = {
    Fact.CLASSIC_GROUP: "classic groups",
    Fact.CONSUMER_GROUP: "groups of KIP-848",
    Fact.SHARE_GROUP: "share groups",
    Fact.STREAMS_GROUP: "streams groups",
}
_KINDS = {kind.name: kind for kind in INCIDENT_KINDS}


def page() -> str:
    """Returns the text of the page."""
    return "\n".join([HEAD, *_symptoms(), *_families()])


def _symptoms() -> Iterator[str]:
    yield "| symptom | means | causes |"
    yield "|---|---|---|"
    for symptom in SYMPTOMS:
        causes = (cause for family in FAMILIES.values() for cause in family if symptom in cause.symptoms)
        links = ", ".join(f"[{cause.name}](#{cause.name})" for cause in causes)
        yield f"| `{symptom.name}` | {symptom.meaning} | {links} |"
    yield ""


def _families() -> Iterator[str]:
    for title, causes in FAMILIES.items():
        yield f"## {title}"
        yield ""
        for cause in causes:
            yield from _cause(cause)


def _cause(cause: Cause) -> Iterator[str]:
    yield f"### {cause.name}"
    yield ""
    yield _in_general(cause.happened)
    yield ""
    yield f"- **Looks like:** {', '.join(f'`{symptom.name}`' for symptom in cause.symptoms)}."
    yield f"- **How it is known:** {_proofs(cause)}"
    if cause.against:
        yield f"- **Ruled out by:** {_meanings(cause.against)}"
    yield f"- **Told from its rivals by:** {cause.told_apart_by}"
    advice = _in_general(_advice(cause))
    if advice:
        yield f"- **What to do:** {advice}"
    settings = ", ".join(_settings(cause))
    if settings:
        yield f"- **Change:** {settings}."
    yield f"- **Who can mend it:** {cause.fault}."
    yield ""


def _proofs(cause: Cause) -> str:
    if not cause.proved_by:
        return f"it is only suspected, by {_with_sources((*cause.needs, *cause.suspected_by))}"
    needed = f"it needs {_with_sources(cause.needs)} " if cause.needs else ""
    proofs = [tuple(sign for sign in proof if sign not in cause.needs) for proof in cause.proved_by]
    if not all(proofs):
        return f"{needed.strip()} That proves it."
    return f"{needed}{'Then it' if needed else 'it'} is proved by {'; or by '.join(map(_with_sources, proofs))}"


def _with_sources(signs: Sequence[Sign]) -> str:
    return " ".join(f"*{sign.meaning}* ({sign.source})" for sign in signs)


def _meanings(signs: Sequence[Sign]) -> str:
    return " ".join(sign.meaning for sign in signs)


def _advice(cause: Cause) -> Text:
    kind = _KINDS.get(cause.kind or "")
    if cause.advice or kind is None:
        return cause.advice
    return kind.advice or (kind.root.advice if kind.root is not None else "")


def _settings(cause: Cause) -> Iterator[str]:
    kind = _KINDS.get(cause.kind or "")
    own = cause.settings or (() if kind is None else kind.settings or (kind.root.settings if kind.root else ()))
    for clause in clauses_of(tuple(own)):
        groups = [GROUPS[fact] for fact in clause.needs if fact in GROUPS]
        not_in = [GROUPS[fact] for fact in clause.excludes if fact in GROUPS]
        where = f" ({', '.join(groups)})" if groups else f" (not in {' and '.join(not_in)})" if not_in else ""
        yield f"`{clause.text}`{where}"


def _in_general(text: Text) -> str:
    """Returns what a text says of any group, and then each sentence that it has for one type of group alone."""
    clauses = [(clause, [GROUPS[fact] for fact in clause.needs if fact in GROUPS]) for clause in clauses_of(text)]
    of_all = [clause for clause, groups in clauses if not groups and (not clause.needs or _is_sentence(clause))]
    parts = ["".join(clause.text for clause in of_all).format(**PLACES).strip()]
    parts += [
        f"In {', '.join(groups)}: {clause.text.strip()}"
        for clause, groups in clauses
        if groups and _is_sentence(clause)
    ]
    said = " ".join(filter(None, parts))
    return said[:1].upper() + said[1:]


def _is_sentence(clause: Clause) -> bool:
    return clause.text.strip()[0].isupper()


if __name__ == "__main__":
    PAGE.write_text(page())
