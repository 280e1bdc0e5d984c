"""What messages say of their causes: rules, the keys they read, and who was meant by a key."""

from app.tracker.links.names import NO_NAMES, Edge, Key, Names

__all__ = ["NO_NAMES", "Edge", "Key", "Names"]
