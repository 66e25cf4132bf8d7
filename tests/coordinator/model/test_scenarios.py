"""The 67 scenarios of Kafka's own test suites, against the coordinator in virtual time."""

from collections.abc import Callable
from typing import Any


def test_scenario(scenario: Any, new_driver: Callable[..., Any], assert_is_fold: Callable[..., None]) -> None:
    """The coordinator does what Kafka's tests and source say (the scenario's own assertions), and its log shows it."""
    driver = new_driver(**scenario.settings)
    scenario.play(driver)
    if "forced_state" not in scenario.needs:
        assert_is_fold(driver.coordinator, driver.batches, driver.now_ms)


def test_every_scenario_is_there(scenarios: list[Any]) -> None:
    """No number of the list is missing, and no name is used twice."""
    assert {scenario.number for scenario in scenarios} == set(range(1, 68))
    assert len({scenario.name for scenario in scenarios}) == len(scenarios)
