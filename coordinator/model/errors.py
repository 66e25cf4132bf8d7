"""Defines the exceptions for operations in which Kafka throws, and the response errors for appends that fail.

Refusals are values of `schemas.kafka.errors.Error`: a refused request is answered, and the coordinator continues. Code
about KIP-848 groups raises `RefusedError`, which its handler turns into that answer. `IllegalStateError` is raised
where Kafka throws IllegalStateException or another unchecked exception: the operation stops at that point, the changes
that it has made before stay, and the request is answered with UNKNOWN_SERVER_ERROR.
"""

from groupledger.schemas.kafka.errors import Error


class IllegalStateError(Exception):
    """The operation reached a point at which Kafka throws an unchecked exception."""


class RefusedError(Exception):
    """A request about a KIP-848 group has to be answered with this error, and writes no records."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.name)
        self.error = error


_RESPONSE_ERROR_OF_FAILED_APPEND = {
    Error.UNKNOWN_TOPIC_OR_PARTITION: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS: Error.COORDINATOR_NOT_AVAILABLE,
    Error.REQUEST_TIMED_OUT: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_LEADER_OR_FOLLOWER: Error.NOT_COORDINATOR,
    Error.KAFKA_STORAGE_ERROR: Error.NOT_COORDINATOR,
    Error.MESSAGE_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
    Error.RECORD_LIST_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
    Error.INVALID_FETCH_SIZE: Error.UNKNOWN_SERVER_ERROR,
}


def response_error_of_failed_append(append_error: Error) -> Error:
    """Returns the error with which a request is answered if its records could not be appended because of
    `append_error`."""
    return _RESPONSE_ERROR_OF_FAILED_APPEND.get(append_error, append_error)
