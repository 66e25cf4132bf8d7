-- Partitions whose committed offset went back over a rebalance: what lies between was processed again.
-- :since = 1970-01-01T00:00:00Z  Only from then on.

SELECT
    cluster, group_id, to_generation AS generation, happened_at, pause.topic, pause.partition,
    pause.committed_offset_before, pause.committed_offset_after,
    pause.committed_offset_before - pause.committed_offset_after AS offsets_again
FROM (SELECT *, explode(partition_pauses) AS pause FROM rebalances)
WHERE
    pause.committed_offset_after < pause.committed_offset_before AND happened_at >= CAST(:since AS TIMESTAMP)
ORDER BY offsets_again DESC, happened_at DESC, cluster, group_id, pause.topic, pause.partition
