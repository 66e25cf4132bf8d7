-- Partitions that changed hands most.
-- :top = 20  How many.

SELECT
    cluster,
    group_id,
    topic,
    partition,
    count(*) AS intervals,
    count(DISTINCT member_id) AS owners,
    max(valid_from) AS last_moved_at
FROM assignments
GROUP BY cluster, group_id, topic, partition
HAVING count(*) > 1
ORDER BY intervals DESC, cluster, group_id, topic, partition
LIMIT CAST(:top AS INT)
