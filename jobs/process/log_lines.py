"""Writes log lines, for commands that run unattended: `monitor`, `pipeline`, `serve` and `mcp`.

All progress goes to the logger `groupledger`. An interactive command prints each message as it is. These four commands
call `log_lines` first. Then each line has the time, the level and the cluster, as text or as a JSON object (`logging`
in the settings), so that a log collector can filter the lines.

Names come from clients: control characters of a message are escaped, so that no name can start a second line.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from groupledger.jobs.process.output import LOG, show
from groupledger.jobs.process.terminal import escaped
from groupledger.transforms.coverage.rules.coverage_at import iso

if TYPE_CHECKING:
    from groupledger.jobs.process.settings import LoggingSettings


class LogLines(logging.Handler):
    """Writes a line for each log record to standard error. `cluster` is shown for records that name no cluster."""

    def __init__(self, *, as_json: bool, cluster: str | None) -> None:
        super().__init__()
        self._as_json = as_json
        self._cluster = cluster

    def emit(self, record: logging.LogRecord) -> None:
        fields = {
            "time": iso(datetime.fromtimestamp(record.created, timezone.utc)),
            "level": record.levelname,
            "cluster": getattr(record, "cluster", self._cluster),
            "message": record.getMessage(),
        }
        if self._as_json:
            show(json.dumps(fields, separators=(",", ":")))
        else:
            show(" ".join(escaped(each) for each in fields.values() if each is not None))


def log_lines(settings: LoggingSettings, cluster: str | None = None) -> None:
    """Makes the logger `groupledger` write each message as a line of a log from now on. `cluster` is shown for messages
    that name no cluster."""
    LOG.handlers = [LogLines(as_json=settings.format == "json", cluster=cluster)]
    LOG.setLevel(settings.level.upper())
