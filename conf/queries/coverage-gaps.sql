-- Where the ledger does not know all: holes, and what compaction had thinned before the first read.

SELECT cluster, completeness, kafka_partition, from_offset, to_offset, to_offset - from_offset AS offsets, to_time
FROM coverage
WHERE completeness <> 'complete'
ORDER BY cluster, completeness DESC, kafka_partition, from_offset
