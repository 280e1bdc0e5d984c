"""Assertions, and what did not hold."""
