-- Records that are kept undecoded, by reason. After an upgrade of groupledger they may be readable.

SELECT
    cluster,
    decode_error,
    record_type,
    value_version,
    count(*) AS records,
    min(kafka_timestamp) AS first_at,
    max(kafka_timestamp) AS last_at
FROM coordinator_records
WHERE decode_error IS NOT NULL
GROUP BY cluster, decode_error, record_type, value_version
ORDER BY records DESC, cluster, decode_error, record_type, value_version
