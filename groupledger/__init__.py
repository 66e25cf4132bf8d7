"""groupledger: the ledger of every Kafka consumer group.

    import groupledger

    groupledger.Ledger("/data/ledger").why("shipping-labels", since="2h")

The names in `__all__` are public (docs/python.md); all modules below this one may change in any release. A name is
imported when it is first used, since a Spark worker that imports the package needs none of them.

In a checkout, the five folders of the package lie at the top of the repository, and this folder has links to them. So
Python, editors, mypy and pytest find `groupledger.jobs` as in an installation, and no other folder of the repository is
on anybody's path.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groupledger.jobs.ask.api import Ledger, Rows, When, Why
    from groupledger.jobs.ask.rows_of_answers import (
        CommittedOffset,
        Diagnosis,
        Entry,
        Episode,
        Group,
        Incident,
        LastRound,
        Owner,
        PartitionLag,
        QuietTopic,
        Rebalance,
    )
    from groupledger.jobs.process.errors import InputError, JobError, NotKnownError, OutsideError, UnknownNameError

__all__ = [
    "CommittedOffset",
    "Diagnosis",
    "Entry",
    "Episode",
    "Group",
    "Incident",
    "InputError",
    "JobError",
    "LastRound",
    "Ledger",
    "NotKnownError",
    "OutsideError",
    "Owner",
    "PartitionLag",
    "QuietTopic",
    "Rebalance",
    "Rows",
    "UnknownNameError",
    "When",
    "Why",
]
_ROOMS = ("jobs.ask.api", "jobs.process.errors")


def __getattr__(name: str) -> object:
    if name in __all__:
        for room in _ROOMS:
            module = import_module(f"{__name__}.{room}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
