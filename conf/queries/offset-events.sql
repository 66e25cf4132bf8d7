-- Offsets that were reset, expired or were deleted: what happened to them other than going on.
-- :since = 1970-01-01T00:00:00Z  Only from then on.

SELECT
    cluster, group_id, topic, partition, happened_at, kind, offset_before, offset_after, records_repeated, records_skipped,
    cause, evidence, age_ms, committed_at
FROM offset_events
WHERE happened_at >= CAST(:since AS TIMESTAMP)
ORDER BY happened_at DESC, cluster, group_id, topic, partition, kafka_offset DESC
