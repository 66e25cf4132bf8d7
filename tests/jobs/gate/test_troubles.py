"""Goal: one line for one kind of trouble, and the next one says how many there were."""

from __future__ import annotations

import logging

import pytest

from groupledger.jobs.gate import troubles
from groupledger.jobs.gate.troubles import KINDS_MAX, SERVER_LOGGERS, Troubles, listen_to_kafka, listen_to_server


def test_one_line_for_a_kind() -> None:
    """Goal: a kind of trouble is printed once a minute, and no number of kinds takes memory."""
    found = Troubles()
    assert found.line("full", "It is full.", 0) == "It is full."
    assert [found.line("full", "It is full.", now) for now in range(1, 60)] == [None] * 59
    assert found.line("other", "Something else.", 1) == "Something else."
    assert found.line("full", "It is full.", 60) == "It is full. (59 more of this kind since the last line)"
    assert found.line("full", "It is full.", 120) == "It is full."
    said = [found.line(f"kind {number}", "x", 121) for number in range(10 * KINDS_MAX)]
    assert sum(line is not None for line in said) <= KINDS_MAX


@pytest.mark.parametrize("name", SERVER_LOGGERS)
def test_lines_of_libraries(name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Goal: a library's lines about a thousand clients become one line."""
    monkeypatch.setattr(troubles, "EVERY", Troubles())
    listen_to_server()
    for number in range(1_000):
        logging.getLogger(name).warning("Client %d sent nonsense.", number)
    assert capfd.readouterr().err.splitlines() == ["groupledger's server: Client 0 sent nonsense."]


def test_warnings_of_kafka_python(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Goal: a command that runs on reports why a broker can't be reached, once for many tries; it reports nothing below
    a warning."""
    monkeypatch.setattr(troubles, "EVERY", Troubles())
    listen_to_kafka()
    logging.getLogger("kafka.net.selector").warning("Task ran for 0.175s")  # a busy machine, and no broker's fault
    for port in range(9_000, 9_100):
        logging.getLogger("kafka.net.connection").info("Connecting to %d", port)
        logging.getLogger("kafka.net.connection").warning("Connection to %d failed", port)
    error = ConnectionResetError()
    logging.getLogger("kafka.net.transport").error("Error receiving from network", exc_info=error)
    assert capfd.readouterr().err.splitlines() == [
        "kafka-python: Connection to 9000 failed",
        "kafka-python: Error receiving from network ConnectionResetError",
    ]
