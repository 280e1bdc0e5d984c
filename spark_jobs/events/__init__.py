"""Stored and archived events, in slices that tasks read."""
