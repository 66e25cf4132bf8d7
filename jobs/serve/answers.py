"""Answers a request from the warehouse: resolves its cluster, group and instant.

Each request opens the tables again, so that its answer comes from one version of each table. Errors are problem details
(RFC 9457).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.responses import Response

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.clusters import clusters_of
from groupledger.jobs.ask.group_list import every_group
from groupledger.jobs.ask.known import sources_known
from groupledger.jobs.ask.snapshots import Snapshots
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import InputError, UnknownNameError
from groupledger.jobs.process.instants import read_instant
from groupledger.jobs.process.output import json_text
from groupledger.jobs.process.path_names import name_in
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.serve.cached_values import CachedAnswers, CachedValues
from groupledger.jobs.serve.diagnoses import Diagnoses
from groupledger.jobs.serve.readers import for_readers
from groupledger.jobs.warehouse.kept_settings import kept_settings, with_kept
from groupledger.schemas.instants import instant_of_ms
from groupledger.transforms.coverage.rules.known import Time, why_not_known

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.process.settings import Settings

Kind = TypeVar("Kind")
# No log of Kafka is older. Windows reach a year further on both sides, and a year has to be left there.
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=timezone.utc), datetime(9998, 1, 1, tzinfo=timezone.utc)
QUESTION_S = 30.0
ANY_TIME = Time()
CLUSTERS = "clusters"
# The tables of the list of groups.
LISTED = ("groups", "group_states", "lag", "incidents")


@dataclass(frozen=True, slots=True)
class Warehouse:
    """The warehouse at `place`, which the server reads, and the server's settings, which name the teams. Results that
    many requests need are cached until one of the tables that they come from has another version."""

    place: str
    settings: Settings
    diagnoses: Diagnoses = field(default_factory=Diagnoses)
    verdicts: CachedAnswers = field(default_factory=CachedAnswers)
    _cache: CachedValues = field(default_factory=CachedValues)

    def clusters(self) -> list[str]:
        return clusters_of(Snapshots(self.place))

    def rows(self, cluster: str) -> ClusterRows:
        """Returns the tables of a cluster for reading. `cluster` is its name as encoded in a URL's path. Raises
        UnknownNameError if the warehouse has no such cluster."""
        name = name_in(cluster)
        tables = ClusterRows(self.place, name, QUESTION_S)
        known = self._cache.get(CLUSTERS, (tables.version("coverage"),), self.clusters)
        if name not in known:
            there = ", ".join(map(printable, known)) or "none yet"
            raise UnknownNameError(f"The warehouse has no cluster {printable(name)}: it has {there}.")
        return tables

    def combined_settings(self, tables: ClusterRows) -> Settings:
        """Returns the settings to answer questions with: as for commands, the values stored with the cluster's tables,
        except where the server's own settings say otherwise."""
        return with_kept(self.settings, kept_settings(tables.small_files, tables.cluster))

    def groups(self, tables: ClusterRows) -> list[Answer]:
        """Returns a row for each group of the cluster, those in trouble first."""
        return self.cached(tables, LISTED, lambda: every_group(tables, self.settings.team_patterns()))

    def cached(
        self,
        tables: ClusterRows,
        of: tuple[str, ...],
        make: Callable[[], Kind],
        *which: str,
        is_final: Callable[[Kind], bool] = lambda _: True,
    ) -> Kind:
        """Returns the result of `make`, which reads only the tables `of`. The result is cached until one of these
        tables has another version, if it is final. `which` distinguishes results from the same tables. Entries are
        never dropped, so `which` must have few values."""
        versions = tuple(tables.version(table) for table in of)
        found: Kind = self._cache.get((tables.cluster, of, which), versions, make, is_final)
        return found

    def made_of(self, inputs: tuple[object, ...], make: Callable[[], Kind], *which: str) -> Kind:
        """Returns the result of `make`, which is computed from `inputs`. These are cached values themselves; the result
        is cached until one of them is computed again. `which` is the key."""
        # The inputs are kept with it, so that no other object gets the identity of one.
        kept = self._cache.get(which, tuple(map(id, inputs)), lambda: (inputs, make()))
        found: Kind = kept[1]
        return found


def instant_in(text: str | None) -> datetime | None:
    """Returns the instant in a parameter, in any form that the command line accepts; None if `text` is empty. Raises
    InputError if `text` is not an instant, or not between 1970 and 9998."""
    if not text:
        return None
    now = instant_of_ms(now_ms())
    try:
        found = read_instant(text, now, timezone.utc)
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"{printable(text)} is not a valid time: write one as 2026-01-31T14:03:00Z, 14:03, or 2h for two hours ago."
        ) from error
    if not EARLIEST <= found < LATEST:
        raise InputError(f"No log has the instant {printable(text)}: ask for one from 1970 on, and before 9998.")
    return found


def known_of(
    tables: ClusterRows, sources: Sequence[str], time: Time = ANY_TIME, names: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns two fields of an answer. `known_until` has, for each source, the instant up to which it was read.
    `not_known` is a sentence if `time`, which the question is about, reaches beyond the `sources` that it needs;
    otherwise None. `names` are the question's groups."""
    known = sources_known(tables, names)
    why = why_not_known(known, sources, time)
    return {"known_until": known, "not_known": why and for_readers(why)}


def known_answer(
    answer: Mapping[str, object],
    tables: ClusterRows,
    sources: Sequence[str],
    time: Time = ANY_TIME,
    names: Sequence[str] = (),
) -> Response:
    """Returns a response with the fields of `answer` and those of `known_of`."""
    return json_answer({**known_of(tables, sources, time, names), **answer})


def json_answer(value: Any, status: int = 200, media_type: str = "application/json") -> Response:
    return Response(json_text(value) + "\n", status, media_type=media_type)


def problem_answer(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Returns an error as problem details (RFC 9457). The type is `about:blank`, so the title is that of the status."""
    found = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    answer = json_answer(found, status, "application/problem+json")
    answer.headers.update(headers or {})
    return answer
