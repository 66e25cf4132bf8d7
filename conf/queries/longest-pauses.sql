-- How long partitions stood still around a rebalance: from the last commit before it to the first one after it, which is
-- an upper bound.
-- :top = 20  How many.

SELECT
    cluster, group_id, to_generation AS generation, happened_at, protocol_kind, pause.topic, pause.partition,
    pause.last_commit_at, pause.first_commit_at, pause.pause_upper_ms
FROM (SELECT *, explode(partition_pauses) AS pause FROM rebalances)
WHERE pause.pause_upper_ms IS NOT NULL
ORDER BY pause.pause_upper_ms DESC, cluster, group_id, generation, pause.topic, pause.partition
LIMIT CAST(:top AS INT)
