"""The service's errors: one root, one class per kind of answer a caller can act on.

Nothing here knows HTTP: ``app.api.problems`` holds the one table that turns these into status
codes. The text of an error is shown to users, so it says who is wrong and what to do, and never
holds a password.
"""


class ItcError(Exception):
    """Root of every error this service raises on purpose."""


class BadRequestError(ItcError):
    """The caller asked for something that cannot be: wrong name, wrong ids, wrong combination."""


class TooLargeError(BadRequestError):
    """The caller's message, or what is packed in it, is larger than it may be."""


class WrongTypeError(BadRequestError):
    """The caller sent something in a form that nobody here reads."""


class NotFoundError(ItcError):
    """The thing that the caller named does not exist, or the caller may not see it."""


class UnseenError(NotFoundError):
    """The broker does not show the caller the virtual host: no word tells whether it is there."""


class NotTracedError(NotFoundError):
    """There never was a trace of this virtual host."""

    def __init__(self, vhost: str) -> None:
        super().__init__(f"no such trace: virtual host {vhost!r} was never traced")


class ConflictError(ItcError):
    """The request is right, but not in the present state (another policy, a running job)."""


class QuotaError(ItcError):
    """The space for what is kept is used up; somebody has to delete some."""


class CheckpointError(ConflictError):
    """A trace's stored checkpoint cannot be read, so it cannot go on before it is reset."""


class UnfitError(ItcError):
    """The database does not take what is to be stored, and never will: a value, not an outage."""


class NotAuthenticatedError(ItcError):
    """No credentials, or the broker refuses them."""


class NotAuthorisedError(ItcError):
    """Known user, too few rights."""


class TooManyRequestsError(ItcError):
    """Slow down: too many failed sign-ins, or a bounded queue is full."""


class OutageError(ItcError):
    """Something we depend on is away (broker, database, disk). Wait for it; it is not a bug."""


class UnreachableError(OutageError):
    """The broker does not answer, or breaks off without a word: perhaps for this service alone."""


class RefusedError(OutageError):
    """The broker refuses our own account's name or password: an operator has to mend that."""


class LeaseLostError(OutageError):
    """Another run has taken the trace, here or in another service: this one writes nothing more."""


class UndeliverableError(OutageError):
    """The broker broke off over a message that it cannot hand to us, and will at each attempt."""


class QueueLostError(OutageError):
    """The trace queue was taken from us, or what waited in it; ``gap`` says so of the gap."""

    def __init__(self, text: str, gap: str = "the trace queue was gone") -> None:
        super().__init__(text)
        self.gap = gap


class QueueInUseError(OutageError):
    """Somebody else consumes the trace queue."""


class ForeignQueueError(OutageError):
    """There is a queue of our name that somebody else made."""


class QueueTakenError(OutageError):
    """The trace queue belongs to a service with another database."""


class NotInstalledError(ItcError):
    """The request needs packages that this installation is without."""

    def __init__(self, lack: str, remedy: str) -> None:
        super().__init__(f"{lack}: {remedy}")
        self.lack = lack
        self.remedy = remedy


class SettingsError(ItcError):
    """The configuration cannot work; the text names the variable."""
