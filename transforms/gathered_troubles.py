"""Carries the troubles that Spark's tasks report (`transforms.troubles`) to the driver, by an accumulator.

A task that Spark runs twice reports the same troubles twice. The driver has the reports of a task as soon as the Spark
action that ran the task returns.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import AccumulatorParam

from groupledger.transforms.troubles import trouble_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

    from groupledger.transforms.troubles import Trouble


class _Lists(AccumulatorParam[list[Any]]):
    def zero(self, value: list[Any]) -> list[Any]:  # noqa: ARG002 - Spark names it
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802 - Spark calls it
        value1.extend(value2)
        return value1


@cache
def reported_in(context: SparkContext) -> Accumulator[list[Any]]:
    """Returns the accumulator that all passes of the process share. There is only one, because Spark keeps an
    accumulator for as long as the process lives."""
    return context.accumulator([], _Lists())


@dataclass(frozen=True)
class Gathered:
    """Gathers the troubles of one pass of a step. Spark's tasks call it with a group id and an error."""

    reported: Accumulator[list[Any]]
    pass_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __call__(self, group_id: str, error: Exception) -> None:
        self.reported.add([(self.pass_id, trouble_of(group_id, error))])

    def taken(self) -> dict[str, Trouble]:
        """Returns the troubles by group, and clears them. Call it in the driver after the action that ran the tasks."""
        everything = self.reported.value  # the passes of other threads add to this very list
        mine = [each for each in everything if each[0] == self.pass_id]
        for each in mine:
            everything.remove(each)
        return {trouble.group_id: trouble for _, trouble in mine}
