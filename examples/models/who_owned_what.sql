-- A row for each host and partition: how often it got the partition, and for how long it had it in all. Intervals that are
-- still open count up to the last instant of any.
WITH newest AS (
    SELECT max(coalesce(valid_to, valid_from)) AS at
    FROM assignments
),

tenures AS (
    SELECT
        assignments.cluster,
        assignments.group_id,
        assignments.topic,
        assignments.partition,
        members.client_host,
        coalesce(assignments.valid_to, newest.at) - assignments.valid_from AS held
    FROM assignments
    CROSS JOIN newest
    LEFT JOIN members
        ON members.cluster = assignments.cluster
        AND members.group_id = assignments.group_id
        AND members.incarnation = assignments.incarnation
        AND members.member_id = assignments.member_id
        AND members.from_offset <= assignments.from_offset
        AND (members.to_offset IS NULL OR members.to_offset > assignments.from_offset)
)

SELECT
    cluster,
    group_id,
    topic,
    partition,
    client_host,
    count(*) AS times,
    CAST(round(sum(epoch(held))) AS BIGINT) AS held_seconds
FROM tenures
GROUP BY cluster, group_id, topic, partition, client_host
ORDER BY cluster, group_id, topic, partition, times DESC, client_host
