"""The broker's own clients that move messages: shovels and federation links, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.deaths import headers_of

BROKER_USER = "none"
"""The user of the broker's own connections within it."""
CLIENT_NAMES = r"^(Federation link \(upstream: |Shovel )"
"""A regular expression for the names of participants that move messages."""
BROKERS_OWN = r"^<"
"""A regular expression for connections within the broker, as those of its movers may be."""
FEDERATION_QUEUE = "federation: "
"""How queues begin in which an upstream keeps what is for a federated exchange."""

_LINK, _SHOVEL = "Federation link (upstream: ", "Shovel "


def is_mover(user: str, client: str | None, connection: str) -> bool:
    """Tell whether a user's client is a shovel or a federation link.

    By its name, or by the broker's own user: clients of that name connect from outside.
    """
    is_brokers = user == BROKER_USER and connection.startswith("<")
    return is_brokers or (client or "").startswith((_LINK, _SHOVEL))


def mover_of(
    participant_name: str,
    connection: str,
    queue: str | None,
    properties: Mapping[str, Any] | None,
) -> str | None:
    """The shovel or federation link that was handed or published a message; None for others.

    Where the broker does not tell its name, the queue or a header says that it is one.
    """
    if participant_name.startswith(_LINK):
        upstream = participant_name.removeprefix(_LINK)
        return f"federation link {upstream.partition(', policy: ')[0].partition(')')[0]}"
    if participant_name.startswith(_SHOVEL):
        name = participant_name.removeprefix(_SHOVEL)
        return f"shovel {name.rpartition(' (')[0] or name}"
    is_received = queue is not None and queue.startswith(FEDERATION_QUEUE)
    is_published = queue is None and "x-received-from" in headers_of(properties)
    if is_received or (is_published and connection.startswith("<")):
        return "a federation link"
    return None
