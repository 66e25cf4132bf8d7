-- How far behind each group is, as of its newest sampling round.

WITH newest AS (
    SELECT *, max(sampled_at) OVER (PARTITION BY cluster) AS newest_at
    FROM lag
)
SELECT
    cluster,
    group_id,
    topic,
    sampled_at,
    sum(lag) AS lag,
    max(lag_seconds) AS lag_seconds,
    count(*) AS partitions,
    count(*) FILTER (WHERE lag IS NULL) AS partitions_unknown,
    count(*) FILTER (WHERE NOT owned) AS partitions_unowned
FROM newest
WHERE sampled_at = newest_at
GROUP BY cluster, group_id, topic, sampled_at
ORDER BY lag DESC NULLS LAST, cluster, group_id, topic
