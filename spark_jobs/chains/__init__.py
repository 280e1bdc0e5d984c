"""Chains between two events: planned, searched for in the store or an archive, read in slices."""
