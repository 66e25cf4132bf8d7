"""The wire formats of Kafka 4.2 as data: `model` has the words, `record_types` all record types."""
