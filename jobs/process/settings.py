"""Reads the settings: `conf/groupledger.yaml`, overlaid with the user's file, checked key by key.

The shipped file has every default and a comment on each, so the models of this module have types and limits, and hardly
any default. Secrets are references (`{env: NAME}` or `{file: PATH}`). They are resolved where a connection is made, and
their values are not part of any `repr`, so that no secret can be printed by accident.
"""

from __future__ import annotations

import os
from dataclasses import is_dataclass
from functools import cache
from importlib import resources
from pathlib import Path  # noqa: TC003 - pydantic reads the annotations at run time
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_type_hints
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.shard import WHOLE, Shard
from groupledger.jobs.process.yaml_text import parse_yaml
from groupledger.schemas.kinds.incidents import INCIDENT_KINDS
from groupledger.transforms.privacy import HASH, Privacy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from _typeshed import DataclassInstance

HASH_KEY_BYTES_MIN = 16
Rules = TypeVar("Rules", bound="DataclassInstance")
EVERYTHING = ".*"
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Secret(Section):
    """A reference to a secret; exactly one of the two fields is set."""

    env: str | None = None
    file: Path | None = None

    @model_validator(mode="after")
    def has_one_source(self) -> Secret:
        if (self.env is None) == (self.file is None):
            msg = "write either {env: NAME} or {file: PATH}"
            raise ValueError(msg)
        return self

    def resolve(self, setting: str) -> SecretStr:
        """Returns the secret that `setting`, such as kafka.sasl_password, refers to. Raises InputError if there is
        none."""
        if self.env is not None:
            value = os.environ.get(self.env)
            if value is None:
                raise InputError(f"The environment variable {self.env} is not set, and {setting} refers to it: set it.")
            return SecretStr(value)
        assert self.file is not None  # noqa: S101 - the validator above holds it
        try:
            return SecretStr(self.file.read_text().rstrip("\r\n"))
        except OSError as error:
            raise InputError(
                f"The file {self.file}, to which {setting} refers, can't be read: {error.strerror}."
            ) from error


