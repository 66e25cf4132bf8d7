"""Goal: what is shipped for deployment is whole in itself, and says the same as what it was made from."""

from __future__ import annotations

from importlib import resources

import yaml

CONF = resources.files("groupledger.conf")


def test_the_rules_of_the_chart() -> None:
    """Goal: the chart has the alert rules themselves. A packaged chart can't follow a link out of its folder, so it has
    a copy: after a change, copy `conf/prometheus/groupledger.rules.yaml` over it."""
    shipped = CONF.joinpath("deploy/chart/groupledger.rules.yaml").read_text()
    (group,) = yaml.safe_load(shipped)["groups"]
    assert {"GroupledgerGone", "ConsumerGroupStopped"} <= {rule["alert"] for rule in group["rules"]}
    assert shipped == CONF.joinpath("prometheus/groupledger.rules.yaml").read_text()
