-- What probably started the rebalances of each group. The trigger is inferred from the records; its mean confidence says
-- how far to believe it.
-- :since = 1970-01-01T00:00:00Z  Only from then on.

SELECT
    cluster,
    group_id,
    coalesce(inferred_trigger, 'unknown') AS probable_trigger,
    count(*) AS rebalances,
    round(avg(inferred_trigger_confidence), 2) AS mean_confidence,
    max(happened_at) AS last_at
FROM rebalances
WHERE happened_at >= CAST(:since AS TIMESTAMP) AND from_generation > 0
GROUP BY cluster, group_id, coalesce(inferred_trigger, 'unknown')
ORDER BY rebalances DESC, cluster, group_id, probable_trigger