def checked_url(url: str) -> str:
    """Returns `url` if it begins with http:// or https:// and names a host. Otherwise raises a ValueError that does not
    show the URL, since it may hold a secret."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        msg = "this is no URL that begins with http:// or https://"
        raise ValueError(msg)
    return url


Url = Annotated[str, AfterValidator(checked_url)]


def checked_shard(text: str) -> str:
    Shard.parse(text)
    return text


NAME_AND_PASSWORD = ("sasl_username", "sasl_password")
NEEDED_TO_LOG_IN = {
    "PLAIN": NAME_AND_PASSWORD,
    "SCRAM-SHA-256": NAME_AND_PASSWORD,
    "SCRAM-SHA-512": NAME_AND_PASSWORD,
    "OAUTHBEARER": (*NAME_AND_PASSWORD, "sasl_token_url"),
    "GSSAPI": ("sasl_username", "sasl_keytab"),
    "AWS_MSK_IAM": (),
}


class KafkaSettings(Section):
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    # An allow-list on purpose: see `jobs.kafka.login`.
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM"] | None
    sasl_username: str | None
    sasl_password: Secret | None
    sasl_token_url: Url | None
    sasl_scope: str | None
    sasl_keytab: Path | None
    sasl_kerberos_service: str
    ssl_ca_file: Path | None
    ssl_keystore_file: Path | None
    ssl_key_password: Secret | None
    request_timeout_ms: Annotated[int, Field(ge=1000, le=600_000)]
    shard: Annotated[str, AfterValidator(checked_shard)] | None

    @property
    def own(self) -> Shard:
        """Returns the part of the cluster that this ledger follows."""
        return WHOLE if self.shard is None else Shard.parse(self.shard)

    @property
    def mechanism(self) -> str | None:
        """Returns the SASL mechanism, or None if the security protocol is not one of SASL."""
        return self.sasl_mechanism if self.security_protocol.startswith("SASL") else None

    @model_validator(mode="after")
    def sasl_is_whole(self) -> KafkaSettings:
        if not self.security_protocol.startswith("SASL"):
            return self
        if self.sasl_mechanism is None:
            msg = f"{self.security_protocol} needs sasl_mechanism"
            raise ValueError(msg)
        needed = NEEDED_TO_LOG_IN[self.sasl_mechanism]
        if any(getattr(self, name) is None for name in needed):
            msg = f"{self.sasl_mechanism} needs {' and '.join(needed)}"
            raise ValueError(msg)
        if self.sasl_mechanism == "AWS_MSK_IAM" and self.security_protocol != "SASL_SSL":
            msg = "AWS_MSK_IAM needs security_protocol: SASL_SSL"
            raise ValueError(msg)
        return self


class IngestSettings(Section):
    max_offsets_per_trigger: Annotated[int, Field(ge=1)]
    trigger_interval_s: Annotated[int, Field(ge=1)]
    fetch_max_wait_ms: Annotated[int, Field(ge=1)]
    max_poll_records: Annotated[int, Field(ge=1)]
    read_tasks: Annotated[int, Field(ge=1)] | None


class LeaseSettings(Section):
    duration_s: Annotated[int, Field(ge=5)]


class HistorySettings(Section):
    consumer_session_timeout_s: Annotated[int, Field(ge=1)]
    storm_rebalances: Annotated[int, Field(ge=2)]
    storm_rebalances_per_member: Annotated[float, Field(ge=0)]
    storm_window_s: Annotated[int, Field(ge=1)]
    flapping_tenures: Annotated[int, Field(ge=1)]
    flapping_tenure_s: Annotated[int, Field(ge=1)]
    flapping_owners: Annotated[int, Field(ge=1)]


class OffsetSettings(Section):
    retention_s: Annotated[int, Field(ge=1)]
    retention_check_interval_s: Annotated[int, Field(ge=1)]


class SamplingSettings(Section):
    request_timeout_ms: Annotated[int, Field(ge=100, le=600_000)]
    attempts: Annotated[int, Field(ge=1, le=10)]
    retry_backoff_ms: Annotated[int, Field(ge=1, le=60_000)]
    brokers_at_once: Annotated[int, Field(ge=1, le=100)]
    partitions_per_request: Annotated[int, Field(ge=1, le=100_000)]
    groups_per_request: Annotated[int, Field(ge=1, le=10_000)]


class IncidentSettings(Section):
    open_s: Annotated[int, Field(ge=1)]
    link_s: Annotated[int, Field(ge=1)]
    commit_gap_s: Annotated[int, Field(ge=1)]
    commit_gap_intervals: Annotated[float, Field(ge=1)]
    zombie_return_s: Annotated[int, Field(ge=1)]
    stalled_transaction_s: Annotated[int, Field(ge=1)]
    stuck_rebalance_s: Annotated[int, Field(ge=1)]
    stuck_reconciliation_s: Annotated[int, Field(ge=1)]
    expires_soon_s: Annotated[int, Field(ge=1)]
    all_groups_interval_h: Annotated[int, Field(ge=0)]
    final_after_s: Annotated[int, Field(ge=86_400)]


class MonitorSettings(Section):
    metrics_address: str
    history_interval_s: Annotated[int, Field(ge=1)]
    incidents_interval_s: Annotated[int, Field(ge=1)]
    maintain_interval_h: Annotated[int, Field(ge=0)]
    stalled_after_s: Annotated[int, Field(ge=1)]
    lag_age_max_s: Annotated[int, Field(ge=1)]


class OidcSettings(Section):
    """The login of `serve` by OpenID Connect; a comment in `conf/groupledger.yaml` explains each field."""

    issuer: Url
    client_id: Annotated[str, Field(min_length=1)]
    client_secret: Secret
    callback: Url
    scopes: str = "openid profile"
    claim: str = "groups"
    roles: dict[str, Literal["all"] | list[Name]]
    session_h: Annotated[int, Field(ge=1, le=168)] = 8


class ServeSettings(Section):
    oidc: OidcSettings | None
    connections_max: Annotated[int, Field(ge=8, le=100_000)]
    head_timeout_s: Annotated[int, Field(ge=1, le=600)]
    answer_timeout_s: Annotated[int, Field(ge=1, le=3_600)]


class PrivacySettings(Section):
    hosts: Literal["keep", "hash", "drop"]
    principals: Literal["keep", "hash", "drop"]
    hash_key: Secret | None

    @model_validator(mode="after")
    def has_key(self) -> PrivacySettings:
        if HASH in {self.hosts, self.principals} and self.hash_key is None:
            msg = "hash needs a key: set privacy.hash_key to {env: NAME} or {file: PATH}"
            raise ValueError(msg)
        return self

    def resolve(self) -> Privacy:
        """Returns the privacy rules with the key, which is read only if something is hashed. Raises InputError if the
        key is missing, or so short that it could be found by trying all keys."""
        if HASH not in {self.hosts, self.principals} or self.hash_key is None:
            return Privacy(self.principals, self.hosts)
        key = self.hash_key.resolve("privacy.hash_key").get_secret_value().encode()
        if len(key) < HASH_KEY_BYTES_MIN:
            raise InputError(
                f"The key of privacy.hash_key has fewer than {HASH_KEY_BYTES_MIN} bytes: put a random text there, as"
                " `openssl rand -hex 32` prints one, and keep it."
            )
        return Privacy(self.principals, self.hosts, key)


class StorageSettings(Section):
    umask: Annotated[str, Field(pattern=r"^0?[0-7]{3}$")]

    def apply(self) -> None:
        """Sets the umask of this process, which its child processes inherit: Spark's JVM and Python's workers."""
        os.umask(int(self.umask, 8))


class LoggingSettings(Section):
    format: Literal["text", "json"]
    level: Literal["info", "warning"]


class LogSettings(Section):
    request_logs: list[Path]
    server_logs: list[Path]
    time_zone: str
    request_log_names: str
    server_log_names: str
    line_bytes_max: Annotated[int, Field(ge=65_536, le=256 * 2**20)]
    unpacked_bytes_max: Annotated[int, Field(ge=2**20)]
    poll_interval_s: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def is_usable(self) -> LogSettings:
        try:
            ZoneInfo(self.time_zone)
        except (ValueError, OSError, ZoneInfoNotFoundError) as error:
            msg = "time_zone is not the name of a time zone, such as UTC or Europe/Vienna"
            raise ValueError(msg) from error
        return self


class LagSettings(Section):
    watermark_age_max_s: Annotated[int, Field(ge=1)]
    window_s: Annotated[int, Field(ge=60, le=86_400)]
    standstill_s: Annotated[int, Field(ge=1)]
    growth_records_min: Annotated[int, Field(ge=0)]
    growth_fraction_min: Annotated[float, Field(ge=0)]
    no_commit: Literal["earliest", "latest", "none", "error"]
    burrow_intervals: Annotated[int, Field(ge=1, le=60)]
    burrow_minimum_complete: Annotated[float, Field(ge=0, le=1)]
    burrow_allowed_lag: Annotated[int, Field(ge=0)]
    burrow_min_distance_s: Annotated[int, Field(ge=0)]


def checked_pattern(pattern: str) -> str:
    if pattern != EVERYTHING:
        from groupledger.jobs.process.name_patterns import why_no_pattern  # Arrow takes a while

        wrong = why_no_pattern(pattern)
        if wrong is not None:
            msg = f"this is not a valid regular expression: {wrong}"
            raise ValueError(msg)
    return pattern


NamePattern = Annotated[str, AfterValidator(checked_pattern)]


class OtlpSettings(Section):
    """A receiver of metrics by OTLP; a comment in `conf/groupledger.yaml` explains each field."""

    url: Url
    key: Secret | None = None


class MetricsSettings(Section):
    otlp: OtlpSettings | None
    per_partition: bool
    member_labels: Literal["none", "client"]
    groups_max: Annotated[int, Field(ge=1)]
    series_max: Annotated[int, Field(ge=1)]
    group_pattern: NamePattern
    topic_pattern: NamePattern


class NameLists(Section):
    """The patterns of names to include, and of names to exclude. There are two lists since a pattern of RE2 can't say
    that a name must not match."""

    include: list[NamePattern]
    exclude: list[NamePattern]


class SelectionSettings(Section):
    groups: NameLists
    topics: NameLists
    partitions: NameLists


class TeamSettings(Section):
    groups: NamePattern


class ObjectiveSettings(Section):
    """An objective of lag, for groups whose names match, or for the groups of a team."""

    groups: NamePattern | None = None
    team: Name | None = None
    lag_s: Annotated[float, Field(gt=0)]
    target_percent: Annotated[float, Field(gt=0, lt=100)]
    window_days: Annotated[int, Field(ge=1, le=92)] = 30

    @model_validator(mode="after")
    def has_groups(self) -> ObjectiveSettings:
        if (self.groups is None) == (self.team is None):
            msg = "write either groups, a pattern of their names, or team"
            raise ValueError(msg)
        return self


def checked_kind(name: str) -> str:
    if name not in {kind.name for kind in INCIDENT_KINDS}:
        msg = "there is no such kind of incident: `groupledger incidents --help` lists them"
        raise ValueError(msg)
    return name


IncidentKindName = Annotated[str, AfterValidator(checked_kind)]


class ReceiverSettings(Section):
    """A receiver of messages, and which incidents it gets; a comment in `conf/groupledger.yaml` explains each field."""

    kind: Literal["json", "slack", "pagerduty", "alertmanager", "otlp", "apprise"]
    url: Url | Secret | None = None
    key: Secret | None = None
    severity: Literal["info", "warning", "error"] = "error"
    kinds: list[IncidentKindName] = []
    groups: NamePattern = EVERYTHING
    teams: list[Name] = []

    @model_validator(mode="after")
    def is_whole(self) -> ReceiverSettings:
        if self.url is None and self.kind not in {"pagerduty", "apprise"}:
            msg = f"{self.kind} needs a url"
            raise ValueError(msg)
        if self.url is not None and self.kind == "apprise":
            msg = "apprise takes its URL, which has secrets in it, as key: {env: NAME} or {file: PATH}"
            raise ValueError(msg)
        if self.key is None and self.kind in {"pagerduty", "apprise"}:
            what = "the key of an integration" if self.kind == "pagerduty" else "its URL as key"
            msg = f"{self.kind} needs {what}: {{env: NAME}} or {{file: PATH}}"
            raise ValueError(msg)
        return self


class NotifySettings(Section):
    age_max_s: Annotated[int, Field(ge=1)]
    timeout_s: Annotated[int, Field(ge=1, le=60)]
    link: Url | None
    receivers: dict[Name, ReceiverSettings]


class MaintainSettings(Section):
    retention_days: dict[str, Annotated[int, Field(ge=1)]]
    log_hours: dict[str, Annotated[int, Field(ge=2)]]
    deleted_file_hours: dict[str, Annotated[int, Field(ge=2)]]
    checkpoint_intervals: dict[str, Annotated[int, Field(ge=1, le=1000)]]
    optimize_file_mb: Annotated[int, Field(ge=1, le=1024)]
    reader_downtime_days_max: Annotated[int, Field(ge=1, le=45)]


class QualitySettings(Section):
    after_pipeline: bool
    recent_days: Annotated[int, Field(ge=1)]
    pandas_rows_max: Annotated[int, Field(ge=1)]


ITS_PLACE = {"bootstrap_servers"}
# A part of a section, laid over it. It may hold a secret in a wrong place.
Part = Annotated[dict[str, Any], Field(default_factory=dict, repr=False)]


class ClusterSettings(Section):
    """One of several clusters: its address, and the settings of these sections that differ for it."""

    bootstrap_servers: Annotated[str, Field(min_length=1)]
    kafka: Part
    ingest: Part
    sampling: Part
    history: Part
    offsets: Part
    incidents: Part
    lag: Part
    metrics: Part
    privacy: Part
    logs: Part
    selection: Part
    teams: Part
    objectives: Part
    notify: Part


class Settings(Section):
    cluster: Name
    clusters: dict[Name, ClusterSettings]
    kafka: KafkaSettings
    ingest: IngestSettings
    lease: LeaseSettings
    sampling: SamplingSettings
    monitor: MonitorSettings
    serve: ServeSettings
    history: HistorySettings
    offsets: OffsetSettings
    incidents: IncidentSettings
    lag: LagSettings
    metrics: MetricsSettings
    privacy: PrivacySettings
    storage: StorageSettings
    logging: LoggingSettings
    logs: LogSettings
    maintain: MaintainSettings
    quality: QualitySettings
    selection: SelectionSettings
    teams: dict[Name, TeamSettings]
    objectives: dict[Name, ObjectiveSettings]
    notify: NotifySettings
    _given: frozenset[tuple[str, str]] = PrivateAttr(default=frozenset())

    @model_validator(mode="after")
    def teams_are_known(self) -> Settings:
        roles = {} if self.serve.oidc is None else self.serve.oidc.roles
        for name, teams in roles.items():
            if teams != "all" and not set(teams) <= set(self.teams):
                msg = f"serve.oidc.roles.{name} has a name that is no team of the section teams"
                raise ValueError(msg)
        for name, objective in self.objectives.items():
            if objective.team is not None and objective.team not in self.teams:
                msg = f"objectives.{name}.team is no team of the section teams"
                raise ValueError(msg)
        return self

    @property
    def given(self) -> frozenset[tuple[str, str]]:
        """Returns section and name of each setting that the user's file has, at its top or under its cluster."""
        return self._given

    def with_given(self, names: Iterable[tuple[str, str]]) -> Settings:
        """Returns these settings after storing `names`: section and name of each setting that the user's file has."""
        self._given = frozenset(names)
        return self

    def team_patterns(self) -> dict[str, str]:
        return {name: team.groups for name, team in self.teams.items()}


