"""Writes `docs/causes.md` from the table of causes (`schemas/kinds/causes`): `python -m tools.cause_docs`.

So the page always agrees with the diagnosis; a test compares the two.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from groupledger.schemas.kinds.causes import CAUSES, FAMILIES
from groupledger.schemas.kinds.causes.cause import who_can_fix
from groupledger.schemas.kinds.clauses import Fact, clauses_of
from groupledger.schemas.kinds.incidents import INCIDENT_KINDS
from groupledger.schemas.kinds.symptoms import SYMPTOMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from groupledger.schemas.kinds.causes.cause import Cause
    from groupledger.schemas.kinds.clauses import Clause, Text
    from groupledger.schemas.kinds.signs import Sign

PAGE = Path(__file__).resolve().parent.parent / "docs" / "causes.md"
HEAD = """\
# Symptoms and causes

<!-- Generated from `schemas/kinds/symptoms.py` and `schemas/kinds/causes` by `python -m tools.cause_docs`; a test
compares them. -->

`groupledger why NAME` starts with a diagnosis: the symptom, since when, the harm and the cause. For each symptom it
goes through all possible causes and looks for evidence for and against each of them. A cause is **proved** when all the
evidence of one proof was seen and nothing excludes it. Otherwise `why` lists the causes that remain possible, and says
what would decide between them. A server log outweighs a guess from records.

Below the cause stand its cost (`harm`), the settings (`change`), who can fix it, the source of the evidence (`known`)
and the signs that prove it (`proof`). After `with it` come other causes and kinds of incidents that were seen at the
same time. The [glossary](glossary.md) says what `harm` counts, and when an episode is `open`.

