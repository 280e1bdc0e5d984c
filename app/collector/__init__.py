"""Spans on their way to a collector of OpenTelemetry, in a process of its own beside capture."""
