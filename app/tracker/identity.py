"""Identities of participants: the policies, and the places that connections come from.

The firehose names channels, and programs are what carries causes: most client libraries publish on
another channel or connection than they consume on. A participant that is finer than its program
makes a delivery and the reaction to it look concurrent; one that is coarser only orders more.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

import msgspec

from app.tracker.records import Channel
from model.movers import BROKER_USER
from model.sound import FINE
from model.words import Awareness

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class Policy(enum.StrEnum):
    """The policy: what counts as one participant.

    `client`: a user at a place, and where several programs share the place also the client's name.
    `host`: a user at a place. `user`, `connection` and `channel`: one of the broker's.
    """

    client = "client"
    host = "host"
    user = "user"
    connection = "connection"
    channel = "channel"

    @property
    def is_finer_than_clients(self) -> bool:
        """Tell whether one program may be several participants."""
        return self.value in FINE

    @property
    def shows_names(self) -> bool:
        """Tell whether participants have a client's name, if only to show it."""
        return self not in (Policy.host, Policy.user)


class Identity(msgspec.Struct, frozen=True):
    """The identity of a participant.

    ``key`` tells it from all others of its trace. ``place`` is None where it may have several,
    ``client`` where no name is known. ``assumed``: a connection at a shared place without a name,
    taken for a program of its own, which it may not be.
    """

    key: str
    user: str
    place: str | None = None
    client: str | None = None
    assumed: bool = False
    is_one_of_many: bool = False  # others may have the same user, place and client

    @classmethod
    def stored(
        cls,
        key: str,
        user: str,
        place: str | None,
        client: str | None,
        assumed: bool,
        policy: Policy,
    ) -> Identity:
        """The identity that this policy made, from its stored parts."""
        return cls(key, user, place, client, assumed, assumed or policy.is_finer_than_clients)

    def label(self, number: int) -> str:
        """The label that people read: the client's name, user and place."""
        user = self.user if self.place is None else f"{self.user}@{self.place}"
        label = user if self.client is None else f"{self.client} ({user})"
        return f"{label} #{number}" if self.is_one_of_many else label


def name_key(client: str, user: str, place: str | None) -> str:
    """The key of a participant that its client's name tells from others at a shared place."""
    return f"{client!r} of {user!r} at {place}"


class SharedPlaces:
    """Places that several programs share: loopback always, and the networks given."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        """Take networks such as ``10.1.0.0/16`` or single addresses; raises `ValueError`."""
        self._networks: tuple[Network, ...] = tuple(map(ipaddress.ip_network, networks))
        self.is_shared = lru_cache(maxsize=_CACHED_PLACES)(self._is_shared)

    def _is_shared(self, place: str) -> bool:
        try:
            address = ipaddress.ip_address(place)
        except ValueError:  # a host's name
            return place == "localhost" or place.endswith(".localhost")
        return address.is_loopback or any(address in network for network in self._networks)


_CACHED_PLACES = 10_000


def awareness_between(
    first: Identity, second: Identity, places: SharedPlaces, *, halves: bool
) -> Awareness:
    """`Awareness.missed` if two participants may be of one program, else `hidden`.

    At a shared place programs are told apart by their clients' names, as far as they have any. But
    where one has only received and the other only published they may be ``halves`` of one, whose
    connections have two names.
    """
    if first.user != second.user or first.place is None or first.place != second.place:
        return Awareness.hidden
    is_named = first.client is not None and second.client is not None
    if is_named and not halves and first.client != second.client and places.is_shared(first.place):
        return Awareness.hidden
    return Awareness.missed


def is_direct(channel: Channel) -> bool:
    """Tell whether its connection is within the broker, as the management interface's are."""
    return channel.connection.startswith("<")


def is_of_unix_socket(channel: Channel) -> bool:
    """Tell whether its connection's name is that of all clients of a socket (RabbitMQ 4.4)."""
    return channel.connection.startswith(":0 -> ")


def place_of(channel: Channel) -> str:
    """The address that a channel's connection comes from, by the PROXY protocol if used.

    A host's name where the broker resolves names, the node for a connection within the broker,
    else the connection's own name.
    """
    if is_direct(channel):
        return channel.node
    peer, arrow, _ = channel.connection.partition(" -> ")
    host = peer.rpartition(":")[0].strip("[]")
    if not arrow or not host:
        return channel.connection
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


class Identities:
    """Identities of channels' participants under a policy."""

    def __init__(self, policy: Policy, places: SharedPlaces) -> None:
        self._policy = policy
        self._places = places

    def is_by_name(self, channel: Channel) -> bool:
        """Tell whether the client's name decides who acts on a channel."""
        if self._policy is not Policy.client:
            return False
        if is_direct(channel):  # each shovel and federation link is a program of its own
            return channel.user == BROKER_USER
        place = place_of(channel)
        return place == channel.connection or self._places.is_shared(place)

    def is_by_connection(self, channel: Channel) -> bool:
        """Tell whether somebody else may act on a channel once its connection has closed."""
        return self._policy.is_finer_than_clients or self.is_by_name(channel)

    def identify(self, channel: Channel, client: str | None = None) -> Identity:
        """The identity behind a channel; ``client`` is its name for itself."""
        user = channel.user
        if self._policy is Policy.user:
            return Identity(user, user)
        place = place_of(channel)
        if self._policy is Policy.host or (
            self._policy is Policy.client
            and (not self.is_by_name(channel) or (client is None and is_direct(channel)))
        ):
            shown_client = None if self._policy is Policy.host else client
            return Identity(f"{user!r} at {place}", user, place, shown_client)
        if self._policy is Policy.client and client is not None:
            return Identity(name_key(client, user, place), user, place, client)
        key = f"{user} {channel.connection} {channel.node}"
        if self._policy is Policy.channel:
            key = f"{user} {channel.connection} ({channel.number}) {channel.node}"
        return Identity(
            key,
            user,
            channel.node if is_direct(channel) else _display_place(place, channel),
            client,
            assumed=self._policy is Policy.client,
            is_one_of_many=True,
        )

    def shared_identity(self, channel: Channel) -> Identity:
        """The identity that connections share once they, or their names, are too many."""
        user, place = channel.user, place_of(channel)
        key = f"others of {user!r} at {_display_place(place, channel)}"
        return Identity(
            key, user, _display_place(place, channel), assumed=True, is_one_of_many=True
        )


def _display_place(place: str, channel: Channel) -> str | None:
    return None if place == channel.connection else place
