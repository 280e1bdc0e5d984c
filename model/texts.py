"""Text of messages as everything that we hand it to can hold it."""

from __future__ import annotations

# PostgreSQL's text has no NUL. Half of a surrogate pair is in no UTF-8, and so in no column of
# Arrow or Spark, in no hash, and in no JSON that others read; JSON bodies may spell one, as those
# do that cut a text in the middle of an emoji.
#
# Each step below is one of Python's own: a function called for each odd character takes 0.3 µs, and
# the sender chooses how many of these a text has.

# Bytes of a name: those of queues and users have up to 255, each stored as up to four characters.
# PostgreSQL's indexes take some 2,700 in a row.
LONGEST_NAME = 1_020


def text_of(octets: bytes) -> str:
    r"""The text of bytes; those that are not UTF-8 are kept as escapes (``\xff``)."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        odd = octets.decode("utf-8", "surrogateescape").encode("utf-8", "backslashreplace")
        return odd.replace(b"\\udc", b"\\x").decode()


def storable(text: str | bytes) -> str:
    r"""A text with escapes for what cannot be stored: ``\x00``, ``\ud83d``, bytes as ``\xff``.

    Everything else stays as it is, so that different texts stay different, except from one that
    spells the same escape out. Applied twice it changes nothing more.
    """
    if isinstance(text, bytes):
        text = text_of(text)
    # Nearly all text is ASCII, as Python knows at once.
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def storable_name(text: str) -> str:
    """A name as `storable` has it; raises `ValueError` beyond `LONGEST_NAME`."""
    name = storable(text)
    if len(name.encode()) > LONGEST_NAME:
        raise ValueError("is longer than any name")
    return name


DIRECT_REPLIES = "amq.rabbitmq.reply-to."


def is_reply(queue: str) -> bool:
    """Tell whether a queue's name is that of a channel that waits for direct replies."""
    return queue.startswith(DIRECT_REPLIES)
