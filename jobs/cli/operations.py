"""The commands that keep a warehouse in order."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.options import (
    AS_JSON,
    CLUSTER,
    CONF,
    WAREHOUSE,
    check_logs,
    on_warehouse,
    places_of,
    settings_of,
)
from groupledger.jobs.process.output import print_answers, say

if TYPE_CHECKING:
    from groupledger.jobs.cli.options import Job
    from groupledger.jobs.warehouse.ledger import Ledger


@click.command()
@WAREHOUSE
@CONF
@AS_JSON
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Show what would be done, and change nothing.")
def maintain(*, warehouse: str, conf: Path | None, as_json: bool, is_dry_run: bool) -> bool:
    """Compact small files, apply retention, and delete files that no table refers to.

    Clusters that another process is writing are left out. Exit code 1 if something could not be done."""
    settings = settings_of(conf)
    from groupledger.jobs.process.session import spark_session
    from groupledger.jobs.warehouse.maintain import maintain as run

    spark = spark_session("groupledger maintain")
    steps = run(spark, warehouse, settings, datetime.now(timezone.utc), is_dry_run=is_dry_run, say=say)
    columns = ("cluster", "table", "action", "outcome")
    answers = [{name: getattr(step, name) for name in columns} for step in steps]
    print_answers("Maintenance", columns, answers, as_json=as_json)
    return any(step.is_finding for step in steps)


@click.command()
@on_warehouse
@AS_JSON
@click.option(
    "--data-docs", type=click.Path(path_type=Path), metavar="DIR", help="Also write Great Expectations' HTML pages."
)
@click.option("--all", "all_dates", is_flag=True, help="All dates, not only the newest of each table.")
def quality(job: Job, *, as_json: bool, data_docs: Path | None, all_dates: bool) -> bool:
    """Check the expectations on the tables, with Great Expectations; exit code 1 if one does not hold."""
    tables = job.rows()
    from groupledger.jobs.ask.quality import check, has_failed, print_results

    results = check(tables, job.settings.quality, say, data_docs, all_dates=all_dates)
    print_results(results, as_json=as_json)
    return has_failed(results)


def check_quality(ledger: Ledger) -> bool:
    """Checks the tables after a pipeline's pass, and stores the results. Returns whether a check failed."""
    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.quality import check, has_failed, print_results
    from groupledger.jobs.derive.quality_results import write_results

    results = check(ClusterRows(ledger.warehouse, ledger.cluster), ledger.settings.quality, ledger.say)
    write_results(ledger, results)
    print_results(results, as_json=False)
    return has_failed(results)


@click.command()
@click.option("--warehouse", metavar="DIR", help="Also check whether the tables can be written there.")
@click.option(
    "--bootstrap-servers",
    metavar="HOST:PORT",
    help="The cluster to check, with its topic and our rights; without it, the `clusters` of the settings.",
)
@CLUSTER
@CONF
@AS_JSON
@click.option(
    "--report",
    "for_others",
    is_flag=True,
    help="Print a text to attach to a bug report: it has no names of yours.",
)
def doctor(
    *,
    warehouse: str | None,
    bootstrap_servers: str | None,
    cluster: str | None,
    conf: Path | None,
    as_json: bool,
    for_others: bool,
) -> bool:
    """Check the installation, and say how to repair what is wrong; exit code 1 if anything is."""
    settings = settings_of(conf, cluster)
    from groupledger.jobs.cli.doctor import BAD, diagnose, print_check, report

    places = places_of(settings, cluster, bootstrap_servers)
    clusters = {name: (settings_of(conf, name), place) for name, place in places.items()}
    check_logs(of_cluster for of_cluster, _ in clusters.values())
    checks = []
    for check in diagnose(settings, warehouse, clusters):
        if not for_others:
            print_check(check, as_json=as_json)
        checks.append(check)
    if for_others:
        click.echo(report(checks))
    return any(check.state == BAD for check in checks)
