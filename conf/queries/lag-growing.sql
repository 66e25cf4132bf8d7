-- Partitions whose lag grew over a span of time, by how much.
-- :hours = 1  How long before the newest round the span begins.

WITH span AS (
    SELECT *, max(sampled_at) OVER (PARTITION BY cluster) AS newest_at
    FROM lag
)
SELECT
    cluster,
    group_id,
    topic,
    partition,
    min_by(lag, sampled_at) AS lag_before,
    max_by(lag, sampled_at) AS lag_now,
    max_by(lag, sampled_at) - min_by(lag, sampled_at) AS grown_by,
    max(lag_seconds) AS lag_seconds_max
FROM span
WHERE lag IS NOT NULL AND sampled_at >= newest_at - INTERVAL '1' HOUR * CAST(:hours AS INT)
GROUP BY cluster, group_id, topic, partition
HAVING grown_by > 0
ORDER BY grown_by DESC, cluster, group_id, topic, partition
