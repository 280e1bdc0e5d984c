"""Verdicts on assertions on Spark: by links and by clocks (`clocks` is pure)."""
