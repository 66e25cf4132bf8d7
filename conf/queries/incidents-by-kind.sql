-- What befell each group: incidents by kind, how they are known, how many records were processed twice or never read.
-- :since = 1970-01-01T00:00:00Z  Only what was seen from then on.

SELECT
    cluster,
    group_id,
    kind,
    severity,
    evidence,
    count(*) AS incidents,
    sum(occurrences) AS occurrences,
    count(DISTINCT episode_id) AS episodes,
    sum(duplicates_min) AS duplicates_at_least,
    sum(never_read_max) AS never_read_at_most,
    max(last_seen_at) AS last_seen_at
FROM incidents
WHERE last_seen_at >= CAST(:since AS TIMESTAMP)
GROUP BY cluster, group_id, kind, severity, evidence
ORDER BY incidents DESC, last_seen_at DESC, cluster, group_id, kind, severity, evidence
