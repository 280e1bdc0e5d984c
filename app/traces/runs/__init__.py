"""Runs: one stream of trace messages each, from the checkpoint to the store."""
