-- A row for each group and day: how often it rebalanced, how many partitions moved, and for how long partitions that moved
-- had no commit at most. A hole, where records are missing, counts apart.
SELECT
    cluster,
    group_id,
    CAST(happened_at AS DATE) AS day,
    count(*) FILTER (WHERE NOT is_hole) AS rebalances,
    count(*) FILTER (WHERE is_hole) AS holes,
    sum(partitions_moved) AS partitions_moved,
    sum(pause_upper_ms) / 1000 AS paused_seconds_at_most,
    mode(inferred_trigger) AS most_frequent_trigger
FROM rebalances
GROUP BY cluster, group_id, day
ORDER BY paused_seconds_at_most DESC NULLS LAST, cluster, group_id, day
