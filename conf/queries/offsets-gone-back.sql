-- Commits below the commit before: a reset, or a consumer that read again.
-- :since = 1970-01-01T00:00:00Z  Only from then on.

SELECT
    cluster, group_id, topic, partition, kafka_timestamp AS committed_at, committed_offset, regression,
    committer_generation, owner, owner_attribution
FROM offset_commits
WHERE regression > 0 AND kafka_timestamp >= CAST(:since AS TIMESTAMP)
ORDER BY regression DESC, committed_at DESC, cluster, group_id, topic, partition
