-- The view offset_commits in SQL that Spark, DuckDB and their like share: the same rows and columns as
-- transforms/offset_commits.py, which tells what they mean. Give the six names coordinator_records, coverage, generations, assignments, members and groups whatever your engine calls the
-- tables. Order is the log's: every "newest" is the one with the greatest kafka_offset.

WITH stretch AS (
    SELECT
        cluster, kafka_partition, from_offset, to_offset, completeness,
        coalesce(
            max(CASE WHEN completeness = 'unknown' THEN to_offset END)
                OVER (PARTITION BY cluster, kafka_partition ORDER BY from_offset),
            0
        ) AS known_from
    FROM coverage
),
log AS (
    SELECT
        r.cluster, r.kafka_partition, r.kafka_offset, r.kafka_timestamp, r.group_id, r.is_tombstone,
        r.offset_commit.topic AS topic,
        r.offset_commit.partition AS partition,
        CASE WHEN r.offset_commit.offset >= 0 THEN r.offset_commit.offset END AS committed_offset,
        CASE WHEN r.offset_commit.leader_epoch >= 0 THEN r.offset_commit.leader_epoch END AS leader_epoch,
        r.offset_commit.metadata AS metadata,
        CASE WHEN r.offset_commit.topic_id <> 'AAAAAAAAAAAAAAAAAAAAAA' THEN r.offset_commit.topic_id END AS topic_id,
        r.offset_commit.commit_timestamp_ms AS commit_timestamp_ms,
        coalesce(s.completeness = 'tailed', false) AS is_tailed,
        s.to_offset AS stretch_end,
        s.known_from
    FROM coordinator_records AS r
    LEFT JOIN stretch AS s
        ON s.cluster = r.cluster AND s.kafka_partition = r.kafka_partition
            AND r.kafka_offset >= s.from_offset AND r.kafka_offset < s.to_offset
    WHERE r.record_type IN ('offset_commit', 'legacy_offset_commit') AND r.decode_error IS NULL
),
-- For each commit: the newest generation below it, the newest interval of ownership, and the commit before.
generation_event AS (
    SELECT cluster, group_id, kafka_offset, kafka_offset AS generation_offset, false AS is_commit FROM generations
    UNION ALL
    SELECT cluster, group_id, kafka_offset, NULL, true FROM log
),
with_generation AS (
    SELECT
        cluster, group_id, kafka_offset, is_commit,
        max(generation_offset) OVER (
            PARTITION BY cluster, group_id ORDER BY kafka_offset
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS generation_offset
    FROM generation_event
),
interval_event AS (
    SELECT
        cluster, group_id, topic, partition, from_offset AS kafka_offset, from_offset AS interval_offset,
        CAST(NULL AS BIGINT) AS commit_offset
    FROM assignments
    UNION ALL
    SELECT cluster, group_id, topic, partition, kafka_offset, NULL, kafka_offset FROM log
),
with_interval AS (
    SELECT
        cluster, group_id, kafka_offset, commit_offset,
        max(interval_offset) OVER (
            PARTITION BY cluster, group_id, topic, partition ORDER BY kafka_offset
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS interval_offset,
        max(commit_offset) OVER (
            PARTITION BY cluster, group_id, topic, partition ORDER BY kafka_offset
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_offset
    FROM interval_event
),
stated AS (
    SELECT
        cluster, group_id, kafka_offset, incarnation, generation, member_count, is_ownership_known, to_offset, ended_by,
        lead(incarnation) OVER (PARTITION BY cluster, group_id ORDER BY kafka_offset) AS next_incarnation
    FROM generations
),
first_life AS (
    SELECT cluster, group_id, min(incarnation) AS first_incarnation FROM generations GROUP BY cluster, group_id
),
placed AS (
    SELECT
        log.*, wi.interval_offset, wi.before_offset,
        newest.incarnation AS at_incarnation, newest.generation AS at_generation, newest.member_count, newest.is_ownership_known,
        coalesce(log.kafka_offset <= g.last_kafka_offset, false) AS is_folded,
        coalesce(newest.to_offset IS NULL OR log.kafka_offset < newest.to_offset, true) AND newest.kafka_offset IS NOT NULL
            AS is_in_force,
        log.is_tailed OR coalesce(newest.to_offset >= log.stretch_end, true) AS is_exact,
        coalesce(newest.ended_by = 'tombstone', false) AS ended_by_tombstone,
        coalesce(
            CASE WHEN newest.kafka_offset IS NULL THEN f.first_incarnation ELSE newest.next_incarnation END, g.incarnation
        ) AS latest
    FROM log
    JOIN with_generation AS wg
        ON wg.is_commit AND wg.cluster = log.cluster AND wg.group_id = log.group_id
            AND wg.kafka_offset = log.kafka_offset
    JOIN with_interval AS wi
        ON wi.cluster = log.cluster AND wi.group_id = log.group_id AND wi.commit_offset = log.kafka_offset
    LEFT JOIN stated AS newest
        ON newest.cluster = log.cluster AND newest.group_id = log.group_id AND newest.kafka_offset = wg.generation_offset
    LEFT JOIN groups AS g ON g.cluster = log.cluster AND g.group_id = log.group_id
    LEFT JOIN first_life AS f ON f.cluster = log.cluster AND f.group_id = log.group_id
),
lived AS (
    SELECT
        *,
        is_folded AND is_in_force AND is_exact AS is_known,
        coalesce(
            at_incarnation + CASE WHEN ended_by_tombstone AND NOT is_in_force THEN 1 ELSE 0 END, 1
        ) AS earliest
    FROM placed
),
owned AS (
    SELECT
        l.*,
        CASE
            WHEN l.is_known THEN l.at_incarnation
            WHEN l.is_folded AND l.earliest = l.latest THEN l.earliest
        END AS incarnation,
        CASE WHEN l.is_known AND l.member_count > 0 THEN l.at_generation END AS committer_generation,
        a.member_id, a.incarnation AS owner_incarnation, a.to_offset AS interval_end,
        cardinality(a.other_member_ids) = 0 AS is_single,
        coalesce(l.kafka_offset < m.to_offset, true) AS is_member,
        b.kafka_offset AS before_kafka_offset, b.committed_offset AS before_committed_offset,
        coalesce(l.topic_id = b.topic_id, true) AS is_same_topic
    FROM lived AS l
    LEFT JOIN assignments AS a
        ON a.cluster = l.cluster AND a.group_id = l.group_id AND a.topic = l.topic AND a.partition = l.partition
            AND a.from_offset = l.interval_offset
    LEFT JOIN members AS m
        ON m.cluster = a.cluster AND m.group_id = a.group_id AND m.incarnation = a.incarnation
            AND m.member_id = a.member_id
    LEFT JOIN log AS b
        ON b.cluster = l.cluster AND b.kafka_partition = l.kafka_partition AND b.kafka_offset = l.before_offset
),
attributed AS (
    SELECT
        *,
        CASE
            WHEN committer_generation IS NULL OR NOT coalesce(owner_incarnation = incarnation AND is_single, false)
                THEN 'none'
            WHEN interval_end IS NULL OR kafka_offset < interval_end THEN 'assigned'
            WHEN is_ownership_known AND is_member THEN 'previous_owner'
            ELSE 'none'
        END AS owner_attribution
    FROM owned
)
SELECT
    cluster, kafka_partition, kafka_offset, kafka_timestamp, group_id, topic, partition, committed_offset, leader_epoch,
    metadata, topic_id, commit_timestamp_ms, incarnation, committer_generation,
    CASE WHEN owner_attribution <> 'none' THEN member_id END AS owner,
    owner_attribution,
    CASE
        WHEN is_tailed AND is_same_topic AND before_kafka_offset >= known_from THEN
            CASE
                WHEN before_committed_offset > committed_offset THEN before_committed_offset - committed_offset
                WHEN before_committed_offset <= committed_offset THEN 0
            END
    END AS regression
FROM attributed
WHERE NOT is_tombstone
