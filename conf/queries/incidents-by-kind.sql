-- What befell each group: incidents by kind, with how they are known and how many records were processed twice at least.
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
    max(last_seen_at) AS last_seen_at
FROM incidents
WHERE last_seen_at >= CAST(:since AS TIMESTAMP)
GROUP BY cluster, group_id, kind, severity, evidence
ORDER BY incidents DESC, last_seen_at DESC, cluster, group_id, kind, severity, evidence
