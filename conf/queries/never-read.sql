-- What was never read, or would be: records that a group was moved past, that retention removed before it read them, or
-- that incidents count as lost. At most so many: some offsets hold no record. To read them, use another group.
-- :since = 1970-01-01T00:00:00Z  Only from then on.

WITH losses AS (
    SELECT
        cluster, group_id, topic, partition, happened_at, offset_before AS first_offset, offset_after - 1 AS last_offset,
        records_skipped, CASE WHEN kind = 'skipped' THEN 'offset_skip' ELSE kind END AS kind_of_incident
    FROM offset_events
    WHERE records_skipped > 0
), places AS (
    SELECT
        cluster, incident_id,
        CASE WHEN count(DISTINCT place.topic) = 1 THEN min(place.topic) END AS topic,
        CASE WHEN count(*) = 1 THEN min(place.partition) END AS partition
    FROM (SELECT cluster, incident_id, explode(partitions) AS place FROM incidents)
    GROUP BY cluster, incident_id
), found AS (
    SELECT
        incidents.cluster, incidents.group_id, coalesce(losses.happened_at, first_seen_at) AS happened_at, kind AS what,
        coalesce(losses.topic, places.topic) AS topic, coalesce(losses.partition, places.partition) AS partition,
        first_offset, last_offset, coalesce(records_skipped, never_read_max) AS records_max, evidence, confidence
    FROM incidents
    LEFT JOIN losses
        ON losses.cluster = incidents.cluster AND losses.group_id = incidents.group_id AND kind_of_incident = kind
        AND losses.happened_at BETWEEN first_seen_at AND last_seen_at
    LEFT JOIN places ON places.cluster = incidents.cluster AND places.incident_id = incidents.incident_id
    WHERE never_read_max > 0
)
SELECT * FROM found
WHERE happened_at >= CAST(:since AS TIMESTAMP)
ORDER BY records_max DESC, happened_at DESC, cluster, group_id, what, topic, partition, first_offset
