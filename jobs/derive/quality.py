"""`groupledger quality` checks with Great Expectations whether the tables hold what they promise, one suite per table.

A suite is made from `conf/quality/TABLE.yaml` and the table's schema, by which its key is unique and without nulls, and
open rows lie in a partition of their own. `rules` are conditions in Spark SQL, which become columns that must be true;
`expectations` are those of Great Expectations. A `value_set` is a list, or names the words that a column may have: a
class of `schemas.words`, or the rows of `schemas.kinds`.

A table of up to `quality.pandas_rows_max` rows is checked in this process with pandas (0.2 s), a larger one by Spark in
several passes. Of tables that are partitioned by date the newest days that they have are checked, since older dates
don't change, or all of them. A table without rows is not checked.

Results go to `quality_results`, and on request to Data Docs, a folder of HTML. Both hold counts but no values, since
values may be names that clients chose. Who asks is told the first keys of the rows that break an expectation.

Great Expectations takes seconds to import; its telemetry is switched off before that.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from importlib import resources
from typing import TYPE_CHECKING, Any

import yaml
from pyspark.sql import functions as F

from groupledger.jobs.derive.broken_keys import broken_keys
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.output import print_answers
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.warehouse.upsert import of_rows
from groupledger.schemas import words
from groupledger.schemas.kinds.incidents import INCIDENT_KINDS
from groupledger.schemas.kinds.triggers import TRIGGERS
from groupledger.schemas.tables.all_tables import all_tables, date_column
from groupledger.schemas.tables.quality_results import QUALITY_RESULTS
from groupledger.schemas.tables.table import IS_OPEN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

    from groupledger.jobs.process.settings import QualitySettings
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table

Result = dict[str, Any]
# The names that a value set can have beside those of the classes in `schemas.words`.
KINDS = {
    "INCIDENT_KINDS": [kind.name for kind in INCIDENT_KINDS],
    "TRIGGERS": [trigger.name for trigger in TRIGGERS],
}
# Results have counts only, and no examples of wrong values.
RESULT_FORMAT = {"result_format": "BASIC", "partial_unexpected_count": 0}
COLUMNS = ("table_name", "expectation", "unexpected_rows", "checked_rows", "broken_keys", "error", "description")


@dataclass(frozen=True, slots=True)
class Suite:
    """The expectations of a table. `rules` are conditions in Spark SQL by the name of the column that each becomes;
    `expectations` have the form of Great Expectations, with a name in `meta`."""

    rules: dict[str, str]
    expectations: tuple[dict[str, Any], ...]

    def columns(self, table: Table) -> list[str]:
        """Returns the table's columns that an expectation is about."""
        named = {name for each in self.expectations for name in _columns_of(each["kwargs"])}
        return [name for name in table.schema.names if name in named]


def suite_of(table: Table) -> Suite:
    file = resources.files("groupledger.conf") / "quality" / f"{table.name}.yaml"
    written = yaml.safe_load(file.read_text()) if file.is_file() else {}
    rules = {f"rule_{name}": rule["holds"] for name, rule in written.get("rules", {}).items()}
    if table.end_column is not None:
        rules[f"rule_{IS_OPEN.name}"] = f"({IS_OPEN.name} = 1) = ({table.end_column} IS NULL)"
    why = {f"rule_{name}": rule["why"] for name, rule in written.get("rules", {}).items()}
    about_rules = [
        expectation(
            "expect_column_values_to_be_in_set",
            {"column": name, "value_set": [True]},
            f"{why.get(name, 'is_open is 1 for the rows that nothing has ended, and 0 for all others.')} ({text})",
            name.removeprefix("rule_"),
        )
        for name, text in rules.items()
    ]
    others = written.get("expectations", [])
    by_file = [expectation(each["type"], with_words(each["kwargs"]), each["description"]) for each in others]
    return Suite(rules, (*by_schema(table), *about_rules, *by_file))


