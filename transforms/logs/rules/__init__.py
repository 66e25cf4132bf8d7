"""The lines of a broker's two logs, read: pure Python, a line or an entry in, a row or the reason why not out.

    request_log        a line of the request log becomes a row of `requests`
    request_columns    what the JSON of each API says about groups, members and partitions
    server_log         entries of the server log become rows of `coordinator_events`
    rebalance_reasons  why a coordinator says that it prepares a rebalance, and the trigger that this is

What Kafka itself writes, texts and field names, is in `schemas.kafka`.

Rules
- A line is a row, or it is quarantined with a reason, or it is about something else and only counted. Nothing that a
  log may hold raises anything.
- The request log is JSON, escaped by the broker: what a client wrote can't be taken for something else. The server log
  is plain text, and can: what a reading rests on is said by `is_certain`.
- Times in logs have no zone: it is a parameter. An hour that a change of the clocks repeats is read as its first.
"""
