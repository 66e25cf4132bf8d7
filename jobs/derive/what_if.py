"""Writes the answers of a what-if into `what_if_runs` and `what_if_effects`, under a lease of their own."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pyarrow as pa

from groupledger.jobs.process.clock import now_ms
from groupledger.schemas.definitions import schema_of
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.tables.what_if_effects import WHAT_IF_EFFECTS
from groupledger.schemas.tables.what_if_runs import WHAT_IF_RUNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.warehouse.ledger import Ledger


def keep(ledger: Ledger, question: Answer, answers: Sequence[Answer]) -> str:
    """Appends a run and its answers, and returns the run's id. `question` has the columns that say what was asked. The
    run's row is written last: answers whose run has no row come from an interrupted run."""
    run_id = str(uuid.uuid4())
    of_run = {
        "cluster": ledger.cluster,
        "run_id": run_id,
        "ran_at": instant_of_ms(now_ms()),
    }
    ledger.create(WHAT_IF_RUNS, WHAT_IF_EFFECTS)
    effects = [{**of_run, **answer} for answer in answers]
    ledger.commits.append(WHAT_IF_EFFECTS, pa.Table.from_pylist(effects, schema_of(WHAT_IF_EFFECTS.name)))
    run = {
        **of_run,
        **question,
        "groups": len({answer["group_id"] for answer in answers}),
        "groups_told": len({answer["group_id"] for answer in answers if answer["refusal"] is None}),
    }
    ledger.commits.append(WHAT_IF_RUNS, pa.Table.from_pylist([run], schema_of(WHAT_IF_RUNS.name)))
    return run_id