def with_words(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of an expectation, with the name of a value set replaced by its words."""
    name = arguments.get("value_set")
    if not isinstance(name, str):
        return arguments
    found = KINDS[name] if name in KINDS else list(words.words_of(getattr(words, name)))
    return {**arguments, "value_set": found}


def by_schema(table: Table) -> Iterator[dict[str, Any]]:
    key = list(table.key)
    yield expectation("expect_compound_columns_to_be_unique", {"column_list": key}, "No two rows have the same key.")
    for name in key:
        yield expectation("expect_column_values_to_not_be_null", {"column": name}, "No part of the key is null.")


def expectation(kind: str, arguments: dict[str, Any], description: str, name: str | None = None) -> dict[str, Any]:
    name = name or f"{kind.removeprefix('expect_')}({', '.join(_columns_of(arguments))})"
    return {"type": kind, "kwargs": arguments, "description": description, "meta": {"name": name}}


def _columns_of(arguments: dict[str, Any]) -> list[str]:
    return arguments.get("column_list") or [arguments["column"]]


def check(
    ledger: Ledger, settings: QualitySettings, data_docs: Path | None = None, *, all_dates: bool = False
) -> list[Result]:
    """Checks every table that is there and writes the results to `quality_results`. Returns them; failures come
    first. A table without rows has no results: nothing was checked, and that is said."""
    context = open_context(data_docs)
    checked_at = datetime.fromtimestamp(now_ms() / 1_000, timezone.utc)
    found: list[Result] = []
    empty = []
    for table in all_tables():
        if ledger.exists(table):
            rows = rows_to_check(ledger, table, None if all_dates else settings.recent_days)
            of_table = check_rows(context, table, rows, settings.pandas_rows_max)
            found += of_table
            if not of_table:
                empty.append(table.name)
    rows_of = {result["table_name"]: result["checked_rows"] or 0 for result in found}
    ledger.say(f"quality: {sum(rows_of.values()):,} rows of {len(rows_of)} tables were looked at")
    if empty:
        ledger.say(f"quality: without rows, and so not checked: {', '.join(empty)}")
    results = [
        {"cluster": ledger.cluster, "checked_at": checked_at, "checked_date": checked_at.date(), **result}
        for result in found
    ]
    if data_docs is not None:
        context.build_data_docs()
        ledger.say(f"the Data Docs are in {data_docs / 'index.html'}")
    write_results(ledger, results)
    return sorted(results, key=lambda result: bool(result["is_success"]))


def rows_to_check(ledger: Ledger, table: Table, recent_days: int | None) -> DataFrame:
    """Returns the cluster's rows with their rules as columns; of a table that is partitioned by date, those of the
    newest days that it has, unless all are asked for."""
    rows, date = ledger.rows(table), date_column(table)
    if date is not None and recent_days is not None:
        newest = rows.agg(F.max(date)).collect()[0][0]
        if newest is not None:
            rows = rows.where(F.col(date) > F.lit(newest - timedelta(days=recent_days)))
    return with_rules(rows, table, suite_of(table))


def with_rules(rows: DataFrame, table: Table, suite: Suite) -> DataFrame:
    return rows.select(*suite.columns(table), *(F.expr(text).alias(name) for name, text in suite.rules.items()))


def open_context(data_docs: Path | None = None) -> Any:
    """Opens Great Expectations so that it writes no files, sends no telemetry and shows no progress bars."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations

    context: Any = great_expectations.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    if data_docs is not None:
        store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(data_docs.resolve())}
        index = {"class_name": "DefaultSiteIndexBuilder"}
        site = {"class_name": "SiteBuilder", "site_index_builder": index, "store_backend": store}
        context.add_data_docs_site(site_name="quality", site_config=site)
    return context


def check_rows(context: Any, table: Table, rows: DataFrame, pandas_rows_max: int) -> list[Result]:
    """Checks rows of `with_rules`. Returns no results where there are no rows."""
    rows = rows.persist()
    try:
        count = rows.count()
        if not count:
            return []
        is_large = count > pandas_rows_max
        results = validate(context, table, rows if is_large else in_memory(rows), "spark" if is_large else "pandas")
        asked = {each["meta"]["name"]: each for each in suite_of(table).expectations}
        for result in results:
            kind, arguments = (asked[result["expectation"]][name] for name in ("type", "kwargs"))
            can_be_named = not result["is_success"] and result["error"] is None
            result["broken_keys"] = broken_keys(rows, table, kind, arguments) if can_be_named else []
        return results
    finally:
        rows.unpersist()


def in_memory(rows: DataFrame) -> Any:
    """Returns the rows for pandas. Integers stay integers where some are null, since as doubles large offsets would
    become equal."""
    return rows.toArrow().to_pandas(integer_object_nulls=True)


def validate(context: Any, table: Table, rows: Any, engine: str) -> list[Result]:
    """Checks the rows of a frame with its engine: pandas or spark."""
    import great_expectations as gx

    sources = context.data_sources
    source = sources.add_pandas(table.name) if engine == "pandas" else sources.add_spark(table.name, persist=False)
    batch = source.add_dataframe_asset(table.name).add_batch_definition_whole_dataframe(table.name)
    suite = context.suites.add(gx.ExpectationSuite(name=table.name, expectations=list(suite_of(table).expectations)))
    definition = gx.ValidationDefinition(name=table.name, data=batch, suite=suite)
    definition = context.validation_definitions.add(definition)
    validated = definition.run(batch_parameters={"dataframe": rows}, result_format=RESULT_FORMAT)
    return [{"table_name": table.name, "engine": engine, **result_of(each)} for each in validated.results]


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
    """Returns the error of an expectation that could not be checked, without the trace."""
    found = info if "exception_message" in info else next(iter(info.values()), {})
    return printable(str(found.get("exception_message")).splitlines()[0])


def write_results(ledger: Ledger, results: list[Result]) -> None:
    ledger.create(QUALITY_RESULTS)
    names = QUALITY_RESULTS.schema.names
    rows = [tuple(result[name] for name in names) for result in results]
    ledger.commits.append(QUALITY_RESULTS, of_rows(rows, QUALITY_RESULTS))


def print_results(results: list[Result], *, as_json: bool) -> None:
    """Prints all results as JSON, or a table of the failures."""
    shown = [{name: value for name, value in result.items() if name != "checked_date"} for result in results]
    if not as_json:
        failed = (result for result in shown if not result["is_success"])
        shown = [result | {"broken_keys": ", ".join(result["broken_keys"])} for result in failed]
    print_answers(f"{len(shown):,} of {len(results):,} expectations did not hold", COLUMNS, shown, as_json=as_json)


def has_failed(results: list[Result]) -> bool:
    return not all(result["is_success"] for result in results)
