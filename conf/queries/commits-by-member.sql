-- Who committed for a group, as far as the topic says: `assigned` owned the partition then, `previous_owner` gave it up,
-- and `none` is a reset, a simple consumer, or not known, as after the end of the history. A process that commits in the
-- name of a member counts as that member: `groupledger audit` finds its host in a request log.
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
