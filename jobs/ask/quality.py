"""`groupledger quality` checks with Great Expectations whether the tables hold what they promise, one suite per table.

The tables are read without Spark, and only read. In tables that are partitioned by date, the newest days of the cluster
are checked, since older dates don't change, or all days. DuckDB evaluates the rules as columns, and Great Expectations
checks pandas frames: a table with more than `quality.pandas_rows_max` rows is checked in several parts, each with all
rows of its groups, and the counts are added up. A table without rows is reported as not checked.

Results hold counts but no values, since values may be names that clients chose: `pipeline` keeps them in
`quality_results`, and Data Docs are a folder of HTML. The answer has the first keys of the rows that break an
expectation.

Great Expectations takes seconds to import; its telemetry is switched off before that.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from groupledger.jobs.ask.broken_keys import broken_keys, first_keys, key_text
from groupledger.jobs.ask.quality_suite import suite_of
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.output import print_answers
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.definitions import date_column_of, key_of, schema_of, table_names
from groupledger.schemas.instants import instant_of_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import date
    from pathlib import Path

    import pyarrow as pa

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.quality_suite import Suite
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.settings import QualitySettings

Result = dict[str, Any]
# Results have counts only, and no examples of wrong values.
RESULT_FORMAT = {"result_format": "BASIC", "partial_unexpected_count": 0}
ENGINE = "pandas"
CONNECT = "pyspark.sql.connect"
COLUMNS = ("table_name", "expectation", "unexpected_rows", "checked_rows", "broken_keys", "error", "description")


def check(
    tables: ClusterRows,
    settings: QualitySettings,
    say: Callable[[str], None],
    data_docs: Path | None = None,
    *,
    all_dates: bool = False,
) -> list[Result]:
    """Checks every existing table with Great Expectations: the newest days of a table that is partitioned by date, or
    all of them if `all_dates`. Returns the results, failures first; a table without rows to check has none. Writes Data
    Docs into `data_docs` if it is given, and reports by `say`."""
    tables.refuse_nothing()
    context = open_context(data_docs)
    checked_at = instant_of_ms(now_ms())
    when = {"cluster": tables.cluster, "checked_at": checked_at, "checked_date": checked_at.date()}
    found: list[Result] = []
    rows, empty = 0, []
    for table in sorted(filter(tables.exists, table_names())):
        suite = suite_of(table, tables.exists)
        filters = [] if all_dates else newest_days(tables, table, settings.recent_days)
        count = row_count(tables, table, filters)
        if not count:
            empty.append(table)
            continue
        rows += count
        parts = -(-count // settings.pandas_rows_max)
        read = enumerate(frames(tables, suite, filters, parts))
        results = [check_rows(context, suite, each, part) for part, each in read]
        found += [when | result for result in added_up(suite, results)]
    say(f"quality: {rows:,} rows of {len({result['table_name'] for result in found})} tables were looked at")
    if empty:
        say(f"quality: without rows, and so not checked: {', '.join(empty)}")
    if data_docs is not None:
        context.build_data_docs()
        say(f"the Data Docs are in {data_docs / 'index.html'}")
    return sorted(found, key=lambda result: bool(result["is_success"]))


def newest_days(tables: ClusterRows, table: str, days: int) -> list[Filter]:
    """Returns filters for the last `days` days up to the newest date of the cluster's rows; no filters for a table that
    is not partitioned by date."""
    name, files = date_column_of(table), tables.files(table)
    if name is None or f"partition.{name}" not in files.column_names:
        return []
    dates: set[date] = {*files[f"partition.{name}"].to_pylist()} - {None}
    for newest in sorted(dates, reverse=True):
        if row_count(tables, table, [(name, "=", newest)]):
            return [(name, ">", newest - timedelta(days=days))]
    return []


def row_count(tables: ClusterRows, table: str, filters: list[Filter]) -> int:
    return sum(batch.num_rows for batch in tables.scan(table, *filters, columns=("cluster",)))


def frames(tables: ClusterRows, suite: Suite, filters: list[Filter], parts: int) -> Iterator[pa.Table]:
    """Yields the table of a suite in `parts` parts, with the columns that its expectations are about and a column for
    each rule. Rows that a rule compares with each other are in the same part."""
    text = rules_query(suite)
    for part in range(parts):
        others = {name: tables.scan(name) for name in suite.reads}
        rows = tables.scan(suite.table, *filters, columns=schema_of(suite.table).names)
        yield tables.arrow(text, {"parts": parts, "part": part}, checked=rows, **others)


def rules_query(suite: Suite) -> str:
    """Returns the query over one part of the table, named `checked`. It consists only of our own names and texts."""
    key = key_of(suite.table)
    together = ["group_id"] if "group_id" in key else key
    chosen = [*(f'"{name}"' for name in suite.columns), *(f"({rule}) AS {name}" for name, rule in suite.rules.items())]
    place = ", ".join(f'"{name}"' for name in together)
    return f"SELECT {', '.join(chosen)} FROM checked WHERE hash({place}) % $parts = $part"  # noqa: S608


def open_context(data_docs: Path | None = None) -> Any:
    """Opens Great Expectations so that it sends no telemetry, shows no progress bars, and writes no files except Data
    Docs in `data_docs`."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    context: Any = import_great_expectations().get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    if data_docs is not None:
        store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(data_docs.resolve())}
        index = {"class_name": "DefaultSiteIndexBuilder"}
        site = {"class_name": "SiteBuilder", "site_index_builder": index, "store_backend": store}
        context.add_data_docs_site(site_name="quality", site_config=site)
    return context


