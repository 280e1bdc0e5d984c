"""The remedy for a dead letter: the command that publishes it into the queue where it died.

``rabbitmqadmin`` was a script of the management plugin up to RabbitMQ 4.2, and is a program of its
own since, whose words are others (rabbitmq-server, pull request 15219; tried on 3.10.8 and 4.3.6).
The message is as it was recorded, with the headers by which it is recognised as the same one,
published again. A copy of it that still waits as a dead letter stays where it is.
"""

from __future__ import annotations

import base64
import enum
import json
import shlex
from collections.abc import Mapping
from typing import Any

from model.deaths import headers_of

MOST_BODY = 4_096
"""Bytes of a body that a command has: it is to be read, and copied."""
MOST_PROPERTIES = 8_192

# They would send it to further queues, too; and nobody may publish in another user's name.
_NOT_AGAIN = ("CC", "BCC")
_OF_PUBLISHER = "user_id"
# Bodies that were read as values of AMQP 1.0 are not as they were sent.
_OTHER_BODIES = "amqp-1.0"


class AdminTool(enum.Enum):
    """The kinds of `rabbitmqadmin`."""

    script = "of the management plugin"
    program = "of its own, which takes bodies of text alone"


def remedy_of(
    vhost: str,
    queue: str,
    properties: Mapping[str, Any] | None,
    body: bytes | None,
    tool: AdminTool = AdminTool.script,
) -> str | None:
    """The command for a shell; None where the message is too long for one, or not recorded whole.

    ``body`` is None if it is not stored whole; so is the command where the ``tool`` cannot send it.
    """
    table = {name: value for name, value in (properties or {}).items() if name != _OF_PUBLISHER}
    headers = {k: v for k, v in headers_of(properties).items() if k not in _NOT_AGAIN}
    text = json.dumps(table | ({"headers": headers} if headers else {}))
    is_short = body is not None and len(body) <= MOST_BODY and len(text) <= MOST_PROPERTIES
    if body is None or not is_short or table.get("type") == _OTHER_BODIES:
        return None
    if tool is AdminTool.script:
        words = [
            *(f"--vhost={vhost}", "publish", "exchange=amq.default", f"routing_key={queue}"),
            *(f"properties={text}", "payload_encoding=base64"),
            f"payload={base64.b64encode(body).decode()}",
        ]
    elif (payload := _text_of(body)) is not None:
        words = [
            *("publish", "message", f"--vhost={vhost}", f"--routing-key={queue}"),
            *(f"--properties={text}", f"--payload={payload}"),
        ]
    else:
        return None
    return " ".join(map(_quoted, ["rabbitmqadmin", *words]))


def _text_of(body: bytes) -> str | None:
    """A body as a word of a command; None if it is none."""
    try:
        return None if b"\0" in body else body.decode()
    except UnicodeDecodeError:
        return None


def _quoted(word: str) -> str:
    """A word for a shell; of what is not printable, as Bash and its kin read it."""
    if word.isprintable():
        return shlex.quote(word)
    octets = (
        c if c.isprintable() else "".join(f"\\{o:03o}" for o in c.encode()) for c in _safe(word)
    )
    return f"$'{''.join(octets)}'"


def _safe(word: str) -> str:
    return word.replace("\\", "\\\\").replace("'", "\\'")
