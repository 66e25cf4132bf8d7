"""Control records that end a transaction: `ControlRecordType.java` and `EndTxnMarker.json`.

The key is an int16 version and an int16 type, the value an int16 version and the epoch of the
transaction coordinator. Consumers never see them, but a log segment holds them.
"""

from groupledger.schemas.wire.model import Field, Message, Primitive

CONTROL_KEY = Message("ControlRecordType", (Field("type", Primitive.INT16),))

ABORT = 0
COMMIT = 1

END_TRANSACTION_MARKER = Message("EndTxnMarker", (Field("coordinatorEpoch", Primitive.INT32),))
