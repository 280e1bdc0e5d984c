"""Drills: is what the service stores right, whatever happens to it? Each counts what is wrong."""
