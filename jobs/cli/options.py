"""Provides the common parts of commands: options, settings, and access to tables and ledger."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.output import say, warn
from groupledger.jobs.process.places import local_path
from groupledger.jobs.process.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.settings import Settings
    from groupledger.jobs.warehouse.ledger import Ledger

WAREHOUSE = click.option(
    "--warehouse",
    required=True,
    metavar="DIR",
    help="The folder of the Delta tables: a directory or a URI; or set GROUPLEDGER_WAREHOUSE.",
)
WAREHOUSE_IF_ANY = click.option(
    "--warehouse", metavar="DIR", help="The folder of the Delta tables: a directory or a URI. Not required here."
)
CLUSTER = click.option(
    "--cluster", metavar="NAME", help="The cluster's name in the tables; not required if there is only one."
)
CONF = click.option(
    "--conf",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A YAML file with settings that replace the defaults.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
FORM = partial(
    click.option, "--format", "form", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True
)

NO_WAREHOUSE = (
    "Which warehouse? Give --warehouse DIR or set GROUPLEDGER_WAREHOUSE. `groupledger serve --demo` shows an example"
    " without one, and `groupledger demo` makes one."
)


def absolute(_context: click.Context, _option: click.Parameter, place: str | None) -> str | None:
    """Returns a directory as an absolute path without links, and a URI as it is."""
    path = None if place is None else local_path(place)
    return place if path is None else str(Path(path).resolve())


def settings_of(conf: Path | None, cluster: str | None = None) -> Settings:
    """Returns the settings of a command, and sets the umask that they ask for, for all files made from now on."""
    from groupledger.jobs.process.settings import load_settings

    settings = load_settings(conf, cluster=cluster)
    settings.storage.apply()
    return settings


def places_of(settings: Settings, cluster: str | None, bootstrap_servers: str | None) -> dict[str, str]:
    """Returns, by name, the bootstrap servers of the clusters that a command is about: the given ones. If none are
    given, returns those in the settings, of all clusters or only of `cluster`."""
    if bootstrap_servers is not None:
        return {settings.cluster: bootstrap_servers}
    places = {name: each.bootstrap_servers for name, each in settings.clusters.items()}
    return places if cluster is None else {name: place for name, place in places.items() if name == cluster}


def check_logs(settings: Iterable[Settings]) -> None:
    """Raises InputError if the settings of several clusters name the same log: its lines do not name their cluster. One
    cluster may have both kinds of log in one folder."""
    named = Counter(path for each in settings for path in {*each.logs.request_logs, *each.logs.server_logs})
    for path, times in named.items():
        if times > 1:
            raise InputError(
                f"The settings are wrong: logs: {printable(str(path))} is a log of one cluster: write its `logs` below"
                " the name of that cluster in `clusters`."
            )


@dataclass
class Job:
    """The arguments of a command. Nothing is read or started before it is needed, so that a command can refuse its
    arguments first."""

    name: str
    warehouse: str
    cluster: str | None
    conf: Path | None

    @cached_property
    def settings(self) -> Settings:
        return settings_of(self.conf, cluster=self.cluster)

    @cached_property
    def chosen_cluster(self) -> str:
        """The cluster of a question; it may be left out if there is only one. Loading the settings takes longer than
        answering, so they are loaded only if needed: for a user's file, which may be invalid, or to find a name that
        was left out."""
        from groupledger.jobs.ask.clusters import chosen_cluster, clusters_of
        from groupledger.jobs.ask.snapshots import Snapshots

        usual = None if self.conf is None else self.settings.cluster
        known = clusters_of(Snapshots(self.warehouse))
        return chosen_cluster(known, self.cluster, lambda: usual or self.settings.cluster)

    def rows(self) -> ClusterRows:
        """Returns access to the rows of the cluster, which are read without Spark."""
        cluster = self.chosen_cluster
        from groupledger.jobs.ask.cluster_rows import ClusterRows

        return ClusterRows(self.warehouse, cluster)

    def combined_settings(self, tables: ClusterRows) -> Settings:
        """Returns the settings of a question, combined with those that are stored beside the tables."""
        from groupledger.jobs.warehouse.kept_settings import kept_settings, with_kept

        return with_kept(self.settings, kept_settings(tables.small_files, tables.cluster))

    def ledger(self, held: str | None = None) -> AbstractContextManager[Ledger]:
        """Starts Spark and takes the lease to write the cluster's tables, or the lease named `held`, for as long as the
        returned context lasts."""
        settings = self.settings
        from groupledger.jobs.warehouse.ledger import open_ledger

        return open_ledger(settings, self.warehouse, self.name, say, warn=warn, held=held)


def on_warehouse(command: Callable[..., object]) -> Callable[..., object]:
    """Adds the options --warehouse, --cluster and --conf to a command, and passes their values as its first argument, a
    Job."""

    @wraps(command)
    def run(*, warehouse: str, cluster: str | None, conf: Path | None, **others: Any) -> object:
        name = click.get_current_context().info_name or ""
        return command(Job(name, warehouse, cluster, conf), **others)

    for option in (CONF, CLUSTER, WAREHOUSE):
        run = option(run)
    return run
