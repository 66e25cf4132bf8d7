"""Ships the demo's tables in the package: with them `serve --demo` shows a page at once, without Java, and `demo
--packed` writes a warehouse.

`make demo-data` runs the demo, and packs its tables into one file of the repository: each table as Parquet, and the
instant at which the simulated day ended. The file is checked in. If it were made with each wheel, every build would
need Spark and some minutes, and an installation from a checkout would have no pages. The file is made again when newer
tables would show more; until then its tables are read like those of any older warehouse.

Unpacking moves all instants so that the day ends now, except those within the text of a record. Tables that no question
needs are left out.
"""

from __future__ import annotations

import io
import json
import zipfile
from datetime import datetime, timedelta, timezone
from importlib import resources
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import write_deltalake

from groupledger.jobs.ask.snapshots import Snapshots
from groupledger.schemas.words import StatsWindow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = "shipped.zip"
ABOUT = "about.json"
LEFT_OUT = frozenset({"requests", "open_groups", "log_files"})
DATES = {"sample_date": "sampled_at", "logged_date": "logged_at"}
"""By date column, the column of the instant from which the date is computed."""
INSTANTS_MS = ("_at_ms", "timestamp_ms")
LEVEL = 19
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def pack(warehouse: str, ended_at: datetime, file: Path) -> None:
    """Writes the tables of a warehouse, except `LEFT_OUT` and empty ones, into one file."""
    snapshots = Snapshots(warehouse)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_entry(ABOUT), json.dumps({"ended_at": ended_at.isoformat()}))
        for name in sorted(snapshots.existing - LEFT_OUT):
            rows = snapshots.rows(name).read_all()
            if rows.num_rows:
                partitions = snapshots.open(name).metadata().partition_columns
                described = rows.replace_schema_metadata({"partition_columns": json.dumps(partitions)})
                archive.writestr(_entry(f"{name}.parquet"), _parquet(described))


def unpack(directory: Path, now: datetime) -> None:
    """Writes the packed tables as a warehouse into `directory`. The simulated day ends at `now`."""
    with zipfile.ZipFile(io.BytesIO(resources.files(__package__).joinpath(FILE).read_bytes())) as archive:
        ended_at = datetime.fromisoformat(json.loads(archive.read(ABOUT))["ended_at"])
        for name in archive.namelist():
            if name == ABOUT:
                continue
            rows = pq.read_table(io.BytesIO(archive.read(name)))
            partitions = json.loads(rows.schema.metadata[b"partition_columns"])
            moved = moved_by(rows.replace_schema_metadata(None), now - ended_at)
            write_deltalake(directory / name.removesuffix(".parquet"), moved, partition_by=partitions or None)


def ends_now() -> datetime:
    return datetime.now(timezone.utc).replace(second=0, microsecond=0)


def _entry(name: str) -> zipfile.ZipInfo:
    """Returns an entry without the time of its making: the same tables give the same file."""
    return zipfile.ZipInfo(name)


def _parquet(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="zstd", compression_level=LEVEL)
    return sink.getvalue()


def moved_by(rows: pa.Table, by: timedelta) -> pa.Table:
    """Returns the rows with every instant moved by `by`. Dates are recomputed from their instants. Starts of windows
    are moved by whole hours or days, so that a window still begins on the hour or on the day."""
    columns = {name: _moved(rows.column(name).combine_chunks(), name, by) for name in rows.column_names}
    for date, instant in DATES.items():
        if date in columns:
            columns[date] = columns[instant].cast(pa.date32())
    if "window_start" in columns:
        starts = rows.column("window_start").combine_chunks()
        is_day = pc.equal(columns["window"], StatsWindow.DAY)
        moved = [_moved(starts, "window_start", by - by % length) for length in (DAY, HOUR)]
        columns["window_start"] = pc.if_else(is_day, *moved)
    return pa.table(columns, schema=rows.schema)


def _moved(values: pa.Array, name: str, by: timedelta) -> pa.Array:
    kind = values.type
    if pa.types.is_timestamp(kind):
        return pc.add(values, pa.scalar(by, pa.duration(kind.unit)))
    if pa.types.is_integer(kind) and name.endswith(INSTANTS_MS):
        moved = pc.add(values, pa.scalar(by // timedelta(milliseconds=1), kind))
        return pc.if_else(pc.less(values, 0), values, moved)  # -1 is no time, as of an offset without an own expiry
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(list(_fields(values, by)), fields=list(kind), mask=pc.is_null(values))
    if pa.types.is_list(kind):
        inner = _moved(values.values, kind.value_field.name, by)
        return pa.ListArray.from_arrays(values.offsets, inner, type=kind, mask=pc.is_null(values))
    return values


def _fields(values: Any, by: timedelta) -> Iterator[pa.Array]:
    for number, field in enumerate(values.type):
        yield _moved(values.field(number), field.name, by)