Each piece of evidence comes from one source: the topic (`__consumer_offsets`), samples (the rounds of a monitor), a
server log or a request log. Evidence from a source that was never imported cannot be seen, so more causes remain
possible.
"""
PLACES = {
    "who": "a member",
    "last": "",
    "times": "N times",
    "seconds": "N",
    "records": "N",
    "place": "a partition",
    "offset": "N",
    "members": "N",
    "topics": "topic T",
    "hosts": "two hosts",
    "session": "",
    "expires": "",
    "count": "N",
    "duplicates": "",
    "detail": "N",
    "claimed": "one",
    "current": "another",
    "instance": "NAME",
    "partition": "one",
}
# The names of the group types beside a clause that only one of them has.
GROUPS = {
    Fact.CLASSIC_GROUP: "classic groups",
    Fact.CONSUMER_GROUP: "groups of KIP-848",
    Fact.SHARE_GROUP: "share groups",
    Fact.STREAMS_GROUP: "streams groups",
    Fact.KAFKA_STREAMS: "Kafka Streams",
}
_KINDS = {kind.name: kind for kind in INCIDENT_KINDS}


def page() -> str:
    """Returns the text of the page."""
    return "\n".join([HEAD, *_symptoms(), *_families(), *_signs()])


def _symptoms() -> Iterator[str]:
    yield "## Symptoms"
    yield ""
    for symptom in SYMPTOMS:
        yield f"**`{symptom.name}`**: {symptom.meaning}"
        yield ""
        for title, causes in FAMILIES.items():
            links = ", ".join(f"[{cause.name}](#{cause.name})" for cause in causes if symptom in cause.symptoms)
            if links:
                yield f"- {title}: {links}"
        yield ""


def _families() -> Iterator[str]:
    for title, causes in FAMILIES.items():
        yield f"## {title}"
        yield ""
        for cause in causes:
            yield from _cause(cause)


def _signs() -> Iterator[str]:
    yield "## Signs"
    yield ""
    yield "`signs` in JSON, and the sentences after `proof`: what was seen, and in which source."
    yield ""
    yield "| sign | what it says | source |"
    yield "|---|---|---|"
    every = {sign.name: sign for cause in CAUSES for sign in cause.signs}
    yield from (f"| `{name}` | {every[name].meaning} | {every[name].source} |" for name in sorted(every))
    yield ""


def _cause(cause: Cause) -> Iterator[str]:
    yield f"### {cause.name}"
    yield ""
    yield sentences_of(cause.happened)
    yield ""
    yield f"- **Symptoms:** {', '.join(f'`{symptom.name}`' for symptom in cause.symptoms)}"
    yield from _evidence(cause)
    if cause.against:
        yield "- **Excluded by any of:**"
        yield from (f"    - {sign.meaning}" for sign in cause.against)
    yield f"- **What would decide it:** {cause.decided_by}"
    advice = sentences_of(advice_of(cause))
    if advice:
        yield f"- **What to do:** {advice}"
    settings = _settings(cause)
    if settings:
        yield f"- **Change:** {', '.join(dict.fromkeys(map(_setting, settings)))}."
    change = ", ".join(dict.fromkeys(clause.text for clause in settings)) or None
    yield f"- **Who can fix it:** {who_can_fix(cause.fault, change)}."
    yield ""


def _evidence(cause: Cause) -> Iterator[str]:
    if not cause.proved_by:
        yield f"- **Suspected by:** {_with_sources((*cause.needs, *cause.suspected_by))}. No source proves it."
        return
    proofs = [tuple(sign for sign in proof if sign not in cause.needs) for proof in cause.proved_by]
    if not all(proofs):
        yield f"- **Proved by:** {_with_sources(cause.needs)}"
        yield from (f"- **Observed if also:** {_with_sources(proof)}" for proof in proofs if proof)
        return
    if cause.needs:
        yield f"- **Needs:** {_with_sources(cause.needs)}"
    yield f"- **Proved by:** {'; **or** '.join(map(_with_sources, proofs))}"


def _with_sources(signs: Sequence[Sign]) -> str:
    return " **and** ".join(f"{sign.meaning.removesuffix('.')} ({sign.source})" for sign in signs)


def advice_of(cause: Cause) -> Text:
    kind = _KINDS.get(cause.kind or "")
    if cause.advice or kind is None:
        return cause.advice
    return kind.advice or (kind.root.advice if kind.root is not None else "")


def _settings(cause: Cause) -> tuple[Clause, ...]:
    kind = _KINDS.get(cause.kind or "")
    own = cause.settings or (() if kind is None else kind.settings or (kind.root.settings if kind.root else ()))
    return clauses_of(tuple(own))


def _setting(clause: Clause) -> str:
    groups = [GROUPS[fact] for fact in clause.needs if fact in GROUPS]
    not_in = [GROUPS[fact] for fact in clause.excludes if fact in GROUPS]
    where = f" ({', '.join(groups)})" if groups else f" (not in {' and '.join(not_in)})" if not_in else ""
    return f"`{clause.text}`{where}"


def sentences_of(text: Text) -> str:
    """Returns the sentences for any group, then those for one type of group alone."""
    clauses = [(clause, [GROUPS[fact] for fact in clause.needs if fact in GROUPS]) for clause in clauses_of(text)]
    of_all = [clause for clause, groups in clauses if not groups and (not clause.needs or _is_whole(clause))]
    parts = [_joined(of_all).format(**PLACES).strip()]
    parts += [
        f"In {', '.join(groups)}: {clause.text.strip()}"
        for clause, groups in clauses
        if groups and _is_sentence(clause)
    ]
    said = " ".join(filter(None, parts))
    return said[:1].upper() + said[1:]


def _joined(clauses: Iterable[Clause]) -> str:
    """Returns clauses as one text. A group has only one of two sentences that exclude each other; here both stand."""
    text = ""
    for clause in clauses:
        text += " " * (text.endswith(".") and clause.text[0].isupper()) + clause.text
    return text


def _is_sentence(clause: Clause) -> bool:
    return clause.text.strip()[0].isupper()


def _is_whole(clause: Clause) -> bool:
    return _is_sentence(clause) and clause.text.endswith(".")


if __name__ == "__main__":
    PAGE.write_text(page())
