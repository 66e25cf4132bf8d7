"""Keeps the settings that decide about the meaning of rows with the tables:
`_groupledger/<cluster>/kept_settings.json`.

A session timeout decides which member expired, a retention which offset did, a standstill which partition stands still.
A pass without the `--conf` of earlier passes would go on with other values, and `validate` would report right rows as
wrong. So a command uses the kept settings, unless its own settings say otherwise: a value in the user's file, or one
that differs from the shipped default. Such a value is kept from then on, and if the history depends on it, the history
is rebuilt, so that all of its rows mean the same. `validate` always uses the settings that the rows were made with.
Every difference is reported in one sentence.

Secrets are kept as references, as they are in the settings.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from groupledger.jobs.process.settings import is_given, overlaid
from groupledger.jobs.warehouse.rebuilds import request_rebuild
from groupledger.jobs.warehouse.storage import STATE_FOLDER, read_parsed
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.generations import GENERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from groupledger.jobs.process.settings import Settings
    from groupledger.jobs.warehouse.lease import Lease
    from groupledger.jobs.warehouse.storage import Readable, Storage
    from groupledger.schemas.tables.table import Table

NAMES: Mapping[str, frozenset[str]] = {
    "history": frozenset({"consumer_session_timeout_s", "storm_rebalances", "storm_rebalances_per_member"})
    | {"storm_window_s", "flapping_tenures", "flapping_tenure_s", "flapping_owners"},
    "offsets": frozenset({"retention_s", "retention_check_interval_s"}),
    "incidents": frozenset({"open_s", "link_s", "commit_gap_s", "commit_gap_intervals", "zombie_return_s"})
    | {"stalled_transaction_s", "stuck_rebalance_s", "stuck_reconciliation_s", "expires_soon_s"},
    "lag": frozenset({"watermark_age_max_s", "window_s", "standstill_s", "growth_records_min", "growth_fraction_min"})
    | {"burrow_intervals", "burrow_minimum_complete", "burrow_allowed_lag", "burrow_min_distance_s"},
    "privacy": frozenset({"hosts", "principals", "hash_key"}),
}
"""The settings that are kept, by section. What else is set says where and how work is done, or what is shown of it."""
OF_HISTORY = ("history", "offsets")  # rows are made again from the records when these change
ONLY_COMPARES = "validate"
REMEDY = "move it out of the warehouse, and give the next command the settings that the tables were made with"

Values = dict[str, dict[str, Any]]


class Opened(Protocol):
    """The part of an opened ledger that is needed here (`jobs.warehouse.ledger`)."""

    @property
    def cluster(self) -> str: ...
    @property
    def storage(self) -> Storage: ...
    @property
    def lease(self) -> Lease: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def say(self) -> Callable[[str], None]: ...

    def exists(self, table: Table) -> bool:
        """Returns whether a table exists."""

    def version(self, table: Table) -> int:
        """Returns the version of a table."""


def kept_settings(storage: Readable, cluster: str) -> Values | None:
    """Returns the kept values, by section and name; None for tables of a release that kept none."""
    return read_parsed(storage, _file(cluster), _parsed, REMEDY)


def with_kept(settings: Settings, kept: Values | None) -> Settings:
    """Returns the settings for a question: the kept ones, except where the question's own settings say otherwise."""
    return overlaid(settings, dict(_values(kept or {}, settings, is_bound=False)))


def settle(ledger: Opened, command: str, *, is_of_logs: bool) -> Settings:
    """Returns the settings that a command uses, reports where they differ from the given ones, and keeps new values. An
    import of logs, which has another lease, keeps nothing."""
    kept = kept_settings(ledger.storage, ledger.cluster)
    own = _of(ledger.settings)
    is_bound = is_of_logs or command == ONLY_COMPARES
    if kept is None:
        if not is_bound:
            _keep(ledger, own)
        return ledger.settings
    settings = overlaid(ledger.settings, dict(_values(kept, ledger.settings, is_bound=is_bound)))
    found = _of(settings)
    unused, new = _differences(own, found), _differences(kept, found)
    if unused:
        ledger.say(f"the tables were made with other settings, and are gone on with by them: {', '.join(unused)}")
    if new and not is_bound:
        _keep(ledger, found)
        again = [name for name in new if name.partition(".")[0] in OF_HISTORY]
        then = "the history is made again" if again else "rows of before stay as they are"
        ledger.say(f"settings have changed, and are kept with the tables from now on: {', '.join(new)}; {then}")
        if again and ledger.exists(GENERATIONS):
            reason = "settings have changed"
            request_rebuild(ledger.storage, ledger.lease, reason, ledger.version(COORDINATOR_RECORDS))
    return settings


def _values(kept: Values, settings: Settings, *, is_bound: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields, by section, the kept values that are used. A value that the settings give themselves is not, unless the
    command is bound to the kept ones."""
    for section, values in kept.items():
        told = {
            name: value
            for name, value in values.items()
            if name in NAMES.get(section, ()) and (is_bound or not is_given(settings, section, name))
        }
        yield section, told


def _differences(these: Values, others: Values) -> list[str]:
    """Returns the settings that differ, as they are in the second instead of the first. A secret has its name alone."""
    return [
        f"{section}.{name}" if name == "hash_key" else f"{section}.{name} {value} instead of {these[section][name]}"
        for section, values in others.items()
        for name, value in values.items()
        if name in these.get(section, {}) and these[section][name] != value
    ]


def _of(settings: Settings) -> Values:
    every = settings.model_dump(mode="json", include={section: set(names) for section, names in NAMES.items()})
    return {section: dict(sorted(values.items())) for section, values in sorted(every.items())}


def _keep(ledger: Opened, values: Values) -> None:
    ledger.lease.check()
    ledger.storage.write(_file(ledger.cluster), json.dumps(values))


def _parsed(text: str) -> Values:
    return {str(section): dict(values) for section, values in json.loads(text).items()}


def _file(cluster: str) -> str:
    return f"{STATE_FOLDER}/{cluster}/kept_settings.json"
