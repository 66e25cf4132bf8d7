-- Runs of rebalances of one group that follow each other closely.
-- :within_s = 120  Seconds between one rebalance and the next of a run.
-- :at_least = 3    How many make a storm.

WITH marked AS (
    SELECT
        cluster, group_id, incarnation, kafka_offset, happened_at, to_generation, partitions_moved,
        CASE
            WHEN happened_at - lag(happened_at) OVER in_order <= INTERVAL '1' SECOND * CAST(:within_s AS INT) THEN 0
            ELSE 1
        END AS begins_run
    FROM rebalances
    WHERE from_generation > 0
    WINDOW in_order AS (PARTITION BY cluster, group_id, incarnation ORDER BY kafka_offset)
),
numbered AS (
    SELECT *, sum(begins_run) OVER (PARTITION BY cluster, group_id, incarnation ORDER BY kafka_offset) AS run
    FROM marked
)
SELECT
    cluster,
    group_id,
    min(happened_at) AS began_at,
    max(happened_at) AS ended_at,
    count(*) AS rebalances,
    min(to_generation) AS first_generation,
    max(to_generation) AS last_generation,
    sum(partitions_moved) AS partitions_moved
FROM numbered
GROUP BY cluster, group_id, incarnation, run
HAVING count(*) >= CAST(:at_least AS INT)
ORDER BY rebalances DESC, began_at, cluster, group_id
