"""Everything that talks to the broker: firehose parsing, the consumer, the management API."""
