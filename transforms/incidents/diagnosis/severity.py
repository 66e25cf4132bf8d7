"""Decides how severe a diagnosis is. A diagnosis stands for the incidents that it covers, wherever these are shown, so
that it is never milder than one of them that is still open.

- A proved cause has its severity if it did harm, or if nobody can know; otherwise it is harmless. Records that another
  diagnosis of that time counts are its harm, too. It is at least as severe as an incident that means the same.
- Without a cause, it is as severe as the gravest incident; records that wait are a warning.
- A change that did no harm is harmless.
- It is at least as severe as each of its open incidents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import Evidence, Severity, words_of
from groupledger.transforms.incidents.diagnosis.harm import is_harmful, read_anew_or_never

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.schemas.kinds.causes.cause import Cause
    from groupledger.transforms.incidents.diagnosis.evidence import DiagnosisRows, TroubleEpisode
    from groupledger.transforms.incidents.diagnosis.judge import Judgement

    Row = Mapping[str, Any]

SEVERITIES = words_of(Severity)


def severity_of(episode: TroubleEpisode, rows: DiagnosisRows, found: Judgement, harm: Mapping[str, Any]) -> str:
    still_open: list[str] = [row["severity"] for row in episode.incidents if row["is_open"]]
    return max([_of_cause(episode, rows, found, harm), *still_open], key=SEVERITIES.index)


def _of_cause(episode: TroubleEpisode, rows: DiagnosisRows, found: Judgement, harm: Mapping[str, Any]) -> str:
    incident = gravest(episode.incidents, found.cause)
    did_harm = is_harmful(harm) or bool(read_anew_or_never(rows.within(episode, "offset_events", "happened_at")))
    of_incident = None if incident is None else incident["severity"]
    if found.cause is None:
        waits = harm["records_behind"] if incident is not None else did_harm
        return max(of_incident or Severity.INFO, Severity.WARNING if waits else Severity.INFO, key=SEVERITIES.index)
    if episode.is_change:
        return found.cause.harmless
    is_unknown = not rows.rounds and not episode.rounds
    by_harm = found.cause.severity if did_harm or is_unknown else found.cause.harmless
    says_it = incident is not None and incident["kind"] == found.cause.kind
    return max(by_harm, of_incident if says_it and of_incident else by_harm, key=SEVERITIES.index)


def gravest(incidents: Iterable[Row], cause: Cause | None) -> Row | None:
    """Returns the incident that describes the cause, or else the most severe one."""

    def gravity(row: Row) -> tuple[Any, ...]:
        is_its = cause is not None and row["kind"] == cause.kind
        evidence = -words_of(Evidence).index(row["evidence"])
        return is_its, SEVERITIES.index(row["severity"]), evidence, row["occurrences"], row["kind"]

    return max(incidents, key=gravity, default=None)
