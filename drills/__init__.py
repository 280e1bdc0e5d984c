"""Drills: is what the service stores correct, whatever happens to it? Each counts the errors."""
