"""Lists the APIs that the coordinator serves to real clients, each with its messages and its versions.

ApiVersions offers only these. The versions are those of a 4.2 broker; kafka-python encodes and decodes them from
Kafka's own definitions. `tests/broker/test_socket_against_kafka.py` compares the list with a real broker's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kafka.protocol.admin import cluster, groups, topics, transactions
from kafka.protocol.consumer import fetch, group, offsets
from kafka.protocol.metadata import api_versions, find_coordinator, metadata
from kafka.protocol.producer import produce, transaction

from groupledger.jobs.kafka.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from groupledger.schemas.kafka.api_keys import ApiKey


class Api(NamedTuple):
    request: Any
    response: Any
    min_version: int
    max_version: int


SERVED: dict[ApiKey, Api] = {
    # Librdkafka reads no record batches from a broker without it.
    ApiKey.PRODUCE: Api(produce.ProduceRequest, produce.ProduceResponse, 3, 13),
    ApiKey.FETCH: Api(fetch.FetchRequest, fetch.FetchResponse, 4, 18),
    ApiKey.LIST_OFFSETS: Api(offsets.ListOffsetsRequest, offsets.ListOffsetsResponse, 1, 11),
    ApiKey.METADATA: Api(metadata.MetadataRequest, metadata.MetadataResponse, 0, 13),
    ApiKey.OFFSET_COMMIT: Api(group.OffsetCommitRequest, group.OffsetCommitResponse, 2, 10),
    ApiKey.OFFSET_FETCH: Api(group.OffsetFetchRequest, group.OffsetFetchResponse, 1, 10),
    ApiKey.FIND_COORDINATOR: Api(
        find_coordinator.FindCoordinatorRequest, find_coordinator.FindCoordinatorResponse, 0, 6
    ),
    ApiKey.JOIN_GROUP: Api(group.JoinGroupRequest, group.JoinGroupResponse, 0, 9),
    ApiKey.HEARTBEAT: Api(group.HeartbeatRequest, group.HeartbeatResponse, 0, 4),
    ApiKey.LEAVE_GROUP: Api(group.LeaveGroupRequest, group.LeaveGroupResponse, 0, 5),
    ApiKey.SYNC_GROUP: Api(group.SyncGroupRequest, group.SyncGroupResponse, 0, 5),
    ApiKey.DESCRIBE_GROUPS: Api(groups.DescribeGroupsRequest, groups.DescribeGroupsResponse, 0, 6),
    ApiKey.LIST_GROUPS: Api(groups.ListGroupsRequest, groups.ListGroupsResponse, 0, 5),
    ApiKey.API_VERSIONS: Api(api_versions.ApiVersionsRequest, api_versions.ApiVersionsResponse, 0, 4),
    ApiKey.DELETE_GROUPS: Api(groups.DeleteGroupsRequest, groups.DeleteGroupsResponse, 0, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Api(
        offsets.OffsetForLeaderEpochRequest, offsets.OffsetForLeaderEpochResponse, 2, 4
    ),
    ApiKey.INIT_PRODUCER_ID: Api(transaction.InitProducerIdRequest, transaction.InitProducerIdResponse, 0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: Api(transaction.AddOffsetsToTxnRequest, transaction.AddOffsetsToTxnResponse, 0, 4),
    ApiKey.END_TXN: Api(transaction.EndTxnRequest, transaction.EndTxnResponse, 0, 5),
    ApiKey.TXN_OFFSET_COMMIT: Api(transaction.TxnOffsetCommitRequest, transaction.TxnOffsetCommitResponse, 0, 5),
    ApiKey.OFFSET_DELETE: Api(group.OffsetDeleteRequest, group.OffsetDeleteResponse, 0, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, 0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Api(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, 0, 1),
    ApiKey.DESCRIBE_TRANSACTIONS: Api(
        transactions.DescribeTransactionsRequest, transactions.DescribeTransactionsResponse, 0, 0
    ),
    ApiKey.CREATE_TOPICS: Api(topics.CreateTopicsRequest, topics.CreateTopicsResponse, 2, 7),
    ApiKey.CREATE_PARTITIONS: Api(topics.CreatePartitionsRequest, topics.CreatePartitionsResponse, 0, 3),
    ApiKey.DESCRIBE_CLUSTER: Api(cluster.DescribeClusterRequest, cluster.DescribeClusterResponse, 0, 2),
}
