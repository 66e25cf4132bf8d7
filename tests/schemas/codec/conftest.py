"""Golden vectors for the tests of the codec, and the fuzzer that `make fuzz` runs.

A golden file holds blocks of `name: value` lines, divided by empty lines; its head says how it was
made. A test that asks for `golden_record` or `golden_protocol` runs once for each block.
"""

import importlib.util
import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

GOLDEN = Path(__file__).parent / "golden"
FUZZER = Path(__file__).parents[3] / "bench" / "fuzz_codec.py"


def _blocks(pattern: str) -> list[dict[str, str]]:
    texts = [path.read_text(encoding="utf-8") for path in sorted(GOLDEN.glob(pattern))]
    blocks = [
        [line for line in block.split("\n") if line and not line.startswith("#")]
        for text in texts
        for block in text.split("\n\n")
    ]
    return [dict(line.split(": ", 1) for line in block) for block in blocks if block]


def _record(block: dict[str, str]) -> SimpleNamespace:
    """`printed` is the tool's JSON in our form, None where the tool refuses the record."""
    value = None if block["value"] == "null" else bytes.fromhex(block["value"])
    payload = block.get("tool_payload")
    printed: dict[str, Any] | None = None
    if payload is not None:
        printed = {
            "key": json.loads(block["tool_key"]),
            "value": None if payload == "<DELETE>" else json.loads(payload),
        }
    return SimpleNamespace(name=block["name"], key=bytes.fromhex(block["key"]), value=value, printed=printed)


def _protocol(block: dict[str, str]) -> SimpleNamespace:
    return SimpleNamespace(
        name=block["name"],
        kind=block["kind"],
        data=bytes.fromhex(block["bytes"]),
        version=int(block["version"]),
        fields=json.loads(block["json"]),
    )


RECORDS = [_record(block) for block in _blocks("records_*.txt")]
SHARE_STATE = [_record(block) for block in _blocks("share_state.txt")]
PROTOCOLS = [
    _protocol(block)
    for name in ("consumer_protocol", "connect_protocol", "sticky_assignor", "streams_assignor")
    for block in _blocks(f"{name}.txt")
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for fixture, vectors in (
        ("golden_record", RECORDS),
        ("golden_share_state", SHARE_STATE),
        ("golden_protocol", PROTOCOLS),
    ):
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, vectors, ids=[vector.name for vector in vectors])


@pytest.fixture(scope="session")
def golden_records() -> list[SimpleNamespace]:
    return RECORDS


@pytest.fixture(scope="session")
def hostile_records() -> list[SimpleNamespace]:
    return [_record(block) for block in _blocks("hostile.txt")]


@pytest.fixture(scope="session")
def golden_share_states() -> list[SimpleNamespace]:
    return SHARE_STATE


@pytest.fixture(scope="session")
def hostile_share_state() -> list[SimpleNamespace]:
    return [_record(block) for block in _blocks("share_state_hostile.txt")]


@pytest.fixture(scope="session")
def golden_control_records() -> list[dict[str, str]]:
    return _blocks("control_record.txt")


@pytest.fixture(scope="session")
def fuzzer() -> ModuleType:
    """bench/fuzz_codec.py, which lies outside the packages."""
    spec = importlib.util.spec_from_file_location("fuzz_codec", FUZZER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
