-- Clients whose members come and go: many short tenures of one client id.
-- :at_most_s = 300  Seconds that a short tenure lasts at most.

SELECT
    cluster,
    group_id,
    client_id,
    count(*) AS tenures,
    count(*) FILTER (WHERE left_at - joined_at <= INTERVAL '1' SECOND * CAST(:at_most_s AS INT)) AS short_tenures,
    count(DISTINCT client_host) AS hosts,
    max(joined_at) AS last_joined_at
FROM members
GROUP BY cluster, group_id, client_id
HAVING short_tenures > 0
ORDER BY short_tenures DESC, cluster, group_id, client_id
