"""Names a row of the ledger that proves an incident."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Proof:
    """Names a row of the ledger by its table and key."""

    table_name: str
    row_key: str
