"""Creates the topics that a test or a benchmark needs on its broker.

A busy machine may take longer to create topics than the broker or the client waits. The request then fails, or is sent
again and finds the topics that it made itself. So neither is an error here: what counts is that the topics exist at the
end, with a leader for each partition.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from kafka.admin import KafkaAdminClient
from kafka.errors import NoError, RequestTimedOutError, TopicAlreadyExistsError, for_code

if TYPE_CHECKING:
    from collections.abc import Mapping

READY_MS_MAX = 120_000


def make_topics(bootstrap_servers: str, partitions: Mapping[str, int]) -> None:
    """Creates those topics that are missing, and returns when all have leaders. `partitions` has their numbers of
    partitions by name. Raises ValueError if a topic exists with another number of partitions."""
    wanted = {name: {"num_partitions": count, "replication_factor": 1} for name, count in partitions.items()}
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers, bootstrap_timeout_ms=READY_MS_MAX)) as admin:
        created = admin.create_topics(wanted, raise_errors=False)
        for topic in created["topics"]:
            error = for_code(topic["error_code"])
            if error not in (NoError, RequestTimedOutError, TopicAlreadyExistsError):
                raise error(f"The topic {topic['name']} was not created: {topic['error_message']}.")
        admin.wait_for_topics(list(wanted), timeout_ms=READY_MS_MAX)
        there = {topic["name"]: len(topic["partitions"]) for topic in admin.describe_topics(list(wanted))}
    if there != dict(partitions):
        raise ValueError(f"The broker has {there}, wanted are {dict(partitions)}: another test has made these topics.")
