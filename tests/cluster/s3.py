"""Starts the S3 server of the tests, and names it to both engines as a user would: by the environment."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".s3-server" / "bin" / "python"
BUCKET = "ledger"


@dataclass
class S3Server:
    """A context manager that runs the server; after it nothing of it is left."""

    address: str = ""

    def __enter__(self) -> Self:
        command = [str(PYTHON), str(Path(__file__).with_name("s3_server.py"))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.address = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        self._ask(f"/{BUCKET}", method="PUT")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "of nobody",
            "AWS_REGION": "eu-central-1",
        }

    def breaks(self, **what: object) -> None:
        """Sets what is broken from now on, and lets go what was held."""
        self._ask("/_control", json.dumps(what).encode())

    def held(self) -> int:
        """Returns how many requests were held so far."""
        return int(json.loads(self._ask("/_control"))["held"])

    def _ask(self, path: str, body: bytes | None = None, method: str | None = None) -> bytes:
        request = urllib.request.Request(f"{self.address}{path}", body, method=method)  # noqa: S310 - our own
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - as above
            found: bytes = answer.read()
        return found
