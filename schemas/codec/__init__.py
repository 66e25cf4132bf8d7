"""Bytes of `__consumer_offsets` to values and back, in pure Python.

`records` reads and writes whole records; `consumer_protocol`, `connect_protocol` and `user_data` read
what clients put into a group's members, `control_record` transaction markers; `json_form` shows a
record as Kafka's tool does. All are driven by the formats in `schemas.wire` through `engine`, and raise
for broken bytes what `errors` lists.
"""
