"""Errors of clock operations, one class for each party that can be at fault."""


class ClockError(ValueError):
    """Root of the errors that this package raises on purpose."""


class OverlapError(ClockError):
    """Two stamps own a part of the id space in common, so they cannot be joined."""


class AnonymousError(ClockError):
    """An anonymous stamp owns nothing, so no event can happen on it."""


class TreeError(ClockError):
    """Not an id tree, an event tree or a path: wrong shape, wrong type, negative number."""


class MalformedError(ClockError):
    """Bytes that no stamp encodes to: empty, cut off, trailing, not in normal form."""


class PoolError(ClockError):
    """An interval given back that is not dealt, or more intervals asked for than there are."""
