"""Defines Kafka's own facts, each once, in pure Python without Spark and without the ledger's words.

    errors             error codes and their names
    api_keys           API numbers and their names, and which of the APIs are about groups
    names              topics, the zero UUID, the client that may write to internal topics
    topic_partition    a topic and a partition number, the pair by which Kafka names a partition
    request_fields     the fields of requests and answers about groups, as the request log prints them
    request_line       the fields around these bodies
    log_time           the time of a log line, and the instant that it means
    log4j_line         the frame that log4j puts around every message, written and read
    log_template       a text with names in it, rendered from the names and split into them
    coordinator_log    group coordinators' lines in the server log, a template for each text
    rebalance_reasons  coordinators' reasons for a rebalance, and clients' reasons

The reference coordinator and the simulator write by these tables; the importers of logs read by the same ones. The
formats of records are in `schemas.wire`.
"""
