-- What fills __consumer_offsets: records by type and day.

SELECT
    cluster,
    ingest_date,
    record_type,
    count(*) AS records,
    count(*) FILTER (WHERE is_tombstone) AS tombstones,
    count(DISTINCT group_id) AS group_count
FROM coordinator_records
GROUP BY cluster, ingest_date, record_type
ORDER BY ingest_date DESC, records DESC, cluster, record_type
