"""Stores beside the tables the settings that the meaning of rows depends on:
`_groupledger/<cluster>/kept_settings.json`.

A session timeout decides which member expired, a retention which offset expired, and a standstill limit which partition
is stalled. A pass without the `--conf` of earlier passes would use other values, and `validate` would report right rows
as wrong. So a command uses the kept settings, unless its own settings say otherwise: a value in the user's file, or one
that differs from the shipped default. A question does so by `with_kept`; commands that write also store new values
(`settled_settings`).

Secrets are kept as references, as they are in the settings.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from groupledger.jobs.process.settings import is_given, overlaid
from groupledger.jobs.warehouse.storage import STATE_FOLDER, read_parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from groupledger.jobs.process.settings import Settings
    from groupledger.jobs.warehouse.storage import Readable

NAMES: Mapping[str, frozenset[str]] = {
    "history": frozenset({"consumer_session_timeout_s", "storm_rebalances", "storm_rebalances_per_member"})
    | {"storm_window_s", "flapping_tenures", "flapping_tenure_s", "flapping_owners"},
    "offsets": frozenset({"retention_s", "retention_check_interval_s"}),
    "incidents": frozenset({"open_s", "link_s", "commit_gap_s", "commit_gap_intervals", "zombie_return_s"})
    | {"stalled_transaction_s", "stuck_rebalance_s", "stuck_reconciliation_s", "expires_soon_s", "final_after_s"},
    "lag": frozenset({"watermark_age_max_s", "window_s", "standstill_s", "growth_records_min", "growth_fraction_min"})
    | {"burrow_intervals", "burrow_minimum_complete", "burrow_allowed_lag", "burrow_min_distance_s"},
    "privacy": frozenset({"hosts", "principals", "hash_key"}),
}
"""The settings that are kept, by section. All others say where and how work is done, or which results are shown."""
REMEDY = "move it out of the warehouse, and give the next command the settings that the tables were made with"

Values = dict[str, dict[str, Any]]


def kept_settings(storage: Readable, cluster: str) -> Values | None:
    """Returns the kept values, by section and name; None if no command of a release that keeps settings has written
    yet."""
    return read_parsed(storage, file_of(cluster), _parsed, REMEDY)


def with_kept(settings: Settings, kept: Values | None) -> Settings:
    """Returns the settings for a question: the kept values, except where the question's own settings give a value.
    `kept` is None if none are kept."""
    return overlaid(settings, dict(values_of(kept or {}, settings, is_bound=False)))


def values_of(kept: Values, settings: Settings, *, is_bound: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields, by section, the kept values that a command uses. A value that `settings` give themselves is used instead
    of the kept one, unless the command `is_bound` to the kept values."""
    for section, values in kept.items():
        used = {
            name: value
            for name, value in values.items()
            if name in NAMES.get(section, ()) and (is_bound or not is_given(settings, section, name))
        }
        yield section, used


def _parsed(text: str) -> Values:
    return {str(section): dict(values) for section, values in json.loads(text).items()}


def file_of(cluster: str) -> str:
    return f"{STATE_FOLDER}/{cluster}/kept_settings.json"
