"""The codec turns bytes of `__consumer_offsets` into values and back, in pure Python.

`records` reads and writes whole records; `consumer_protocol`, `connect_protocol` and `user_data` read
what clients put into a group's members; `control_record` reads transaction markers; `json_form` shows a
record as Kafka's tool does. `engine` drives all of them by the formats in `schemas.wire`. For broken
bytes they raise what `errors` lists, and `digest` identifies a codec.
"""
