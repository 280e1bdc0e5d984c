"""Read permissions of a user, as RabbitMQ applies them: which names' messages it may have.

A permission is a regular expression over names, found anywhere in a name; an empty one matches the
empty name alone, and the default exchange goes by ``amq.default``. RabbitMQ has PCRE for it, which
takes exponential time for some: a publisher could then stop the service by the name of a queue.
RE2 takes linear time instead; an expression that it does not support matches nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import re2

from app.errors import NotAuthorisedError
from model.event import Event
from model.words import EventType

_DEFAULT_EXCHANGE = "amq.default"
_ANY_NAME = frozenset({"", ".*", ".*$"})  # but for one with a line's end
# As docs/operations.md recommends: all names but ours and the broker's own, which no event has.
_ALL_BUT_OURS = r"itc\.trace(\.connections)?$|amq\.rabbitmq\.(trace|event)$"
# A lookahead at the beginning, which RE2 lacks: `(?!…)`, with groups, but none nested.
_LOOKAHEAD = re.compile(
    r"\^\(\?!(?P<unlike>(?:[^\\()\[\]]|\\.|\((?:[^\\()\[\]]|\\.)*\))*)\)(?P<like>.*)", re.DOTALL
)


class ReadPattern(NamedTuple):
    """A read permission: whether it lets a name be read, and whether every name."""

    reads: Callable[[str], bool]
    reads_all: bool


class ReadRights(msgspec.Struct, frozen=True):
    """A user's read permissions: virtual hosts and their patterns; ``patterns`` None: everything.

    Equal permissions are equal values, so that their readers share answers. ``unknown`` says why
    the broker does not tell them, if it does not.
    """

    patterns: frozenset[tuple[str, str]] | None = frozenset()
    unknown: str | None = None

    def allow(self, event: Event) -> bool:
        """Tell whether the broker would hand the event's message to the user.

        A delivery counts by its queue, a publish by any queue that it was routed to. A publish that
        was routed nowhere would reach a queue that the user binds to its exchange.
        """
        if self.patterns is None:
            return True
        pattern = _by_vhost(self.patterns).get(event.vhost)
        if pattern is None or pattern.reads_all:
            return pattern is not None
        if event.type is EventType.received:
            return event.queue is not None and pattern.reads(event.queue)
        names = event.routed_queues or (event.exchange or _DEFAULT_EXCHANGE,)
        return any(map(pattern.reads, names))

    def cover(self, vhost: str) -> bool:
        """Tell whether the broker would hand over every message of a virtual host."""
        if self.patterns is None:
            return True
        pattern = _by_vhost(self.patterns).get(vhost)
        return pattern is not None and pattern.reads_all

    def refusal(self, name: str, vhost: str) -> NotAuthorisedError:
        present = dict(self.patterns or ()).get(vhost)
        if self.unknown is not None:
            evidence = self.unknown
        elif present is None:
            evidence = f"user {name} has no permission in virtual host {vhost}"
        else:
            evidence = f"user {name} has {present!r} in virtual host {vhost}"
        return NotAuthorisedError(
            f"message content needs read permission for every queue, such as '.*': {evidence}"
        )


EVERYTHING_READ = ReadRights(None)


@functools.lru_cache(maxsize=1_024)
def _by_vhost(patterns: frozenset[tuple[str, str]]) -> dict[str, ReadPattern]:
    return {vhost: pattern_of(pattern) for vhost, pattern in patterns}


@functools.lru_cache(maxsize=1_024)
def pattern_of(pattern: str) -> ReadPattern:
    if pattern == "":
        return ReadPattern(lambda name: name == "", reads_all=False)
    lookahead = _LOOKAHEAD.fullmatch(pattern)
    like = lookahead["like"] if lookahead else pattern
    unlike = lookahead["unlike"] if lookahead else None
    if like.removeprefix("^") in _ANY_NAME and unlike in (None, _ALL_BUT_OURS):
        return ReadPattern(lambda name: True, reads_all=True)
    try:
        if unlike is None:
            return ReadPattern(_searcher(pattern), reads_all=False)
        is_like, is_unlike = _searcher(f"^(?:{like})"), _searcher(f"^(?:{unlike})")
    except re2.error:
        return ReadPattern(lambda name: False, reads_all=False)
    # In a name with a line's end, PCRE's `$` also matches before it.
    return ReadPattern(
        lambda name: "\n" not in name and is_like(name) and not is_unlike(name), reads_all=False
    )


def _searcher(pattern: str) -> Callable[[str], bool]:
    """Tell whether a pattern is found in a name's bytes, which is what the broker looks at."""
    options = re2.Options()
    options.log_errors = False
    options.encoding = re2.Options.Encoding.LATIN1
    compile_it: Callable[..., Any] = re2.compile
    search = compile_it(pattern.encode(), options).search
    return lambda name: search(name.encode(errors="surrogatepass")) is not None
