"""Goal: the first lines of a group's page are not calm while the group stands still, with an incident or without
one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.serve.shown import templates
from tests.jobs.serve.serving import AT
from tests.jobs.summaries import summary

if TYPE_CHECKING:
    from groupledger.jobs.ask.verdict import EpisodeSummary

CATCHES_UP = summary(
    cause="catching_up",
    fault="nobody",
    severity="info",
    title="catching_up",
    what="The group lags and is catching up.",
    who="worker-1 at 10.0.0.6",
    since=AT,
    known="inferred",
)


@pytest.mark.parametrize(
    ("is_well", "mild", "leads", "calm"),
    [
        (True, (), None, "No trouble in the 24 h shown here."),
        (True, (CATCHES_UP,), None, "Nothing that did harm in the 24 h shown here."),
        (False, (CATCHES_UP,), CATCHES_UP.what, None),
    ],
)
def test_without_harm(is_well: bool, mild: tuple[EpisodeSummary, ...], leads: str | None, calm: str | None) -> None:
    page = (
        templates()
        .get_template("group_verdict.html")
        .render(
            name="pay",
            episodes=(),
            mild=mild,
            is_well=is_well,
            verdict={"root": None, "quiet_topics": [{"topic": "a<b>", "no_records_since": AT}]},
            verdict_of="the 24 h",
            until=AT,
            now=AT,
            searched_until=AT,
            to_episode=lambda _: "",
        )
    )
    assert ('<section class="verdict ok">' in page, page.count(CATCHES_UP.what)) == (calm is not None, len(mild))
    assert (f'<p class="what">{leads or calm}</p>' in page, "No incident in the 24 h" in page) == (True, calm is None)
    assert ("a&lt;b&gt; has had no new records since" in page) == (calm is not None)
