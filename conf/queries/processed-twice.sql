-- What was processed twice: what incidents know, and offsets that went back over a rebalance. Both may report the same.
-- An incident has its topic and partition if it is about one; `groupledger audit` says who moved offsets, and where.
-- :since = 1970-01-01T00:00:00Z  Only from then on.

WITH places AS (
    SELECT
        cluster, incident_id, count(*) AS partition_count,
        CASE WHEN count(DISTINCT place.topic) = 1 THEN min(place.topic) END AS topic,
        CASE WHEN count(*) = 1 THEN min(place.partition) END AS partition
    FROM (SELECT cluster, incident_id, explode(partitions) AS place FROM incidents)
    GROUP BY cluster, incident_id
), found AS (
    -- Who commits less than was committed before the rebalance has processed again what lies between.
    SELECT
        cluster, group_id, happened_at, 'rebalances' AS known_from,
        concat('generation ', CAST(to_generation AS STRING)) AS what, pause.topic, pause.partition,
        pause.committed_offset_before - pause.committed_offset_after AS records_min,
        pause.committed_offset_before - pause.committed_offset_after AS records_max,
        CAST(NULL AS STRING) AS evidence, CAST(NULL AS DOUBLE) AS confidence, CAST(1 AS BIGINT) AS partition_count
    FROM (SELECT *, explode(partition_pauses) AS pause FROM rebalances)
    WHERE pause.committed_offset_after < pause.committed_offset_before
    UNION ALL
    SELECT
        incidents.cluster, group_id, first_seen_at AS happened_at, 'incidents' AS known_from, kind AS what,
        topic, partition, duplicates_min AS records_min, duplicates_max AS records_max, evidence, confidence,
        partition_count
    FROM incidents
    LEFT JOIN places ON places.cluster = incidents.cluster AND places.incident_id = incidents.incident_id
    WHERE duplicates_min > 0 OR duplicates_max > 0
)
SELECT * FROM found
WHERE happened_at >= CAST(:since AS TIMESTAMP)
ORDER BY
    coalesce(records_max, records_min) DESC, happened_at DESC, cluster, group_id, known_from, what, topic, partition
