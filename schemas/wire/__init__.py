"""The wire formats of Kafka up to 4.4 as data: `model` has their vocabulary, `record_types` lists all record types."""
