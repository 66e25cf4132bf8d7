"""The formats of a Connect worker's metadata and of its assignment.

The sources are `ConnectProtocol.java` (version 0, eager) and `IncrementalCooperativeConnectProtocol.java` (versions 1
and 2, which differ only in the number). An int16 version leads, then come the fields; no version is flexible. From
version 1 an assignment is a change: `assignment` lists new connectors and tasks, `revoked` those that the worker loses.
`allocation` is the worker's present assignment, with an int16 version of its own. Task -1 is the connector itself.
"""

from groupledger.schemas.wire.model import Array, Field, Message, Primitive, Struct, since

CONNECTOR_ASSIGNMENT = Struct(
    "ConnectorAssignment",
    (Field("connector", Primitive.STRING), Field("tasks", Array(Primitive.INT32))),
)

METADATA = Message(
    "ConnectMetadata",
    (
        Field("url", Primitive.STRING),
        Field("config-offset", Primitive.INT64),
        Field(
            "allocation",
            Primitive.BYTES,
            since(1),
            nullable=since(1),
            default=None,
            may_be_missing=since(1),
        ),
    ),
    latest_version=2,
)

ASSIGNMENT = Message(
    "ConnectAssignment",
    (
        Field("error", Primitive.INT16),
        Field("leader", Primitive.STRING),
        Field("leader-url", Primitive.STRING),
        Field("config-offset", Primitive.INT64),
        Field(
            "assignment",
            Array(CONNECTOR_ASSIGNMENT),
            nullable=since(1),
            default=None,
            may_be_missing=since(1),
        ),
        Field(
            "revoked",
            Array(CONNECTOR_ASSIGNMENT),
            since(1),
            nullable=since(1),
            default=None,
            may_be_missing=since(1),
        ),
        Field("delay", Primitive.INT32, since(1), may_be_missing=since(1), column="delay_ms"),
    ),
    latest_version=2,
)
