"""Names of programs: a connection's name without what varies between a program's connections.

Libraries and people put the role of a connection, a counter, a process id or a random number behind
a program's name. A name that is cut too short makes one participant of two programs, which only
orders more than was so; one that is cut too little makes two participants of one program, and
misses what one of its connections caused on the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# A name that is longer is cut. What is behind the other bound is not even looked at.
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
# What an MQTT client calls itself is its identity to the broker, a trailing number included.
_WHOLE = "client_id"

# What runs programs, and libraries: these name none.
_NO_PROGRAM = frozenset(
    {"aio-pika", "aiormq", "amqplib", "bunny", "dotnet", "java", "kombu", "node", "pika"}
    | {"py-amqp", "python", "python3", "rabbitmq", "rabbitpy", "ruby", "undefined"}
)

_HEX4 = "[0-9a-f]{4}"
# What stands between a name and what varies; a closing bracket belongs to what was before.
_APART = r"(?:[^\w)\]}]|_)"
# What varies at the end of a name. The first group is what has to stay.
_VARIES = tuple(
    re.compile(pattern)
    for pattern in (
        # NServiceBus's connections to publish with, and to consume with; Spring's and anybody's.
        r"(.*\S)(?: Publish| MessagePump)",
        rf"(?i:(.*?){_APART}+(?:consumer|producer|subscriber|publisher|sub|pub|reader|writer"
        r"|receiver|sender|listener))",
        r"(.*?)\s*#[0-9a-f]+:\d+",  # Spring's identity of an object, and a counter
        rf"(?i:(.*?){_APART}*\b[0-9a-f]{{8}}-{_HEX4}-{_HEX4}-{_HEX4}-[0-9a-f]{{12}}[)\]}}]?)",
        rf"(?i:(.*?){_APART}+(?=[a-f]*\d)[0-9a-f]{{8,40}})",  # a UUID without dashes, or a hash
        rf"(?i:(.*?){_APART}*\bpid[\W_]?\d+[)\]]?)",
        r"(.*?)\s*(?:\(\d+\)|\[\d+\]|\{\d+\})",
        r"(.*?)[\s:#/]+\d+",
        # Behind an @ this would be a part of a host's name, and hosts are numbered.
        r"([^@]*?)[-_.\s]+\d+",
    )
)
# kombu's name of a process: `gen4711@host`.
_GENERATED = re.compile(r"gen\d+@(?=.)")


def client_name(given: str | None, properties: Mapping[str, str]) -> str | None:
    """The program's name, at most `LONGEST` characters, printable; None if nothing names it.

    ``given`` is the connection's name as the client gave it, ``properties`` the client's own. What
    would leave no letter is not taken away.
    """
    if given and (name := _cut(_without_variation(_read(given)))):
        return name
    for key in _NAMING:
        name = _cut(_without_variation(_read(properties.get(key, ""))))
        if name and name.lower() not in _NO_PROGRAM:
            return name
    return _cut(_read(properties.get(_WHOLE, ""))) or None


def shown_name(given: str) -> str:
    """Return a client's name for its connection: printable and bounded, else as it is."""
    return _cut(_read(given))


def _read(text: str) -> str:
    """The text with escapes instead of what a person, a log or a database cannot read."""
    text = text.strip()[:_LONGEST_READ].strip()
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _without_variation(name: str) -> str:
    name = _GENERATED.sub("gen@", name) if name.startswith("gen") else name
    while (shorter := _shorter(name)) is not None:
        name = shorter
    return name


def _shorter(name: str) -> str | None:
    for pattern in _VARIES:
        if found := pattern.fullmatch(name):
            return found[1].rstrip() if any(c.isalpha() for c in found[1]) else None
    return None


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
