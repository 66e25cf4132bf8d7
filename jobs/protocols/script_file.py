"""Finds a script: one of the shipped ones by its name, or a YAML file of the same form."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from groupledger.coordinator.protocols.script import SCRIPTS, ScriptError, script_of
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.yaml_text import parse_yaml

if TYPE_CHECKING:
    from groupledger.coordinator.protocols.script import Script


def find_script(name: str) -> Script:
    """Returns the shipped script with this name, or else the script in the file with this name. Raises InputError if
    there is neither, or if the script can't be played."""
    if name in SCRIPTS:
        return SCRIPTS[name]
    file = Path(name)
    if not file.is_file():
        raise InputError(f"There is no script {name}: give a file, or one of {', '.join(SCRIPTS)}.")
    try:
        return script_of(file.stem, parse_yaml(file.read_text(encoding="utf-8"), name))
    except ScriptError as error:
        raise InputError(str(error)) from error
