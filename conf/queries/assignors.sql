-- Which assignor each live group uses, and whether its rebalances are cooperative.

SELECT
    g.cluster,
    g.group_id,
    g.group_type,
    g.protocol_type,
    g.protocol,
    g.member_count,
    count(*) FILTER (WHERE r.protocol_kind = 'eager') AS eager_rebalances,
    count(*) FILTER (WHERE r.protocol_kind = 'cooperative') AS cooperative_rebalances
FROM groups AS g
LEFT JOIN rebalances AS r
    ON r.cluster = g.cluster AND r.group_id = g.group_id AND r.incarnation = g.incarnation AND r.from_generation > 0
WHERE g.is_alive
GROUP BY ALL
ORDER BY g.cluster, g.group_id
