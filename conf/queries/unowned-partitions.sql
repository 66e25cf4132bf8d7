-- Partitions with committed offsets that no member of a live group with members owns now: nobody reads them.

SELECT
    c.cluster, c.group_id, c.topic, c.partition, max(c.kafka_timestamp) AS last_commit_at,
    max_by(c.committed_offset, c.kafka_offset) AS committed_offset
FROM offset_commits AS c
JOIN groups AS g
    ON g.cluster = c.cluster AND g.group_id = c.group_id AND g.incarnation = c.incarnation
JOIN generations AS n
    ON n.cluster = c.cluster AND n.group_id = c.group_id AND n.is_current AND n.is_ownership_known
WHERE
    g.is_alive AND g.member_count > 0 AND g.protocol_type = 'consumer'
    AND NOT EXISTS (
        SELECT 1 FROM assignments AS a
        WHERE
            a.cluster = c.cluster AND a.group_id = c.group_id AND a.topic = c.topic AND a.partition = c.partition
            AND a.valid_to IS NULL
    )
GROUP BY c.cluster, c.group_id, c.topic, c.partition
ORDER BY last_commit_at DESC, c.cluster, c.group_id, c.topic, c.partition
