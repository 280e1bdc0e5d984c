"""Participants, matching and stamping: pure, synchronous, no I/O."""
