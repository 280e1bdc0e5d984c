"""Losses of the firehose: noticed by marks, counters and queues, and recorded as gaps."""
