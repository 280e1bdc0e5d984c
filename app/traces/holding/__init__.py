"""Holding of traces by services: which service runs which, and who takes over."""
