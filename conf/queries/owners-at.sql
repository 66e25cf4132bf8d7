-- Who owned the partitions of a group at an instant. Only what is certain: `groupledger owner` also says unowned from
-- unknown.
-- :group =  The group.
-- :at =     The instant, as 2026-01-31T14:03:00Z.

SELECT
    cluster, topic, partition, member_id, client_id, group_instance_id, from_generation, valid_from, valid_to
FROM assignments
WHERE
    group_id = :group
    AND valid_from <= CAST(:at AS TIMESTAMP)
    AND coalesce(valid_to > CAST(:at AS TIMESTAMP), true)
    AND coalesce(is_end_known, true)
ORDER BY cluster, topic, partition, member_id
