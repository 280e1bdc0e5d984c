"""Names of programs: a connection's name without what varies between a program's connections.

Libraries and people put the role of a connection, a counter, a process id or a random number behind
a program's name. A name that is cut too short makes one participant of two programs, which only
orders more than was so; one that is cut too little makes two participants of one program, and
misses what one of its connections caused on the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# Longer names are cut; characters behind the other bound are not even read.
LONGEST = 120
_LONGEST_READ = 250

# Client properties that name a program, the best first: NServiceBus, EasyNetQ and others, AMQP 1.0,
# Rebus. `product` and `platform` name the library, which any number of programs use.
_NAMING = (
    "connection_name",
    "endpoint_name",
    "application",
    "service",
    "container_id",
    "InputQueue",
    "ProcessName",
)
# An MQTT client's id is its identity to the broker, a trailing number included.
_WHOLE = "client_id"

# Names of libraries, and of what runs programs.
_NO_PROGRAM = frozenset(
    {"aio-pika", "aiormq", "amqplib", "bunny", "dotnet", "java", "kombu", "node", "pika"}
    | {"py-amqp", "python", "python3", "rabbitmq", "rabbitpy", "ruby", "undefined"}
)

_HEX4 = "[0-9a-f]{4}"
# Between a name and what varies; a closing bracket belongs to the name.
_SEPARATOR = r"(?:[^\w)\]}]|_)"
# Endings of names that vary; the first group is the name.
_VARIES = tuple(
    re.compile(pattern)
    for pattern in (
        # NServiceBus's connections to publish with, and to consume with; Spring's and anybody's.
        r"(.*\S)(?: Publish| MessagePump)",
        rf"(?i:(.*?){_SEPARATOR}+(?:consumer|producer|subscriber|publisher|sub|pub|reader|writer"
        r"|receiver|sender|listener))",
        r"(.*?)\s*#[0-9a-f]+:\d+",  # Spring's identity of an object, and a counter
        rf"(?i:(.*?){_SEPARATOR}*\b[0-9a-f]{{8}}-{_HEX4}-{_HEX4}-{_HEX4}-[0-9a-f]{{12}}[)\]}}]?)",
        rf"(?i:(.*?){_SEPARATOR}+(?=[a-f]*\d)[0-9a-f]{{8,40}})",  # a UUID without dashes, or a hash
        rf"(?i:(.*?){_SEPARATOR}*\bpid[\W_]?\d+[)\]]?)",
        r"(.*?)\s*(?:\(\d+\)|\[\d+\]|\{\d+\})",
        r"(.*?)[\s:#/]+\d+",
        # Behind an @ this would be a part of a host's name, and hosts are numbered.
        r"([^@]*?)[-_.\s]+\d+",
    )
)
# kombu's name of a process: `gen4711@host`.
_GENERATED = re.compile(r"gen\d+@(?=.)")


def client_name(given_name: str | None, properties: Mapping[str, str]) -> str | None:
    """The program's name, at most `LONGEST` characters, printable; None if nothing names it.

    ``given_name`` is the connection's, as the client gave it; ``properties`` are the client's. A
    part without which no letter would be left is kept.
    """
    if given_name and (name := _cut(_without_variation(_read(given_name)))):
        return name
    for key in _NAMING:
        name = _cut(_without_variation(_read(properties.get(key, ""))))
        if name and name.lower() not in _NO_PROGRAM:
            return name
    return _cut(_read(properties.get(_WHOLE, ""))) or None


def shown_name(name: str) -> str:
    """A client's name for its connection, printable and bounded."""
    return _cut(_read(name))


def _read(text: str) -> str:
    """The text, with unprintable characters escaped."""
    text = text.strip()[:_LONGEST_READ].strip()
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _without_variation(name: str) -> str:
    name = _GENERATED.sub("gen@", name) if name.startswith("gen") else name
    while (shorter := _shorter(name)) is not None:
        name = shorter
    return name


def _shorter(name: str) -> str | None:
    for pattern in _VARIES:
        if match := pattern.fullmatch(name):
            return match[1].rstrip() if any(c.isalpha() for c in match[1]) else None
    return None


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
