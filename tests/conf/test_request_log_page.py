"""Goal: brokers configured as the page on the request log says keep every line that we read."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from groupledger.schemas.kafka.api_keys import GROUP_APIS, ApiKey
from groupledger.schemas.kafka.request_line import API_KEY, COMPLETED, HEADER, IS_FORWARDED, LOGGER

PAGE = Path(__file__).parents[2] / "docs" / "request_log.md"


def test_the_filter_keeps_what_is_imported() -> None:
    """Goal: log4j's filter, which matches whole messages, lets exactly the requests pass that an import reads."""
    text = PAGE.read_text()
    block = re.search(r"(?m)^    RollingFile:\n(?:    .*\n|\n)*", text)
    assert block is not None
    configuration = yaml.safe_load("Appenders:\n" + block[0].split("      - name: kafka.request.logger")[0])
    (appender,) = configuration["Appenders"]["RollingFile"]
    kept = {
        api
        for api in ApiKey
        if re.fullmatch(
            appender["RegexFilter"]["regex"],
            f'{COMPLETED}{{"{IS_FORWARDED}":false,"{HEADER}":{{"{API_KEY}":{api.value},"requestApiVersion":0}}}}',
        )
    }
    assert kept == GROUP_APIS | {ApiKey.METADATA}
    assert f"- name: {LOGGER}" in text
