-- A row for each group and hour: the most lag of a round, the oldest record to read, and in how many rounds a partition
-- stood still. Partitions whose lag is not known are counted, and are in no sum.
WITH rounds AS (
    SELECT
        cluster,
        group_id,
        sampled_at,
        sum(lag) AS lag,
        count(*) FILTER (WHERE lag IS NULL) AS partitions_without_lag,
        max(lag_seconds) AS lag_seconds,
        count(*) FILTER (WHERE status IN ('stopped', 'stalled')) AS partitions_standing
    FROM lag
    GROUP BY cluster, group_id, sampled_at
)

SELECT
    cluster,
    group_id,
    date_trunc('hour', sampled_at) AS hour,
    max(lag) AS lag_max,
    max(lag_seconds) AS lag_seconds_max,
    max(partitions_without_lag) AS partitions_without_lag_max,
    count(*) FILTER (WHERE partitions_standing > 0) AS rounds_standing,
    count(*) AS rounds
FROM rounds
GROUP BY cluster, group_id, hour
ORDER BY cluster, group_id, hour
