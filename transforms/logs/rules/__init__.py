"""The lines of a broker's two logs, read: pure Python, a line or an entry in, a row or the reason why not out.

    log4j_line            the frame that log4j puts around every message: time, level, logger
    request_log           a line of the request log becomes a row of `requests`
    request_fields        what the JSON of each API says about groups, members and partitions
    server_log            entries of the server log become rows of `coordinator_events`
    server_log_templates  what the two group coordinators say, and the kind of each event
    rebalance_reasons     why a coordinator says that it prepares a rebalance, and the trigger that this is
    template              text with names in it, split into the names, and whether that can be done in one way only
    privacy               principals and client addresses: kept, hashed with a key, or left out
    kafka_names           Kafka's numbers and names of APIs and errors

Rules
- A line is a row, or it is quarantined with a reason, or it is about something else and only counted. Nothing that a
  log may hold raises anything.
- The request log is JSON, escaped by the broker: what a client wrote can't be taken for something else. The server log
  is plain text, and can: what a reading rests on is said by `is_certain`.
- Times in logs have no zone: it is a parameter. An hour that a change of the clocks repeats is read as its first.

Where the formats come from: Kafka's RequestConvertToJson and RequestChannel (KIP-673), its JSON message definitions,
the Scala GroupCoordinator of 2.8, 3.0 and 3.9, the Java GroupMetadataManager of 4.2, and logs of real 4.2 brokers.
"""
