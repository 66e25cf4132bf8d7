"""The wire formats of Kafka 4.2 as data: `model` has their vocabulary, `record_types` lists all record types."""
