"""A broker in memory, seeded and pure, that emits the firehose's records and knows the truth.

`manners` has what differs between versions, `broker` the queues and what happens in them, `script`
draws acts of programs and shortens a list of them, `judged` holds the tracker's answers against the
truth, and `real` plays the same acts on a real broker, whose records must be the same.
"""
