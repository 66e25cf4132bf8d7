-- Clients whose members come and go: many short tenures of one client id.
-- :at_most_s = 300  Seconds that a short tenure lasts at most.

SELECT
    cluster,
    group_id,
    client_id,
    count(*) AS tenures,
    count_if(unix_millis(left_at) - unix_millis(joined_at) <= CAST(:at_most_s AS BIGINT) * 1000) AS short_tenures,
    count(DISTINCT client_host) AS hosts,
    max(joined_at) AS last_joined_at
FROM members
GROUP BY cluster, group_id, client_id
HAVING short_tenures > 0
ORDER BY short_tenures DESC, cluster, group_id, client_id
