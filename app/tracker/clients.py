"""Names of programs: a connection's name without what varies between a program's connections.

Libraries and people put the role of a connection, a counter, a process id or a random part into a
program's name, and some libraries send nothing else. A name that is cut too short makes one
participant of two programs, which only orders more than was so; one that is cut too little makes
two participants of one program, and misses what one of its connections caused on the other. So
what looks random is no name, and neither is what is left of a library's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

# Longer names are cut; characters behind the other bound are not even read.
LONGEST = 120
_LONGEST_READ = 250

# Client properties that name a program, the best first: NServiceBus, EasyNetQ and others, AMQP 1.0,
# Rebus.
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
# Properties that name the library, which any number of programs use.
_LIBRARY = ("product", "platform")

# Libraries that say nothing of themselves, and what runs programs.
_NO_PROGRAM = frozenset(
    {"aiopika", "aiormq", "amqpnetlite", "amqplib", "bunny", "dotnet", "java", "kombu", "mosq"}
    | {"mqttjs", "node", "paho", "pika", "pyamqp", "python", "rabbitconnectionfactory"}
    | {"rabbitmq", "rabbitmqclient", "rabbitpy", "repid", "ruby", "springamqp", "undefined"}
)
# Words that name any connection, once a number or a random part is cut.
_ANY = frozenset({"amqp", "client", "conn", "connection", "container", "mqtt", "session"})
# A whole name that a library makes: JMS's, and kombu's of a process.
_GENERATED = re.compile(r"ID:.*|gen\d+@.*", re.DOTALL)

# The letters that often follow each letter within words.
_PAIRS = frozenset(
    row[0] + letter
    for row in re.findall(
        r"\w+",
        "abcdgiklmnprstuvy baeiloru caehiklorstu daeiorsu eabcdefglmnoprstvwxy faeilort gaehior"
        " haeiort iabcdefglmnoprstvz js kaei ladeilostuy maeiopsu nacdefgiknost oabcdgiklmnoprstuvw"
        " paehiloprstuy qu racdeikmorstuy sacehiopstuy tacehiorstuwy uabcdegilmnprst vaei waeino"
        " yps ze",
    )
    for letter in row[1:]
)
# A run of letters with a smaller share of usual pairs is random, by the least length. Of random
# runs of eight letters 92 % are, of ten 94 and from twelve on 98, and 18 of 6,600 words in names.
_LEAST_USUAL = ((12, 0.66), (10, 0.6), (8, 0.6), (6, 0.34))
_LONG_HASH = 8
_LONG_NUMBER = 5  # a process id, a port or a time

_UUID = re.compile("(?i:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_HASH = re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]{6,}")
# The suffix that Kubernetes adds to the name of a pod's owner.
_POD = re.compile("(?:-[bcdfghjklmnpqrstvwxz2456789]{8,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}$")
# Between a name and what varies; a closing bracket belongs to the name.
_SEPARATOR = r"(?:[^\w)\]}]|_)"
_WORD = re.compile(r"(?<![^\W_])(?:[A-Z]?[a-z]{2,})+(?=\d*(?:[\W_]|$))")
_PART = re.compile(r"[\W_]*([^\W_]+)[)\]}]?")
# Beginnings and endings of names that vary; the first group is the name.
_VARIES = tuple(
    re.compile(pattern)
    for pattern in (
        # NServiceBus's connections to publish with, and to consume with; Spring's and anybody's.
        r"(.*\S)(?: Publish| MessagePump)",
        rf"(?i:(.*?){_SEPARATOR}+(?:consumer|producer|subscriber|publisher|sub|pub|reader|writer"
        r"|receiver|sender|listener))",
        r"(.*?)\s*#[0-9a-f]+:\d+",  # Spring's identity of an object, and a counter
        rf"(?i:(.*?){_SEPARATOR}*\bpid[\W_]?\d+[)\]]?)",
        r"(.*?)\s*(?:\(\d+\)|\[\d+\]|\{\d+\})",
        r"(.*?)[\s:#/]+\d+",
        # Behind an @ this would be a part of a host's name, and hosts are numbered.
        r"([^@]*?)[-_.\s]+\d+",
        r"\d+[\W_]+(.*)",
    )
)


def client_name(given_name: str | None, properties: Mapping[str, str]) -> str | None:
    """The program's name, at most `LONGEST` characters, printable; None if nothing names it.

    ``given_name`` is the connection's, as the client gave it; ``properties`` are the client's.
    """
    no_stems = _ANY | {_plain(properties.get(key, "")) for key in _LIBRARY}
    texts = [_read(text) for text in (given_name or "", *map(properties.get, _NAMING)) if text]
    names = [(text, _without_variation(text)) for text in texts]
    whole = _read(properties.get(_WHOLE, ""))
    for text, name in (*names, (whole, _without_random(whole))):
        plain = _plain(name)
        if plain and plain not in _NO_PROGRAM and (name == text or plain not in no_stems):
            return _cut(name)
    return None


def shown_name(name: str) -> str:
    """A client's name for its connection, printable and bounded."""
    return _cut(_read(name))


def _read(text: str) -> str:
    """The text, with unprintable characters escaped."""
    text = text.strip()[:_LONGEST_READ].strip()
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _plain(name: str) -> str:
    """The letters of a name, whatever their case."""
    return "".join(filter(str.isalpha, name.casefold()))


def _without_variation(text: str) -> str:
    """A name without what varies; empty where it is no more than that."""
    name, shorter = "", text
    while name != shorter:
        name = _cut(_without_random(shorter))
        shorter = next((m[1].rstrip() for p in _VARIES if (m := p.fullmatch(name))), name)
    return name if any(map(str.isalpha, name)) else ""


def _without_random(name: str) -> str:
    if _GENERATED.fullmatch(name):
        return ""
    # A UUID is one part, its dashes notwithstanding.
    rest = _PART.sub(_part_unless_random, _UUID.sub("0a1b2c3d", _POD.sub("", name)))
    if rest == name:
        return name
    # Bits of base64 may be left: its dashes do not part words.
    return rest.lstrip(" -_.:/#@+") if name.islower() or _has_word(rest) else ""


def _part_unless_random(match: re.Match[str]) -> str:
    return "" if _is_random(match[1]) else match[0]


def _has_word(rest: str) -> bool:
    words = (word.lower() for word in _WORD.findall(rest))
    return any(_usual_share(word) >= 0.6 for word in words)


def _is_random(part: str) -> bool:
    """Tell whether a part of a name is a hash, a time or other random digits and letters."""
    if not part.isascii():
        return False
    if part.isdigit():
        return len(part) >= _LONG_NUMBER
    changes = sum(a.isdigit() != b.isdigit() for a, b in pairwise(part))
    if _HASH.fullmatch(part.lower()) and (changes > 1 or len(part) >= _LONG_HASH):
        return True
    rises = sum(a.islower() and b.isupper() for a, b in pairwise(part))
    if changes > 2 or (changes + rises > 3 and changes + rises >= 0.4 * len(part)):
        return True
    letters = _plain(part)
    least = next((share for length, share in _LEAST_USUAL if len(letters) >= length), 0)
    return len(set(letters)) > 4 and _usual_share(letters) < least


def _usual_share(letters: str) -> float:
    """The share of a word's neighbouring letters that are such in many words."""
    return sum(a + b in _PAIRS for a, b in pairwise(letters)) / (len(letters) - 1)


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
