-- `offset_commits`: one accepted offset commit per row, with its incarnation, its generation and its committer.
--
-- This is the query of the view for engines other than Spark: put CREATE VIEW offset_commits AS before it, where the
-- tables of the warehouse have their own names. It gives the rows of transforms/offsets/offset_commits.py, which says
-- what each column means and when it is null. It uses only what engines have in common: no IGNORE NULLS and no array
-- functions. The newest row up to a place in the log is found by a window over its offset, and then joined.
WITH stretch AS (  -- known_from is after the last hole before the stretch, or where one began that lost the state
    SELECT
        cluster, kafka_partition, from_offset, to_offset, completeness,
        COALESCE(
            MAX(CASE WHEN completeness = 'unknown' THEN to_offset WHEN is_state_lost THEN from_offset END)
                OVER (PARTITION BY cluster, kafka_partition ORDER BY from_offset),
            0
        ) AS known_from
    FROM coverage
),
record AS (  -- commits, and their removals
    SELECT
        cluster, kafka_partition, kafka_offset, kafka_timestamp, group_id, is_tombstone,
        offset_commit.topic AS topic,
        offset_commit.partition AS topic_partition,
        CASE WHEN offset_commit.offset >= 0 THEN offset_commit.offset END AS committed_offset,
        CASE WHEN offset_commit.leader_epoch >= 0 THEN offset_commit.leader_epoch END AS leader_epoch,
        offset_commit.metadata AS metadata,
        NULLIF(offset_commit.topic_id, 'AAAAAAAAAAAAAAAAAAAAAA') AS topic_id,
        offset_commit.commit_timestamp_ms AS commit_timestamp_ms
    FROM coordinator_records
    WHERE record_type IN ('offset_commit', 'legacy_offset_commit') AND decode_error IS NULL
),
log AS (
    SELECT
        record.*,
        COALESCE(stretch.completeness = 'complete', FALSE) AS is_complete,
        stretch.to_offset AS stretch_end,
        stretch.known_from,
        LAG(record.kafka_offset) OVER of_partition AS offset_before,
        LAG(record.committed_offset) OVER of_partition AS committed_before,
        LAG(record.topic_id) OVER of_partition AS topic_id_before
    FROM record
    LEFT JOIN stretch
        ON record.cluster = stretch.cluster
        AND record.kafka_partition = stretch.kafka_partition
        AND record.kafka_offset >= stretch.from_offset
        AND record.kafka_offset < stretch.to_offset
    WINDOW of_partition AS (
        PARTITION BY record.cluster, record.group_id, record.topic, record.topic_partition ORDER BY record.kafka_offset
    )
),
-- The newest generation of the group, and the newest interval of ownership of the partition.
group_log AS (
    SELECT cluster, group_id, kafka_offset, CAST(NULL AS BIGINT) AS stated_at FROM log
    UNION ALL
    SELECT cluster, group_id, kafka_offset, kafka_offset FROM generations
),
generation_before AS (
    SELECT
        cluster, group_id, kafka_offset, stated_at AS is_generation,
        MAX(stated_at) OVER (
            PARTITION BY cluster, group_id ORDER BY kafka_offset ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS stated_at
    FROM group_log
),
partition_log AS (
    SELECT cluster, group_id, topic, topic_partition, kafka_offset, CAST(NULL AS BIGINT) AS given_at FROM log
    UNION ALL
    SELECT cluster, group_id, topic, partition, from_offset, from_offset FROM assignments
),
interval_before AS (
    SELECT
        cluster, group_id, topic, topic_partition, kafka_offset, given_at AS is_interval,
        MAX(given_at) OVER (
            PARTITION BY cluster, group_id, topic, topic_partition
            ORDER BY kafka_offset ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS given_at
    FROM partition_log
),
generation AS (
    SELECT
        cluster, group_id, kafka_offset, to_offset, incarnation, generation, member_count, is_ownership_known, ended_by,
        COALESCE(group_type, 'classic') AS group_type,
        LEAD(incarnation) OVER (PARTITION BY cluster, group_id ORDER BY kafka_offset) AS next_incarnation
    FROM generations
),
incarnations AS (
    SELECT
        groups.cluster, groups.group_id, groups.incarnation AS last_incarnation, groups.last_kafka_offset AS folded_to,
        MIN(generations.incarnation) AS first_incarnation
    FROM groups
    LEFT JOIN generations ON groups.cluster = generations.cluster AND groups.group_id = generations.group_id
    GROUP BY groups.cluster, groups.group_id, groups.incarnation, groups.last_kafka_offset
),
in_force AS (
    SELECT
        log.*,
        stated.kafka_offset AS stated_at, stated.incarnation AS stated_incarnation, stated.generation,
        stated.group_type, stated.member_count, stated.is_ownership_known, stated.ended_by, stated.next_incarnation,
        incarnations.first_incarnation, incarnations.last_incarnation,
        COALESCE(log.kafka_offset <= incarnations.folded_to, FALSE) AS is_folded,
        stated.kafka_offset IS NOT NULL
            AND (stated.to_offset IS NULL OR log.kafka_offset < stated.to_offset) AS is_in_force,
        -- A compacted stretch has only the newest record of each key: a row is certain there if it held to its end.
        log.is_complete OR COALESCE(stated.to_offset >= log.stretch_end, TRUE) AS is_exact
    FROM log
    JOIN generation_before
        ON log.cluster = generation_before.cluster AND log.group_id = generation_before.group_id
        AND log.kafka_offset = generation_before.kafka_offset AND generation_before.is_generation IS NULL
    LEFT JOIN generation AS stated
        ON log.cluster = stated.cluster AND log.group_id = stated.group_id
        AND generation_before.stated_at = stated.kafka_offset
    LEFT JOIN incarnations ON log.cluster = incarnations.cluster AND log.group_id = incarnations.group_id
),
placed AS (
    SELECT
        in_force.*,
        is_folded AND is_in_force AND is_exact AS is_known,
        -- The incarnations that the commit can lie in.
        COALESCE(stated_incarnation + CASE WHEN ended_by = 'tombstone' AND NOT is_in_force THEN 1 ELSE 0 END, 1)
            AS earliest,
        COALESCE(CASE WHEN stated_at IS NULL THEN first_incarnation ELSE next_incarnation END, last_incarnation)
            AS latest
    FROM in_force
),
committer AS (
    SELECT
        placed.*,
        CASE WHEN is_known THEN stated_incarnation WHEN is_folded AND earliest = latest THEN earliest END
            AS incarnation,
        CASE WHEN is_known AND member_count > 0 THEN generation END AS generation_then
    FROM placed
),
last_owner AS (
    SELECT
        committer.*,
        given.member_id,
        given.incarnation = committer.incarnation AND CAST(given.other_member_ids AS STRING) = '[]' AS is_single,
        given.to_offset IS NULL OR committer.kafka_offset < given.to_offset AS is_assigned,
        COALESCE(committer.kafka_offset < members.to_offset, TRUE) AS is_member,
        CASE WHEN given.is_start_known THEN taken.member_epoch END AS taken_at_epoch
    FROM committer
    JOIN interval_before
        ON committer.cluster = interval_before.cluster AND committer.group_id = interval_before.group_id
        AND committer.topic = interval_before.topic AND committer.topic_partition = interval_before.topic_partition
        AND committer.kafka_offset = interval_before.kafka_offset AND interval_before.is_interval IS NULL
    LEFT JOIN assignments AS given
        ON committer.cluster = given.cluster AND committer.group_id = given.group_id
        AND committer.topic = given.topic AND committer.topic_partition = given.partition
        AND interval_before.given_at = given.from_offset
    LEFT JOIN members
        ON given.cluster = members.cluster AND given.group_id = members.group_id
        AND given.incarnation = members.incarnation AND given.member_id = members.member_id
        -- The tenure in which the interval began: an id that a client brings along may come back.
        AND given.from_offset >= members.from_offset AND COALESCE(given.from_offset < members.to_offset, TRUE)
    LEFT JOIN member_epochs AS taken
        ON given.cluster = taken.cluster AND given.group_id = taken.group_id
        AND given.incarnation = taken.incarnation AND given.member_id = taken.member_id
        AND given.from_offset = taken.from_offset
),
-- The newest step of that member, in a group of KIP-848's kind.
member_log AS (
    SELECT cluster, group_id, member_id, kafka_offset, CAST(NULL AS BIGINT) AS stepped_at
    FROM last_owner
    WHERE member_id IS NOT NULL
    UNION ALL
    SELECT cluster, group_id, member_id, from_offset, from_offset FROM member_epochs
),
step_before AS (
    SELECT
        cluster, group_id, member_id, kafka_offset, stepped_at AS is_step,
        MAX(stepped_at) OVER (
            PARTITION BY cluster, group_id, member_id
            ORDER BY kafka_offset ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS stepped_at
    FROM member_log
),
stepped AS (
    SELECT
        last_owner.*,
        step.member_epoch, step.names_assignment_epochs,
        COALESCE(
            step.member_epoch >= 0 AND (step.to_offset IS NULL OR last_owner.kafka_offset < step.to_offset)
                AND (last_owner.is_complete OR COALESCE(step.to_offset >= last_owner.stretch_end, TRUE)),
            FALSE
        ) AS is_present
    FROM last_owner
    LEFT JOIN step_before
        ON last_owner.cluster = step_before.cluster AND last_owner.group_id = step_before.group_id
        AND last_owner.member_id = step_before.member_id AND last_owner.kafka_offset = step_before.kafka_offset
        AND step_before.is_step IS NULL
    LEFT JOIN member_epochs AS step
        ON last_owner.cluster = step.cluster AND last_owner.group_id = step.group_id
        AND last_owner.incarnation = step.incarnation AND last_owner.member_id = step.member_id
        AND step_before.stepped_at = step.from_offset
),
attributed AS (
    SELECT
        stepped.*,
        CASE
            WHEN generation_then IS NULL OR NOT COALESCE(is_single, FALSE) THEN 'none'
            WHEN group_type <> 'classic' AND NOT is_present THEN 'none'
            WHEN is_assigned THEN 'assigned'
            WHEN is_ownership_known AND is_member AND (group_type = 'classic' OR is_complete) THEN 'previous_owner'
            ELSE 'none'
        END AS owner_attribution
    FROM stepped
)
SELECT
    cluster, kafka_partition, kafka_offset, kafka_timestamp, group_id, topic,
    topic_partition AS partition,
    committed_offset, leader_epoch, metadata, topic_id, commit_timestamp_ms, incarnation,
    CASE
        WHEN group_type = 'classic' THEN generation_then
        WHEN owner_attribution <> 'none' AND taken_at_epoch = member_epoch THEN member_epoch
        WHEN group_type = 'consumer' AND owner_attribution = 'previous_owner' THEN member_epoch
        WHEN group_type = 'consumer' AND owner_attribution = 'assigned' AND NOT names_assignment_epochs
            THEN member_epoch
    END AS committer_generation,
    CASE WHEN owner_attribution <> 'none' THEN member_id END AS owner,
    owner_attribution,
    -- Compaction keeps the last record of each key: the record before is the true one unless a hole lies between.
    CASE
        WHEN NOT is_complete OR offset_before < known_from OR topic_id <> topic_id_before THEN NULL
        WHEN committed_before > committed_offset THEN committed_before - committed_offset
        WHEN committed_before <= committed_offset THEN 0
    END AS regression
FROM attributed
WHERE NOT is_tombstone
