"""Selects the rows of logs that the rules of incidents need, and the records beside them.

wanted_requests(requests)              refusals, joins, leaves, and what may make up for a refusal
events_of_groups(coordinator_events)   the lines about groups
records_to_replay(records, requests)   the states of groups that have a request without an answer
commits_of_refused(records, requests)  the commits of partitions whose commits were refused
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.schemas.kafka.api_keys import JOINING_EPOCH, ApiKey
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kinds.incidents import COMMITS, KIND_OF_ERROR, KIND_OF_LASTING_ERROR, STALE_MEMBER_EPOCH
from groupledger.schemas.words import CoordinatorEventKind, words_of
from groupledger.transforms.history.group_history import GROUP_METADATA
from groupledger.transforms.incidents.commit_steps import commits_of
from groupledger.transforms.incidents.rules.facts import COORDINATOR_AWAY, EPOCH_HEARTBEAT_NAMES
from groupledger.transforms.numbers import record_ms

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

INCIDENT_ERRORS = (*COORDINATOR_AWAY, *KIND_OF_ERROR, *KIND_OF_LASTING_ERROR)
"""Errors that an incident may rest on, and those of a coordinator that was away."""
NO_HEARTBEATS = (ApiKey.JOIN_GROUP.name, ApiKey.LEAVE_GROUP.name)


def wanted_requests(requests: DataFrame) -> DataFrame:
    """Returns the requests that the rules need: refusals, joins and leaves, commits that may make up for a refused one,
    and all requests of a group that has a request without an answer."""
    unanswered = requests.where(F.col("response_json").isNull()).select("group_id").distinct()
    unanswered = unanswered.withColumn("is_replayed", F.lit(True))
    found = requests.where(F.col("group_id").isNotNull()).join(F.broadcast(unanswered), "group_id", "left")
    is_replayed = F.coalesce("is_replayed", F.lit(False))
    is_join_or_leave = F.col("api").isin(*EPOCH_HEARTBEAT_NAMES) & (F.col("generation") <= JOINING_EPOCH)
    is_wanted = F.col("error_code").isin(*INCIDENT_ERRORS) | F.col("api").isin(*NO_HEARTBEATS) | is_join_or_leave
    is_wanted = F.coalesce(is_wanted, F.lit(False)) | is_replayed
    return (
        found.where(is_wanted)
        .union(_mending(found.where(~is_wanted), requests))
        .select(
            *("group_id", "source_file", "line_number", "api", "api_version", "error_code", "member_id"),
            *(
                "group_instance_id",
                "generation",
                "response_member_id",
                "response_generation",
                "client_id",
                "client_host",
            ),
            *("connection_id", "partitions", "members"),
            F.unix_micros("happened_at").alias("happened_at_us"),
            F.unix_micros("logged_at").alias("logged_at_us"),
            F.unix_micros("happened_at").alias("order"),
            F.when(is_replayed, F.col("request_json")).alias("request_json"),
            F.when(
                F.col("error_code") == Error.UNSUPPORTED_ASSIGNOR.value,
                F.get_json_object("request_json", "$.serverAssignor"),
            ).alias("server_assignor"),
            is_replayed.alias("is_replayed"),
        )
    )


def is_accepted_join() -> Column:
    is_join = (F.col("api") == ApiKey.JOIN_GROUP.name) | (F.col("generation") == JOINING_EPOCH)
    return F.coalesce(is_join & (F.col("error_code") == Error.NONE.value), F.lit(False))


def _mending(others: DataFrame, requests: DataFrame) -> DataFrame:
    """Returns the accepted commits of a member so near a refused one that nothing may have been lost with that."""
    is_commit = F.col("api").isin(*COMMITS)
    refused = requests.where(is_commit & (F.col("error_code") == STALE_MEMBER_EPOCH.error_code)).select(
        *("group_id", "member_id"), F.unix_millis("happened_at").alias("refused_ms")
    )
    accepted = others.where(is_commit & (F.col("error_code") == Error.NONE.value)).alias("accepted")
    apart_ms = F.abs(F.unix_millis("happened_at") - F.col("refused_ms"))
    is_of_member = F.col("accepted.group_id") == F.col("refused.group_id")
    is_of_member &= F.col("accepted.member_id") == F.col("refused.member_id")
    is_soon = apart_ms <= F.lit(STALE_MEMBER_EPOCH.recovers_within_ms)
    return accepted.join(F.broadcast(refused).alias("refused"), is_of_member & is_soon, "left_semi")


def events_of_groups(events: DataFrame) -> DataFrame:
    return events.where(F.col("kind").isin(*words_of(CoordinatorEventKind)) & F.col("group_id").isNotNull()).select(
        *("group_id", "source_file", "line_number", "kind", "generation", "member_id", "client_reason", "trigger"),
        *("reason", "member_ids", "broker_id", "kafka_partition"),
        F.unix_millis("logged_at").alias("logged_at_ms"),
        F.unix_millis("logged_at").alias("order"),
    )


def records_to_replay(coordinator_records: DataFrame, requests: DataFrame) -> DataFrame:
    replayed = requests.where("is_replayed").select("group_id").distinct()
    records = coordinator_records.where((F.col("record_type") == GROUP_METADATA) & F.col("decode_error").isNull())
    return records.join(F.broadcast(replayed), "group_id", "left_semi").select(
        "group_id", "kafka_offset", record_ms().alias("at_ms"), "record_json"
    )


def is_refused_commit() -> Column:
    """Holds also for a commit without an answer."""
    return F.col("api").isin(*COMMITS) & ~F.col("error_code").eqNullSafe(Error.NONE.value)


def commits_of_refused(coordinator_records: DataFrame, requests: DataFrame) -> DataFrame:
    """Returns all accepted commits of the partitions that have a commit refused, or without an answer."""
    places = requests.where(is_refused_commit()).select("group_id", F.explode("partitions").alias("place"))
    places = places.select("group_id", "place.topic", "place.partition").distinct()
    commits = commits_of(coordinator_records).where(F.col("offset").isNotNull()).drop("topic_id")
    return commits.join(F.broadcast(places), ["group_id", "topic", "partition"], "left_semi")
