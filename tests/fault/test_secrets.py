"""Goal: a broker that asks for a password is read with one from the environment, which then appears nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from groupledger.jobs.process.session import SHORT_LIVED

if TYPE_CHECKING:
    from pathlib import Path

    from lab.kafka.local_broker import LocalBroker

SETTINGS = """
kafka:
  security_protocol: SASL_PLAINTEXT
  sasl_mechanism: PLAIN
  sasl_username: ledger
  sasl_password: {env: LEDGER_PASSWORD}
  request_timeout_ms: 20000
"""


def ingest(directory: Path, bootstrap_servers: str, password: str) -> tuple[int, str]:
    """Exit code and all that was printed, with every traceback."""
    (directory / "settings.yaml").write_text(SETTINGS)
    command = [
        sys.executable,
        "-m",
        "groupledger.jobs.cli.main",
        "--debug",
        "ingest",
        "--conf",
        str(directory / "settings.yaml"),
    ]
    answer = subprocess.run(
        [*command, "--warehouse", str(directory / "warehouse"), "--bootstrap-servers", bootstrap_servers],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAVA_TOOL_OPTIONS": SHORT_LIVED, "LEDGER_PASSWORD": password},
    )
    return answer.returncode, answer.stdout + answer.stderr


def test_the_password_opens_the_broker_and_is_seen_nowhere(
    tmp_path: Path, sasl_broker: LocalBroker, password: str
) -> None:
    """Goal: both clients log in; neither what is printed nor any file of the warehouse holds the password."""
    code, said = ingest(tmp_path, sasl_broker.bootstrap_servers, password)
    assert code == 0, said.replace(password, "(the password)")
    assert "1 records read" in said
    assert password not in said
    for path in (tmp_path / "warehouse").rglob("*"):
        assert path.is_dir() or password.encode() not in path.read_bytes()


def test_a_wrong_password(tmp_path: Path, sasl_broker: LocalBroker) -> None:
    """Goal: a login that is refused fails, and the wrong password is not printed either, not even in a traceback."""
    code, said = ingest(tmp_path, sasl_broker.bootstrap_servers, "a-wrong-password")
    assert code != 0
    assert "OutsideError: No broker answers" in said
    assert "a-wrong-password" not in said
