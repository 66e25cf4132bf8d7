"""Goal: a query that others have written ends in time, within its memory, and when its asker goes, whatever it does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from groupledger.jobs.ask.query_client import QueryError, ask, failure
from groupledger.jobs.process.errors import InputError, OutsideError

if TYPE_CHECKING:
    from collections.abc import Callable

ENOUGH_S = 120.0

# Queries that DuckDB does not end when it is interrupted; the last two it does end.
DOUBLED = "".join(f", a{i} AS (FROM a{i - 1} UNION ALL FROM a{i - 1})" for i in range(1, 30))
NO_END = {
    "one call": "SELECT levenshtein(repeat('a', 3000000), repeat('b', 3000000))",
    "a plan that doubles": f"WITH a0 AS (VALUES (1)){DOUBLED} FROM a29",
    "joins of many tables": "FROM " + ",".join(f"groups g{i}" for i in range(60)),
    "rows": "SELECT count(*) FROM range(100000000000000)",
    "recursion": "WITH RECURSIVE a AS (SELECT 1 AS i UNION ALL SELECT i FROM a) SELECT count(*) FROM a",
}
ALL_MEMORY = [
    "SELECT list(range) FROM range(100000000000)",
    "SELECT length(repeat('x', 4000000000))",
    "WITH RECURSIVE a AS (SELECT 'x' AS s UNION ALL SELECT s || s FROM a) SELECT max(length(s)) FROM a",
    "SELECT * FROM range(100000000) ORDER BY hash(range)",
]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("warehouse")
    write_deltalake(str(folder / "groups"), pa.table({"group_id": ["a", "b"]}))
    return folder


def test_answers(warehouse: Path) -> None:
    """Goal: values, types, parameters and limits come back as DuckDB gave them, and so does an answer without rows."""
    text = "SELECT group_id, sum(range) AS lag, :p AS p, TIMESTAMP '2026-01-01' AS at FROM groups, range(3) GROUP BY 1"
    found = ask(str(warehouse), text, {"p": "'; \x00"}, timeout_s=ENOUGH_S)
    assert {(row["group_id"], row["lag"], row["p"]) for row in found.to_pylist()} == {
        ("a", 3, "'; \x00"),
        ("b", 3, "'; \x00"),
    }
    assert (found.schema.field("lag").type, found.schema.field("at").type) == (pa.int64(), pa.timestamp("us", "UTC"))
    none = ask(str(warehouse), "SELECT group_id FROM groups WHERE false", {}, timeout_s=ENOUGH_S)
    assert (none.num_rows, none.column_names) == (0, ["group_id"])
    endless = ask(str(warehouse), "SELECT range AS a FROM range(1e14::BIGINT)", {}, rows_max=70_001, timeout_s=ENOUGH_S)
    assert endless["a"].to_pylist() == [*range(70_001)]


def test_a_query_that_takes_long(warehouse: Path) -> None:
    """Goal: the progress bar that DuckDB prints for a query of more than two seconds is no part of the answer."""
    found = ask(str(warehouse), "SELECT sleep_ms(2500) AS slept", {}, timeout_s=ENOUGH_S)
    assert found.num_rows == 1


@pytest.mark.parametrize("text", NO_END.values(), ids=NO_END.keys())
def test_no_end(warehouse: Path, text: str) -> None:
    """Goal: a query that DuckDB can't interrupt is ended, too, with the same error."""
    with pytest.raises(InputError, match=r"took longer than 0.5 s: ask for less, or give --timeout"):
        ask(str(warehouse), text, {}, timeout_s=0.5)


@pytest.mark.parametrize("text", ALL_MEMORY)
def test_all_memory(warehouse: Path, text: str) -> None:
    """Goal: a query that would take all memory is refused, whether DuckDB counts the bytes or only the system does."""
    with pytest.raises(InputError, match=r"needs more than 0.25 GiB of memory: ask for fewer rows"):
        ask(str(warehouse), text, {}, timeout_s=ENOUGH_S, memory_max_bytes=1 << 28)


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("SELECT nothing FROM groups", InputError, 'Referenced column "nothing" not found'),
        ("SELECT CASE WHEN range < 60000 THEN 1 ELSE error('late') END FROM range(70000)", InputError, "late"),
        ("SELECT '\udcff'", InputError, "have to be UTF-8"),
        ("SELECT * FROM damaged", OutsideError, "can't be read"),
    ],
)
def test_errors(warehouse: Path, text: str, kind: type[Exception], sentence: str) -> None:
    """Goal: an error of a query comes back with its class, whichever row causes it."""
    if "damaged" in text:
        text = "SELECT * FROM incidents"
        write_deltalake(str(warehouse / "incidents"), pa.table({"group_id": ["a"]}))
        for file in (warehouse / "incidents").glob("*.parquet"):
            file.write_bytes(b"nothing")
    with pytest.raises(kind, match=sentence):
        ask(str(warehouse), text, {}, timeout_s=ENOUGH_S)


@pytest.mark.parametrize(
    ("failed", "code", "kind", "sentence"),
    [
        (None, -signal.SIGSEGV, InputError, "broke down over the query .SIGSEGV."),
        (None, -signal.SIGKILL, OutsideError, "memory was short"),
        (None, 1, OutsideError, "could not begin .exit code 1."),
        ({"kind": "KeyError", "text": "Traceback"}, 0, QueryError, "Traceback"),
    ],
)
def test_ways_to_end(failed: dict[str, str] | None, code: int, kind: type[Exception], sentence: str) -> None:
    """Goal: however the process ended, there is a sentence; a fault of ours stays one, with its traceback."""
    with pytest.raises(kind, match=sentence):
        raise failure(failed, code, 1.0)


@pytest.mark.parametrize("to_group", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals(warehouse: Path, number: signal.Signals, to_group: bool) -> None:
    """Goal: a signal ends the command and its query at once, in whatever the query is; also one to both of them, as a
    terminal sends it, whose end is reported as the command's own."""
    with asking(warehouse) as (command, query):
        os.killpg(command.pid, number) if to_group else command.send_signal(number)
        assert command.wait(ENOUGH_S) == 128 + number
        until(lambda: not is_alive(query))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with the one that started it")
def test_killed(warehouse: Path) -> None:
    """Goal: nothing of a query is left where the command was killed."""
    with asking(warehouse) as (command, query):
        command.kill()
        until(lambda: not is_alive(query))


class asking:  # noqa: N801 - a context manager
    """Runs the command with a query that has no end; gives it, and the number of the query's process."""

    def __init__(self, warehouse: Path) -> None:
        program = "from groupledger.jobs.cli.script import run; run()"
        arguments = ["sql", "--warehouse", str(warehouse), "--timeout", str(ENOUGH_S), NO_END["one call"]]
        words = [sys.executable, "-c", program, *arguments]
        self._command = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)

    def __enter__(self) -> tuple[subprocess.Popen[bytes], int]:
        until(lambda: any(cpu_s(child) > 1 for child in children(self._command.pid)))
        (query,) = children(self._command.pid)
        return self._command, query

    def __exit__(self, *_: object) -> None:
        self._command.kill()
        self._command.wait()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def cpu_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11]) / os.sysconf("SC_CLK_TCK")


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def until(holds: Callable[[], bool]) -> None:
    ends_s = time.monotonic() + ENOUGH_S
    while not holds():
        assert time.monotonic() < ends_s
        time.sleep(0.05)
