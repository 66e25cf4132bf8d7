"""The ledger's own words, each declared once: what a column may say that Kafka has no name for.

A class holds the words of one column. They are plain strings, since rows, SQL and JSON hold them as strings. Kafka's
own names (errors, APIs, topics, the texts of its logs) are in `schemas.kafka`.
"""


class Completeness:
    """Says how much of a stretch of a `__consumer_offsets` partition the ledger has read (`coverage.completeness`)."""

    TAILED = "tailed"  # read as it was written
    COMPACTED = "compacted"  # the first read of an old topic, thinned by Kafka's log cleaner
    UNKNOWN = "unknown"  # a hole: nobody read it
