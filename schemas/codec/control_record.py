"""Reads and writes control records that end a transaction.

The sources are `ControlRecordType.java` and `EndTransactionMarker.java`. As in Kafka, later versions
are read as version 0, and bytes after its fields are tolerated.
"""

from dataclasses import dataclass

from groupledger.schemas.codec.errors import DecodeError, UnknownControlTypeError
from groupledger.schemas.codec.protocol_message import ProtocolCodec, ProtocolMessage
from groupledger.schemas.wire.control_record import ABORT, COMMIT, CONTROL_KEY, END_TRANSACTION_MARKER

_KEY = ProtocolCodec(CONTROL_KEY)
_VALUE = ProtocolCodec(END_TRANSACTION_MARKER)


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Says how a transaction of the batch's producer ended, and the epoch of its transaction coordinator."""

    committed: bool
    coordinator_epoch: int


def decode_end_transaction(key: bytes, value: bytes) -> EndTransaction:
    """Returns the marker. Raises DecodeErrors only: `unknown_control_type` for the other control records."""
    try:
        control_type = _KEY.decode(key).fields["type"]
        if control_type not in (ABORT, COMMIT):
            raise UnknownControlTypeError(f"control type {control_type}")
    except DecodeError as error:
        error.part = "key"
        raise
    try:
        epoch = _VALUE.decode(value).fields["coordinator_epoch"]
    except DecodeError as error:
        error.part = "value"
        raise
    return EndTransaction(control_type == COMMIT, epoch)


def encode_end_transaction(marker: EndTransaction) -> tuple[bytes, bytes]:
    control_type = COMMIT if marker.committed else ABORT
    return (
        _KEY.encode(ProtocolMessage(0, {"type": control_type})),
        _VALUE.encode(ProtocolMessage(0, {"coordinator_epoch": marker.coordinator_epoch})),
    )
