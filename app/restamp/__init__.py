"""Stamping a trace's stored events anew, by other rules of participants and links.

`restamper` computes the new stamps and is pure; `replay` reads the events, puts the new stamps
aside and swaps them in. `process` runs it in a process of its own, which `job` starts and follows.
The SQL stays with the store (`app.store.restamps`): the swap is one transaction with its
participants, aliases, keys and links, and no other room loads SQLAlchemy. The values between the
two are in `app.stored.restamps`.
"""
