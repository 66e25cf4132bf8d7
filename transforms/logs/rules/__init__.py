"""The lines of a broker's two logs, read: pure Python, a line or an entry in, a row or the reason why not out.

    request_log        a line of the request log becomes a row of `requests`
    request_columns    what the JSON of each API says about groups, members and partitions
    server_log         entries of the server log become rows of `coordinator_events`
    wrapped_lines      takes lines out of what containers write around them, and joins those that they cut
    prefixes           what containers and collectors write around a line, a layer at a time
    json_lines         lines that are JSON: laid out so by a logging library, or wrapped by a container or a service
    repeated_hours     the two passes of an hour that a change of the clocks repeats, by the order of the lines
    rebalance_reasons  why a coordinator says that it prepares a rebalance, and the trigger that this is

What Kafka itself writes, texts and field names, is in `schemas.kafka`.

Rules
- A line is a row, or it is quarantined with a reason, or it is about something else and only counted. Nothing that a
  log may hold raises anything.
- The request log is JSON, escaped by the broker: what a client wrote can't be taken for something else. The server log
  is plain text, and can: what a reading rests on is said by `is_certain`.
- Most times in logs have no zone: it is a parameter. Which pass of a repeated hour a line is of, order or a container
  decides; where neither does, the row says so (`is_time_ambiguous`), and has the earlier instant.
"""
