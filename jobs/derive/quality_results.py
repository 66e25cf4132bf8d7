"""Writes the results of `quality` at the end of a pipeline's pass into `quality_results`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.warehouse.upsert import of_rows
from groupledger.schemas.tables.quality_results import QUALITY_RESULTS

if TYPE_CHECKING:
    from typing import Any

    from groupledger.jobs.warehouse.ledger import Ledger


def write_results(ledger: Ledger, results: list[dict[str, Any]]) -> None:
    ledger.create(QUALITY_RESULTS)
    names = QUALITY_RESULTS.schema.names
    rows = [tuple(result[name] for name in names) for result in results]
    ledger.commits.append(QUALITY_RESULTS, of_rows(rows, QUALITY_RESULTS))
