"""Decodes records again after an upgrade, if an older release could not decode them.

`_groupledger/<cluster>/codec.json` has the digest of the codec that last tried every quarantined record of the cluster
(`schemas.codec.digest`). If it is this release's digest, nothing is done. Otherwise Spark's tasks decode all
quarantined records again, and one Delta commit replaces the rows of those that can be decoded now. The other records
keep their rows and reasons.

Rules:
- The commit changes rows of one cluster only, and only rows that are quarantined; a row keeps its key and its ingest
  date. The commit has no batch number, so the numbers of the stream's batches stay as they are.
- A streaming reader of the table skips the commit (`skipChangeCommits`). The history has passed these offsets, and may
  have folded later rows, so a rebuild is requested. Incidents and the view of offset commits are computed from the
  table, and so include the rows without further work. Rounds of `lag` that are computed already stay as they are.
- A run that was killed is repeated by the next one. Before the commit the next run finds the same rows. After it, the
  next run finds no such rows, but requests the rebuild because the file says that decoding was under way.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F

from groupledger.jobs.warehouse.commits import as_new
from groupledger.jobs.warehouse.rebuilds import request_rebuild
from groupledger.jobs.warehouse.storage import STATE_FOLDER, read_parsed
from groupledger.jobs.warehouse.upsert import of_table
from groupledger.schemas.codec.digest import codec_digest
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.transforms.records.decode import DECODED, decode_again

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.storage import Storage


def decode_quarantined_again(ledger: Ledger) -> int:
    """Decodes quarantined records that this release's codec has not tried; returns how many of them it could decode."""
    digest = codec_digest()
    tried_by, was_cut_short = read_state(ledger.storage, ledger.cluster)
    if tried_by == digest and not was_cut_short:
        return 0
    decoded_count = decode_all_again(ledger, digest) if ledger.has_rows(COORDINATOR_RECORDS) else 0
    if decoded_count or was_cut_short:
        version = ledger.version(COORDINATOR_RECORDS)
        reason = "records that had been quarantined were decoded again"
        request_rebuild(ledger.storage, ledger.lease, reason, version)
    write_state(ledger.storage, ledger.cluster, digest)
    return decoded_count


def decode_all_again(ledger: Ledger, digest: str) -> int:
    """Decodes all quarantined records again; returns how many of them can be decoded now."""
    rows = ledger.rows(COORDINATOR_RECORDS)
    quarantined = rows.where("decode_error IS NOT NULL AND (raw_key IS NOT NULL OR raw_value IS NOT NULL)")
    dates = [row[0] for row in quarantined.select("ingest_date").distinct().collect()]
    return replace_decoded(ledger, quarantined, dates, digest) if dates else 0


def replace_decoded(ledger: Ledger, quarantined: DataFrame, dates: Sequence[date], digest: str) -> int:
    """Decodes the quarantined records again, and replaces in one commit the rows of those that can be decoded now;
    returns their number. `dates` are the ingest dates of the records."""
    again = decode_again(quarantined, ledger.settings.privacy.resolve()).persist(StorageLevel.DISK_ONLY)
    try:
        total, decoded_count = again.select(F.count(F.lit(1)), F.count_if(F.isnull("decode_error"))).collect()[0]
        ledger.say(f"decoding {total:,} quarantined records again: {decoded_count:,} are decoded now")
        if decoded_count:
            write_state(ledger.storage, ledger.cluster, digest, is_under_way=True)
            replace_rows(ledger, again.where("decode_error IS NULL"), dates)
    finally:
        again.unpersist()
    return int(decoded_count)


def replace_rows(ledger: Ledger, decoded: DataFrame, dates: Sequence[date]) -> None:
    """Replaces the rows of the decoded records, all in one commit: with only half of them replaced, the history would
    be one that never existed."""
    rows = decoded.withColumns({"cluster": F.lit(ledger.cluster), "ingest_date": F.lit(dates[0])}).toArrow()
    quoted = ", ".join(f"DATE '{each.isoformat()}'" for each in dates)
    ledger.commits.merge(
        COORDINATOR_RECORDS,
        of_table(rows, COORDINATOR_RECORDS),
        f"old.cluster = '{ledger.cluster}' AND old.ingest_date IN ({quoted}) AND old.decode_error IS NOT NULL",
        updates=as_new(name for name in DECODED.names if name not in COORDINATOR_RECORDS.key),
        inserts=False,
    )


def read_state(storage: Storage, cluster: str) -> tuple[str | None, bool]:
    """Returns the digest of the codec that last tried every record, and whether that run was killed around its commit.
    The digest is None before the first run."""
    remedy = "move it out of the warehouse, then run `groupledger ingest` and `groupledger history --rebuild`"
    return read_parsed(storage, _name(cluster), _parsed, remedy) or (None, False)


def _parsed(text: str) -> tuple[str, bool]:
    fields = json.loads(text)
    return fields["digest"], fields["is_under_way"]


def write_state(storage: Storage, cluster: str, digest: str, *, is_under_way: bool = False) -> None:
    storage.write(_name(cluster), json.dumps({"digest": digest, "is_under_way": is_under_way}))


def _name(cluster: str) -> str:
    return f"{STATE_FOLDER}/{cluster}/codec.json"
