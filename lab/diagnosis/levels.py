"""Makes a warehouse for each level of evidence from one run of plays, and asks each warehouse for the diagnosis of
every group.

all       the topic, the samples, the request log and the server log
no-logs   the topic and the samples
topic     the topic alone
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.why import why
from groupledger.jobs.process.errors import InputError
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.kinds.causes import CAUSE_NAMED
from groupledger.schemas.kinds.causes.cause import Fault
from groupledger.schemas.words import Severity, words_of
from lab.diagnosis.judge import Said

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ALL, NO_LOGS, TOPIC = "all", "no-logs", "topic"
LEVELS = (ALL, NO_LOGS, TOPIC)
CLUSTER = "played"
# What the plays do in minutes takes hours elsewhere: the same rules, with shorter times.
SETTINGS = """
cluster: played
history: {consumer_session_timeout_s: 10}
incidents:
  commit_gap_s: 30
  stalled_transaction_s: 60
  stuck_rebalance_s: 30
  stuck_reconciliation_s: 30
lag: {standstill_s: 40, window_s: 120}
"""


def make_warehouses(folder: Path) -> None:
    conf = folder / "settings.yaml"
    conf.write_text(SETTINGS)
    for level in LEVELS:
        options = ["--warehouse", str(folder / level), "--conf", str(conf)]
        if level == ALL:
            kafka = folder / "kafka"
            logs = ["--request-log", str(kafka / "kafka-request.log"), "--server-log", str(kafka / "server.log")]
            _run("import-logs", *options, *logs)
        samples = [] if level == TOPIC else ["--samples", str(folder / "samples")]
        _run("pipeline", *options, "--capture", str(folder / "capture"), *samples)


def _run(*command: str) -> None:
    done = subprocess.run([sys.executable, "-m", "groupledger.jobs.cli.main", *command], check=False)
    assert done.returncode in (0, 1), done  # 1: the quality checks found something


def answer(warehouse: Path, group_id: str, since_ms: int) -> Mapping[str, Any] | None:
    """Returns the ledger's verdict (the answer of `why`) about a group since the play began, or None if the ledger does
    not know the group."""
    try:
        return why(ClusterRows(str(warehouse), CLUSTER), group_id, instant_of_ms(since_ms), None)[1]
    except InputError:
        return None


def _milder(severity: str, cause: str) -> str:
    """Returns the severity of a cause that accompanies a graver one: normal operation stays normal operation."""
    return min(severity, CAUSE_NAMED[cause].severity, key=words_of(Severity).index)


def said(verdict: Mapping[str, Any] | None) -> list[Said]:
    """Returns the diagnoses in a verdict for the judge: each claimed cause with those beside it, or the rivals of an
    unproved one. A client counts as blamed only if the cause is a client's fault or nobody knows whose."""
    found = []
    for each in () if verdict is None else verdict["diagnosis"]:
        is_blamed = each["fault"] in (None, Fault.CLIENT) and each["client_id"] is not None
        who = (each["client_id"],) if is_blamed else ()
        if each["cause"] is None:
            rivals = tuple(rival["cause"] for rival in each["rivals"])
            found.append(Said(rivals, who, each["severity"], is_proved=False))
        else:
            found.append(Said((each["cause"],), who, each["severity"]))
            found += [Said((cause,), (), _milder(each["severity"], cause)) for cause in each["beside"]]
    return found
