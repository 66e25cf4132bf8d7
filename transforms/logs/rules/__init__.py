"""Parses the lines of a broker's request log and server log. Pure Python: a line or an entry goes in, a row or the
reason for quarantine comes out.

    request_log        a line of the request log becomes a row of `requests`
    request_columns    reads groups, members and partitions from the JSON of each API
    server_log         entries of the server log become rows of `coordinator_events`
    wrapped_lines      removes what containers write around lines, and joins lines that they cut
    prefixes           what containers and collectors write before a line, a layer at a time
    json_lines         lines that are JSON: laid out so by a logging library, or wrapped by a container or a service
    repeated_hours     the two passes of an hour that a change of the clocks repeats, by the order of the lines
    rebalance_reasons  why a coordinator says that it prepares a rebalance, and the trigger that this is

What Kafka itself writes, texts and field names, is in `schemas.kafka`.

Rules
- A line becomes a row, or is quarantined with a reason, or is about something else and only counted. No content of a
  log raises an error.
- The request log is JSON, escaped by the broker: text that a client wrote can't be mistaken for the broker's. The
  server log is plain text, so there it can be mistaken: `is_certain` says whether a line can be read in one way only.
- Most times in logs have no zone, so the zone is a parameter. The order of lines or a container's time decides to which
  pass of a repeated hour a line belongs. If neither decides, `is_time_ambiguous` is set and the row has the earlier
  instant.
"""
