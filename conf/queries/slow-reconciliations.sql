-- Which members of KIP-848 groups waited for which partitions, who still held these, and how long it took. A wait that
-- has not ended yet has no end.
-- :since = 1970-01-01T00:00:00Z  Only what began then or later.

SELECT
    cluster, group_id, incarnation, member_epoch AS epoch, wait.topic, wait.partition, wait.held_by,
    member_id AS waiting_member_id, min(targeted_at) AS waited_since,
    CASE WHEN bool_or(valid_to IS NULL) THEN NULL ELSE max(valid_to) END AS waited_until
FROM (SELECT *, explode(waits_for) AS wait FROM member_epochs)
WHERE targeted_at >= CAST(:since AS TIMESTAMP)
GROUP BY cluster, group_id, incarnation, member_epoch, wait.topic, wait.partition, wait.held_by, member_id
ORDER BY cluster, group_id, incarnation, epoch, wait.topic, wait.partition, wait.held_by, waiting_member_id
