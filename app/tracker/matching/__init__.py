"""Matching: finds the publish that a delivery came from, and what else led to it.

Memories, each bounded, and beside its bound:

- **copies**: what a publish put into queues and nobody was handed yet. A first delivery takes the
  oldest copy of its fingerprint in its queue. Copies that are **lost** are gone from their queue:
  they may have died, and wait elsewhere as dead letters.
- **handovers**: the last matched deliveries. The firehose shows no acknowledgement, so any of them
  may come back, as a redelivery or as a dead letter, which its holder has led to then. Among them
  are copies that died and were handed to nobody: one death makes several dead letters.
- **queues**: the last publishers to a queue, and the last copy that it handed out.
- **kept**: the last publishes that an exchange may hand out at any time.

`searches` has what finds a delivery's cause, in order. Messages with equal fingerprints in one
queue cannot be told apart by anybody. Where one of several may be meant, there is no certain cause:
all are candidates, and one is the guess, that is taken from its memory. Of copies it is the oldest,
as queues are first in, first out; of redeliveries the one handed over least often, the newest
first: a consumer that dies is followed by a redelivery of its unacknowledged deliveries, which are
its newest.

Copies vanish without a sign: purged, expired, pushed out. So equal ones are candidates until they
are known to be gone: their queue has handed out a copy that came in clearly later, or was seen to
be empty or deleted, or their own time was over.

A **stream** keeps its messages, for any number of readers. The first delivery of a message takes
its copy, and the handover is remembered by the message's offset in the stream: each reader of that
offset is handed the same publish, equal messages or not, as a first delivery of their own.
"""
