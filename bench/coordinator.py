"""Measures how many requests per second the reference coordinator handles on one core.

The groups are Stable and have four members. Of ten requests eight are heartbeats, and two commit three partitions each.
That is about what consumers with a heartbeat interval of 3 s and an auto-commit interval of 10 s send. Virtual time
advances with each round, so that sessions are extended and timers are checked. Only the CPU time of `handle` and
`advance` counts, not that of building requests. Run it as a module: if it is run by its path, the file hides the
package `coordinator`.

    python -m bench.coordinator [--groups 1000] [--requests 400000]
"""

from __future__ import annotations

import argparse
import time

from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetToCommit,
    SyncGroupRequest,
)
from lab.scenarios.coordinator_driver import lead_all

MEMBERS_PER_GROUP = 4
REQUESTS_PER_COMMIT = 5
PARTITIONS_PER_COMMIT = 3
ROUND_MS = 3_000
SESSION_MS = 45_000
REBALANCE_MS = 300_000
SUBSCRIPTION = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"


def stable_groups(coordinator: Coordinator, group_count: int) -> tuple[list[tuple[str, str]], int]:
    """Brings groups to Stable; returns (group id, member id) of every member, and the time when that is done."""
    members = []
    for number in range(group_count):
        for index in range(MEMBERS_PER_GROUP):
            request = JoinGroupRequest(
                index,
                f"group-{number:06d}",
                member_id="",
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                protocol_type="consumer",
                protocols=(("range", SUBSCRIPTION),),
                new_member_uuid=f"{number:08x}-0000-4000-8000-{index:012x}",
                client_id="consumer",
                api_version=3,  # without the extra round for a member id
            )
            coordinator.handle(request, now_ms=0)
    now_ms = 2 * coordinator.config.group_initial_rebalance_delay_ms  # members came, so the delay is extended once
    joined = [response for response in coordinator.advance(now_ms).responses if isinstance(response, JoinGroupResponse)]
    leaders = {response.leader: response for response in joined if response.members}
    for number in range(group_count):
        group = coordinator.group(f"group-{number:06d}")
        assert group is not None
        leader_first = sorted(group.members, key=lambda member_id: member_id not in leaders)
        assignments = tuple((member_id, b"assignment") for member_id in leader_first)
        for member_id in leader_first:
            sync = SyncGroupRequest(
                0,
                group.group_id,
                generation_id=1,
                member_id=member_id,
                group_instance_id=None,
                protocol_type="consumer",
                protocol_name="range",
                assignments=assignments,
            )
            coordinator.handle(sync, now_ms=now_ms)
            members.append((group.group_id, member_id))
    return members, now_ms


def requests_of_round(members: list[tuple[str, str]], first_id: int) -> list[HeartbeatRequest | OffsetCommitRequest]:
    """Returns one request of every member: every fifth member commits, all others send heartbeats."""
    requests: list[HeartbeatRequest | OffsetCommitRequest] = []
    for request_id, (group_id, member_id) in enumerate(members, first_id):
        if request_id % REQUESTS_PER_COMMIT:
            requests.append(HeartbeatRequest(request_id, group_id, generation_id=1, member_id=member_id))
        else:
            offsets = tuple(
                OffsetToCommit(topic="orders", partition=index, offset=request_id)
                for index in range(PARTITIONS_PER_COMMIT)
            )
            requests.append(
                OffsetCommitRequest(request_id, group_id, offsets=offsets, generation_id=1, member_id=member_id)
            )
    return requests


def run(coordinator: Coordinator, members: list[tuple[str, str]], now_ms: int, request_count: int) -> tuple[int, float]:
    """Returns how many requests were sent and accepted, and the seconds of CPU time that this took."""
    sent = 0
    seconds = 0.0
    while sent < request_count:
        now_ms += ROUND_MS
        requests = requests_of_round(members, sent)
        started = time.process_time()
        batches = len(coordinator.advance(now_ms).batches)
        for request in requests:
            batches += len(coordinator.handle(request, now_ms=now_ms).batches)
        seconds += time.process_time() - started
        sent += len(requests)
        # A session that expired, or a commit that was refused, would show in the number of batches.
        assert batches == sum(isinstance(request, OffsetCommitRequest) for request in requests)
    return sent, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--requests", type=int, default=400_000)
    arguments = parser.parse_args()
    coordinator = Coordinator()
    lead_all(coordinator, 0)
    members, now_ms = stable_groups(coordinator, arguments.groups)
    sent, seconds = run(coordinator, members, now_ms, arguments.requests)
    print(
        f"{sent / seconds:,.0f} requests/s on one core: {sent:,} requests in {seconds:.2f} s of CPU time,"
        f" {arguments.groups:,} groups of {MEMBERS_PER_GROUP}, four heartbeats to one commit of"
        f" {PARTITIONS_PER_COMMIT} partitions"
    )


if __name__ == "__main__":
    main()
