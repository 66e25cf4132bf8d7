"""Determines the settings of a command that writes, and stores them beside the tables (`kept_settings`).

A value that the command's own settings give is stored, and applies from then on. If the history depends on it, the
history is rebuilt, so that all of its rows have the same meaning. `validate` always uses the settings that the rows
were made with. Every difference is reported in one sentence.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

from groupledger.jobs.process.settings import overlaid
from groupledger.jobs.warehouse.kept_settings import NAMES, file_of, kept_settings, values_of
from groupledger.jobs.warehouse.rebuilds import request_rebuild
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.generations import GENERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.jobs.process.settings import Settings
    from groupledger.jobs.warehouse.kept_settings import Values
    from groupledger.jobs.warehouse.lease import Lease
    from groupledger.jobs.warehouse.storage import Storage
    from groupledger.schemas.tables.table import Table

OF_HISTORY = ("history", "offsets")  # rows are made again from the records when these change
ONLY_COMPARES = "validate"


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


def settle(ledger: Opened, command: str, *, is_of_logs: bool) -> Settings:
    """Returns the settings that a command uses. A value that the user gave (the user's file has it, or it differs from
    the shipped default) is used, stored, and reported if it is new. For all others the stored value is used, and
    reported if it is not the default. If nothing is stored, the command's own settings are used and stored. If the
    history depends on a new value, a rebuild is requested. `validate`, and an import of logs (`is_of_logs`), which has
    a lease of its own, use the stored values alone if there are any, and store nothing."""
    kept = kept_settings(ledger.storage, ledger.cluster)
    own = _of(ledger.settings)
    is_bound = is_of_logs or command == ONLY_COMPARES
    if kept is None:
        if not is_bound:
            _keep(ledger, own)
        return ledger.settings
    settings = overlaid(ledger.settings, dict(values_of(kept, ledger.settings, is_bound=is_bound)))
    found = _of(settings)
    unused, new = _differences(own, found), _differences(kept, found)
    if unused:
        ledger.say(f"the tables were made with other settings, which stay in force: {', '.join(unused)}")
    if new and not is_bound:
        _keep(ledger, found)
        again = [name for name in new if name.partition(".")[0] in OF_HISTORY]
        then = "the history is made again" if again else "rows of before stay as they are"
        ledger.say(f"settings have changed, and are kept with the tables from now on: {', '.join(new)}; {then}")
        if again and ledger.exists(GENERATIONS):
            reason = "settings have changed"
            request_rebuild(ledger.storage, ledger.lease, reason, ledger.version(COORDINATOR_RECORDS))
    return settings


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
    ledger.storage.write(file_of(ledger.cluster), json.dumps(values))
