"""Goal: a new value version of an offset commit touches one file of the product, `schemas/wire/offset_commit.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from groupledger.schemas.codec.digest import codec_digest
from lab.warehouses.later_release import LATEST, make_release

ROOT = Path(__file__).parents[3]
LAST_FIELD = '    Field("topicId", Primitive.UUID, since(4), tag=0),\n'
# Prints what both ways of decoding make of commits of all versions, and which of them the fast path takes.
PROGRAM = """
import json
from groupledger.schemas.codec.digest import codec_digest
from groupledger.schemas.codec.records import Record, encode_record
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.transforms.records.decode import DECODED, decode_batch, general_batches
from groupledger.transforms.records.decode_offset_commits import decode_offset_commits
from groupledger.transforms.records.decoded_record import record_of_row
from lab.warehouses.rows import batch_of, offset_commit

records = []
for version in range(6):
    for added in ({}, {"new_field": NEW_VALUE}) if version == 5 else ({},):
        for type in ("offset_commit", "legacy_offset_commit"):
            records.append(offset_commit(version, type, metadata="m", **({"new_field": DEFAULT} | added)))
records.append((records[0][0], None))
batch = batch_of(records)
table, of_codec = (
    sorted((row for part in way(batch) for row in part.to_pylist()), key=lambda row: row["kafka_offset"])
    for way in (decode_batch, general_batches)
)
assert table == of_codec
assert [encode_record(record_of_row(row)) for row in table] == records
# What an older release wrote has null there, once the table has the column.
written_before = [row | {"offset_commit": row["offset_commit"] | {"new_field": None}} for row in table[:10]]
assert [encode_record(record_of_row(row)) for row in written_before] == records[:10]
taken = decode_offset_commits(batch.column("key"), batch.column("value")).rows.tolist()
struct = COORDINATOR_RECORDS.schema["offset_commit"].dataType.names
assert [field.name for field in DECODED.field("offset_commit").type] == struct
print(json.dumps({
    "digest": codec_digest(),
    "values": [(row["value_version"], row["offset_commit"]["new_field"]) for row in table[::2]],
    "not taken": [table[index]["value_version"] for index in range(len(table)) if index not in taken],
}))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "default", "value", "not_taken"),
    [
        ('Field("newField", Primitive.INT64, since(5), default=-7)', -7, 12, []),
        ('Field("newField", Primitive.INT32, since(5), tag=1, default=-7)', -7, 12, [5, 5]),
        ('Field("newField", Primitive.STRING, since(5), nullable=since(5), default=None)', None, "é", [5] * 4),
        ('Field("newField", Array(Primitive.INT32), since(5), tag=1)', [], [1, 2], [5, 5]),
    ],
    ids=["plain integer", "tagged integer", "nullable string", "tagged array"],
)
def test_one_file(tmp_path: Path, field: str, default: object, value: object, not_taken: list[int]) -> None:
    """Goal: a version 5 with one more field is decoded into the table's columns, on the fast path where its fields are
    integers; all older versions stay on that path, with the field's default."""
    make_release(tmp_path, {"offset_commit.py": LATEST})
    path = tmp_path / "groupledger" / "schemas" / "wire" / "offset_commit.py"
    text = path.read_text()
    assert LAST_FIELD in text
    text = text.replace(LAST_FIELD, f"{LAST_FIELD}    {field},\n").replace("import Field", "import Array, Field")
    path.write_text(text)
    program = PROGRAM.replace("DEFAULT", repr(default)).replace("NEW_VALUE", repr(value))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    versions = [[version, default] for version in range(6)]
    assert found["values"] == [*versions, [5, value], [None, None]]
    assert found["not taken"] == not_taken
    assert found["digest"] != codec_digest()
