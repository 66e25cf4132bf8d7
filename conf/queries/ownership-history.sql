-- Every owner that a partition of a topic had, in the order of the log.
-- :topic =        The topic.
-- :partition = 0  Its partition.

SELECT
    cluster, group_id, incarnation, member_id, other_member_ids, client_id, from_generation, to_generation, valid_from,
    valid_to, is_start_known, is_end_known
FROM assignments
WHERE topic = :topic AND partition = CAST(:partition AS INT)
ORDER BY cluster, group_id, from_offset
