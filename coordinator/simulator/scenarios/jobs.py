"""Scenarios of jobs: processes that start, read what there is, commit, and close in good order, again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.simulator.scenarios.registry import scenario

if TYPE_CHECKING:
    from groupledger.coordinator.simulator.scenarios.script import Script

_MINUTES = 60  # for which the jobs are run
_FIRST_MINUTE = 2


@scenario("job-each-minute", "One process starts each minute, works for half of it, and closes in good order.", hours=1)
def job_each_minute(group: Script) -> None:
    _run_jobs(group, 1, every_minutes=1, for_minutes=0.5)


@scenario("job-each-ten-minutes", "Three processes start every ten minutes, work for four, and close.", hours=1)
def job_each_ten_minutes(group: Script) -> None:
    _run_jobs(group, 3, every_minutes=10, for_minutes=4)


def _run_jobs(group: Script, count: int, *, every_minutes: int, for_minutes: float) -> None:
    applications = group.deploy(count, [group.topic("orders", 6)])
    for begin in range(_FIRST_MINUTE, _MINUTES - every_minutes, every_minutes):
        group.start(applications, begin)
        for number, application in enumerate(applications):
            group.plan(begin + for_minutes + number / 60, "stop", application.close, by=application)


@scenario(
    "job-crashes", "A process starts every two minutes and dies without a word each time: its session expires.", hours=1
)
def job_crashes(group: Script) -> None:
    (application,) = group.deploy(1, [group.topic("orders", 6)])
    for begin in range(_FIRST_MINUTE, _MINUTES - 2, 2):
        group.start([application], begin)
        group.plan(begin + 0.5, "crash", application.crash, by=application)


JOBS = (job_each_minute, job_each_ten_minutes, job_crashes)