def rules_from(model: type[Rules], *sections: Section) -> Rules:
    """Returns an instance of the dataclass `model`, the parameters of some rules, filled from the settings of the same
    names. A setting in seconds (`window_s`) fills the field in milliseconds (`window_ms`)."""
    given: dict[str, Any] = {}
    for section in sections:
        for name, value in section:
            given |= {f"{name[:-1]}ms": value * 1_000} if name.endswith("_s") else {name: value}
    return _filled(model, given)


def _filled(model: type[Rules], given: Mapping[str, Any]) -> Rules:
    """Fills models inside the model, too: their settings may begin with the field's name, as `burrow_intervals`."""
    kinds, values = get_type_hints(model), {}
    for name in model.__dataclass_fields__:
        if is_dataclass(kinds[name]):
            own = {key.removeprefix(f"{name}_"): value for key, value in given.items() if key.startswith(f"{name}_")}
            values[name] = _filled(kinds[name], {**given, **own})
        else:
            values[name] = given[name]
    return model(**values)


def load_settings(user_file: Path | None = None, **overrides: Any) -> Settings:
    """Returns the shipped settings, overlaid with the user's file, then with the `overrides` that are not None
    (top-level keys), then with the settings under `clusters` for the chosen cluster.

    Raises InputError that names the file and the wrong key.
    """
    merged = dict(_shipped())
    user: dict[str, Any] = {}
    if user_file is not None:
        try:
            text = user_file.read_text()
        except OSError as error:
            raise InputError(f"The settings file {user_file} can't be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise InputError(f"The settings file {user_file} can't be read: it is not UTF-8 text.") from error
        user = parse_yaml(text, str(user_file))
        merged = overlay(merged, user)
    merged.update({key: value for key, value in overrides.items() if value is not None})
    which = ""
    try:
        settings = Settings.model_validate(merged)
        own = settings.clusters.get(settings.cluster)
        of_cluster = {} if own is None else own.model_dump(exclude=ITS_PLACE)
        if own is not None:
            which = f" of the cluster {settings.cluster}"
            settings = Settings.model_validate(overlay(merged, of_cluster))
    except ValidationError as error:
        raise InputError(f"The settings{which} are wrong: {describe(error)}.") from error
    return settings.with_given({*_names_of(user), *_names_of(of_cluster)})


@cache
def _shipped() -> dict[str, Any]:
    """Returns the shipped settings, parsed once: whoever changes them takes a copy."""
    text = resources.files("groupledger.conf").joinpath("groupledger.yaml").read_text()
    return parse_yaml(text, "conf/groupledger.yaml")


def _names_of(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for section, below in values.items():
        if isinstance(below, dict):
            yield from ((section, name) for name in below)


def is_given(settings: Settings, section: str, name: str) -> bool:
    """Returns whether the user chose a value: it is in the user's file, or differs from the shipped one."""
    if (section, name) in settings.given:
        return True
    now = settings.model_dump(mode="json", include={section: {name}})[section][name]
    return bool(now != _shipped()[section][name])


def overlaid(settings: Settings, values: Mapping[str, Mapping[str, Any]]) -> Settings:
    """Returns the settings with other values, by section and name. Raises InputError if these are invalid."""
    try:
        sections = {
            section: type(of).model_validate(of.model_dump() | dict(values[section]))
            for section, of in settings
            if section in values
        }
    except ValidationError as error:
        raise InputError(f"The settings that are kept with the tables are wrong: {describe(error)}.") from error
    return settings.model_copy(update=sections)


def overlay(base: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    """Replaces shipped values by the user's, section by section; a secret reference is replaced as a whole."""
    result = dict(base)
    for key, value in user.items():
        below = result.get(key)
        result[key] = overlay(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def describe(error: ValidationError) -> str:
    """Names each wrong key and the reason, never its value, since a value may be a secret in the wrong place."""
    return "; ".join(
        f"{'.'.join(str(part) for part in item['loc']) or 'settings'}: {item['msg']}" for item in error.errors()
    )
