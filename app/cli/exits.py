"""Exit codes: a runbook branches on them, so each has one meaning and keeps it."""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """The process's exit status. ``docs/cli.md`` has the same table."""

    ok = 0  # done; for compare and chain: the events are ordered
    failure = 1  # it went wrong; stderr says why
    usage = 2  # the command line, or what it asks for, is invalid
    concurrent = 3  # neither event had a part in the other: there is no chain
    not_found = 4  # no such event, virtual host, job or export, or not visible to this user
    not_authorised = 5  # no credentials, wrong ones, or too few rights
    unavailable = 6  # the service, the broker or the database cannot be reached
    incomplete = 7  # with --require-complete: the answer spans a gap
    unsound = 8  # with --require-sound: participants may be parts of one program
    undecided = 9  # it is not known whether events are concurrent, or an assertion holds


class CommandError(Exception):
    """Ends a command: one line on stderr, one exit code."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code


EXIT_OF_STATUS = {
    400: Exit.usage,
    401: Exit.not_authorised,
    403: Exit.not_authorised,
    404: Exit.not_found,
    503: Exit.unavailable,
}
