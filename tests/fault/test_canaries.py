"""Goal: secrets and addresses of clients are in nothing that a run leaves and shows."""

from __future__ import annotations

import base64
import secrets
from typing import TYPE_CHECKING

from tests.fault.canaries import Canaries, look_at_a_life, set_places

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from lab.kafka.local_broker import LocalBroker


def test_the_canaries_are_noticed(tmp_path: Path) -> None:
    """Goal: the look itself works: plain, within base64 at any place, in a file and in a compressed column."""
    canaries = Canaries({"secret": "a-secret-of-some-length"})
    for prefix in ("", "x", "xy"):
        canaries.look(prefix, base64.b64encode(f"{prefix}a-secret-of-some-length!".encode()))
    (tmp_path / "file").write_text("the a-secret-of-some-length.")
    canaries.look_into(tmp_path)
    canaries.look("nothing", "a-secret-of-another-length")
    assert [each.rsplit("/", 1)[-1] for each in canaries.found] == ["secret in ", "secret in x", "secret in xy", "file"]


def test_no_secret_and_no_address_is_found(
    tmp_path: Path, sasl_broker: LocalBroker, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: the process list, metrics, messages, pages, answers, words and files, be they temporary, hold none of them.
    An object store's keys, which its clients find in the environment by their own rule, are in it."""
    store = {name: secrets.token_hex(16) for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")}
    set_places(tmp_path, monkeypatch, **store)
    warehouse = tmp_path / "warehouse"
    canaries = look_at_a_life(tmp_path, warehouse, sasl_broker.bootstrap_servers, password, store)
    canaries.look_into(warehouse)
    assert canaries.found == []
