"""A conversation: a message, all that it led to, the outcome of each, and where the time went.

    deliveries.py    a copy that was handed over, and what led to it
    messages.py      a message: its publish, and its copies
    conversation.py  all messages, and what they come to
    members.py       the events by what joins them: messages, copies, causes
    assembly.py      a conversation put together from its events
    outcomes.py      what became of a message and of all
    consumers.py     who may carry it on
    pace.py          how long a participant is waited for, by its own past
    shape.py         keys, loops, amplification
    sentences.py     what people read

A message is a publish and its deliveries. Times are when trace messages reached the service, in µs.
Nothing here does I/O.
"""
