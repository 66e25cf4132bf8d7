"""Converts between UUIDs and Kafka's text form of topic and cluster ids, 22 characters of URL-safe base64."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from uuid import UUID


def uuid_of(kafka_id: str) -> UUID:
    return UUID(bytes=urlsafe_b64decode(f"{kafka_id}=="))


def kafka_id_of(uuid: UUID) -> str:
    return urlsafe_b64encode(uuid.bytes).decode().rstrip("=")