def check_rows(context: Any, suite: Suite, rows: pa.Table, part: int = 0) -> list[Result]:
    """Returns the results of checking one part of a table, a result of `rules_query`. `broken_keys` of a result has the
    first keys of the rows that violate the expectation."""
    key = key_of(suite.table)
    results = validate(context, suite, in_memory(rows), part)
    asked = {each["meta"]["name"]: each for each in suite.expectations}
    for result in results:
        each = asked[result["expectation"]]
        can_be_named = not result["is_success"] and result["error"] is None
        result["broken_keys"] = broken_keys(rows, key, each["type"], each["kwargs"]) if can_be_named else []
    return results


def added_up(suite: Suite, parts: list[list[Result]]) -> Iterator[Result]:
    """Yields one result for each expectation of the suite, with the counts of all parts added up."""
    for same in zip(*parts, strict=True):
        errors = [result["error"] for result in same if result["error"] is not None]
        keys = first_keys(key for result in same for key in result["broken_keys"])
        counts = {name: [result[name] for result in same] for name in ("checked_rows", "unexpected_rows")}
        yield same[0] | {
            "is_success": all(result["is_success"] for result in same),
            **{name: None if errors else sum(each) for name, each in counts.items()},
            "error": errors[0] if errors else None,
            "broken_keys": [key_text(key_of(suite.table), key) for key in keys],
        }


def in_memory(rows: pa.Table) -> Any:
    """Returns the rows as a pandas frame. Integers stay integers even if some are null, since as doubles large offsets
    would become equal."""
    return rows.to_pandas(integer_object_nulls=True)


def validate(context: Any, suite: Suite, rows: Any, part: int) -> list[Result]:
    """Returns a result for each expectation of the suite, from checking the pandas frame of the part numbered
    `part`."""
    gx = import_great_expectations()

    table = suite.table
    name = f"{table}-{part}" if part else table
    batch = context.data_sources.add_pandas(name).add_dataframe_asset(table).add_batch_definition_whole_dataframe(table)
    expected = context.suites.add(gx.ExpectationSuite(name=name, expectations=list(suite.expectations)))
    definition = context.validation_definitions.add(gx.ValidationDefinition(name=name, data=batch, suite=expected))
    validated = definition.run(batch_parameters={"dataframe": rows}, result_format=RESULT_FORMAT)
    return [{"table_name": table, "engine": ENGINE, **result_of(each)} for each in validated.results]


def result_of(validated: Any) -> Result:
    """Returns one of Great Expectations' results as a row."""
    config, counts = validated.expectation_config, validated.result
    return {
        "expectation": config.meta["name"],
        "description": config.description,
        "is_success": bool(validated.success),
        "checked_rows": counts.get("element_count"),
        "unexpected_rows": counts.get("unexpected_count"),
        "error": None if "element_count" in counts else error_of(validated.exception_info),
    }


def error_of(info: dict[str, Any]) -> str:
    """Returns the error of an expectation that could not be checked, without the traceback."""
    found = info if "exception_message" in info else next(iter(info.values()), {})
    return printable(str(found.get("exception_message")).splitlines()[0])


def print_results(results: list[Result], *, as_json: bool) -> None:
    """Prints all results as JSON, or a table of the failures."""
    shown = [{name: value for name, value in result.items() if name != "checked_date"} for result in results]
    if not as_json:
        failed = (result for result in shown if not result["is_success"])
        shown = [result | {"broken_keys": ", ".join(result["broken_keys"])} for result in failed]
    print_answers(f"{len(shown):,} of {len(results):,} expectations did not hold", COLUMNS, shown, as_json=as_json)


def has_failed(results: list[Result]) -> bool:
    return not all(result["is_success"] for result in results)


def import_great_expectations() -> Any:
    """Returns the module of Great Expectations. It would import Spark Connect, and pyspark 4.2 then ends the process if
    a program has no file (`python -c`) and gRPC is missing; so Connect is hidden during the import."""
    absent = {} if CONNECT in sys.modules else {CONNECT: None}
    sys.modules.update(absent)  # type: ignore[arg-type]  # None is Python's own word for a module that is not there
    try:
        import great_expectations
    finally:
        for name in absent:
            del sys.modules[name]
    return great_expectations
