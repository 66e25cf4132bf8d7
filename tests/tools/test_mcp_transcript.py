"""Goal: the transcript of the inspector has a call of each tool that there is, with the arguments of today; after a
change run `python -m tools.mcp_transcript`, which needs Node."""

from __future__ import annotations

import json
import re
import shlex

from groupledger.jobs.serve.tools_of_api import NAMES
from tools.api_examples import tool_arguments
from tools.mcp_transcript import INSPECTOR, PAGE


def test_the_page_has_each_tool() -> None:
    text = PAGE.read_text()
    assert INSPECTOR in text
    sections = dict(re.findall(r"^## `(\w+)`\n\n```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    assert [*sections] == [*NAMES]
    for name, section in sections.items():
        command = shlex.split(re.split(r"\n(?=[{\[])", section)[0])
        assert command[command.index("--tool-name") + 1] == name
        asked = json.loads(command[-1]) if "--tool-args-json" in command else {}
        assert asked == json.loads(json.dumps(tool_arguments(name))), name
    listed = re.search(r"^## The tools\n.*?\n(\[.*?\])\n```", text, re.MULTILINE | re.DOTALL)
    assert listed is not None
    assert json.loads(listed[1]) == [*NAMES]
