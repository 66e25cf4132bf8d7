-- Members that the broker probably removed: their session expired, or they did not poll, or give up partitions, in time.
-- :since = 1970-01-01T00:00:00Z  Only from then on.

SELECT
    cluster, group_id, member_id, group_instance_id, client_id, client_host, session_timeout_ms,
    joined_at, left_at, to_generation AS last_generation, leave_cause, leave_cause_confidence
FROM members
WHERE leave_cause IN ('session_expired', 'left_poll_timeout', 'rebalance_timeout') AND left_at >= CAST(:since AS TIMESTAMP)
ORDER BY left_at DESC, cluster, group_id, member_id
