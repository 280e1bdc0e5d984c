"""The broker's edge: firehose parsing, the consumer, the management API."""
