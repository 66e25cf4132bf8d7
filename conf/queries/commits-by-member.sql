-- Who committed for a group, and how it is known: `assigned` owned the partition then, `previous_owner` gave it up, and
-- `none` is a reset, a simple consumer, or unknown.
-- :group =  The group.

SELECT
    cluster,
    topic,
    partition,
    owner_attribution,
    owner,
    count(*) AS commits,
    min(committed_offset) AS first_offset,
    max(committed_offset) AS last_offset,
    min(kafka_timestamp) AS first_at,
    max(kafka_timestamp) AS last_at
FROM offset_commits
WHERE group_id = :group
GROUP BY cluster, topic, partition, owner_attribution, owner
ORDER BY cluster, topic, partition, first_at, owner
