"""The share of conversations whose spans are sent: a rule for each virtual host and exchange.

A rule's text is ``VHOST/EXCHANGE=SHARE``, both names encoded as in an address (``%2F``), ``*`` for
any, and may leave out the exchange, or both names. A share is a number from 0 to 1, of
conversations by their traces, or ``off``. Of what is not off, all that failed is sent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote

# The random part of a trace's id, as W3C's Trace Context has it: samplers elsewhere that keep a
# share by it keep the same traces.
_RANDOM_BYTES = 7
_WHOLE = 1 << 8 * _RANDOM_BYTES
_SHARE = re.compile(r"off|0|1|0?\.[0-9]{1,9}|1\.0+|0\.0+")
_NAME = re.compile(r"(?:[^%\s,=/]|%[0-9A-Fa-f]{2})+")


class SpanShare(NamedTuple):
    """The share of conversations of a virtual host and an exchange; None for nothing at all.

    Of a name None is any.
    """

    vhost: str | None
    exchange: str | None
    share: float | None


def span_shares(text: str) -> tuple[SpanShare, ...]:
    """The rules in a text, comma separated; raises `ValueError`, which says what is wrong."""
    return tuple(_share_in(part.strip()) for part in text.split(",") if part.strip())


def share_of(rules: Sequence[SpanShare], vhost: str, exchange: str) -> float | None:
    """The share that the first fitting rule says; None where none fits, or that one says off."""
    for rule in rules:
        if rule.vhost in (None, vhost) and rule.exchange in (None, exchange):
            return rule.share
    return None


def is_on(rules: Sequence[SpanShare], vhost: str) -> bool:
    """Tell whether spans of a virtual host may be sent at all."""
    for rule in rules:
        if rule.vhost in (None, vhost):
            if rule.share is not None:
                return True
            if rule.exchange is None:
                return False
    return False


def is_sampled(trace: bytes, share: float) -> bool:
    """Tell whether a trace is in a share; one that is in a smaller share is in every larger."""
    return int.from_bytes(trace[-_RANDOM_BYTES:]) >= round((1 - share) * _WHOLE)


def _share_in(text: str) -> SpanShare:
    names, sign, share = text.rpartition("=")
    if not _SHARE.fullmatch(share):
        raise ValueError(f"{text!r}: expected a share from 0 to 1, or off, such as %2F/orders=0.1")
    vhost, slash, exchange = names.partition("/")
    if (sign and not _NAME.fullmatch(vhost)) or (slash and not _NAME.fullmatch(exchange)):
        raise ValueError(f"{text!r}: expected VHOST/EXCHANGE=SHARE, %2F for / in a name")
    return SpanShare(_name(vhost), _name(exchange), None if share == "off" else float(share))


def _name(text: str) -> str | None:
    return None if text in ("", "*") else unquote(text)
