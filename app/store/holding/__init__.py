"""Holders of the traces: which of several services writes to which."""
