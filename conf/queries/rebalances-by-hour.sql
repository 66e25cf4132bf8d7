-- How often each group rebalanced, hour by hour; increments without a record are counted apart.
-- :since = 1970-01-01T00:00:00Z  Only from then on.

SELECT
    cluster,
    group_id,
    date_trunc('HOUR', happened_at) AS hour,
    count(*) AS rebalances,
    sum(generation_gap) AS increments_without_record,
    sum(partitions_moved) AS partitions_moved
FROM rebalances
WHERE happened_at >= CAST(:since AS TIMESTAMP) AND from_generation > 0
GROUP BY cluster, group_id, date_trunc('HOUR', happened_at)
ORDER BY rebalances DESC, hour DESC, cluster, group_id
