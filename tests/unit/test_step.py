"""One step of causality alone: what the clock joins, which edges there are, and evidence."""

from __future__ import annotations

import pytest
from msgspec import structs

from app.tracker.events import Edge, Reference
from app.tracker.identity import Policy, SharedPlaces
from app.tracker.links import BUILT_IN, Rules
from app.tracker.links.linker import Linker
from app.tracker.links.names import NO_NAMES, Names
from app.tracker.participants import LiveParticipant, ParticipantRegistry
from app.tracker.records import Channel, Deliver, Publish, Record
from app.tracker.step import Steps
from itc import Relation, compare
from model.words import Awareness, EdgeKind

RULES = Rules(
    structs.replace(each, alone=True) if each.name == "causation_id" else each for each in BUILT_IN
)


class World:
    """Participants by name, and the steps that they take."""

    def __init__(self, policy: Policy = Policy.connection) -> None:
        self.participants = ParticipantRegistry(policy, SharedPlaces(), assumed=64)
        linker = Linker(RULES, 100, self.participants.by_number, lambda: 0, SharedPlaces())
        self.steps = Steps(self.participants, linker)

    def channel(self, who: str, number: int = 1) -> Channel:
        return Channel("rabbit@test", f"{who}:1 -> 10.0.0.1:5672", number, "guest")

    def who(self, name: str) -> LiveParticipant:
        return self.participants.actor(self.channel(name))[1]

    def take(
        self,
        record: Record,
        *joins: Reference,
        message: Reference | int | None = None,
        quiet: bool = False,
        ways: tuple[Awareness, ...] = (),
    ) -> tuple[Reference, Names, tuple[Edge, ...]]:
        key, participant = self.participants.actor(record.channel)
        names = RULES.read(record)
        return self.steps.take(key, participant, record, names, joins, message, quiet, ways)

    def publish(self, who: str, id: str = "", names: str = "") -> Publish:
        headers = {"causation_id": names} if names else {}
        properties = {"message_id": id, "headers": headers} if id else {}
        return Publish(self.channel(who), "", ("q",), ("q",), properties, b"")

    def delivery(self, publish: Publish, who: str) -> Deliver:
        return Deliver(self.channel(who), "", ("q",), "q", False, publish.properties, b"")


def is_before(a: Reference, b: Reference) -> bool:
    return compare(a.clock, b.clock) is Relation.before


def test_a_clock_joins_every_candidate_and_none_of_them_is_an_edge() -> None:
    world = World()
    one, other, third = (world.publish(who) for who in ("a", "b", "c"))
    candidates = [world.take(each)[0] for each in (one, other)]
    beside, _, _ = world.take(third)
    received, _, edges = world.take(world.delivery(one, "d"), *candidates)
    assert all(is_before(each, received) for each in candidates)
    assert received.lamport == 1 + max(each.lamport for each in candidates)
    assert not is_before(beside, received)
    assert edges == ()


def test_what_is_named_is_joined_and_is_an_edge() -> None:
    world = World()
    cause, _, _ = world.take(world.publish("a", "first"))
    effect, names, [edge] = world.take(world.publish("b", "second", names="first"))
    assert edge.cause is cause
    assert names.causes
    assert is_before(cause, effect)
    who = world.who("b")
    assert (who.reactions, who.explained, who.known) == (1, 1, 0)


@pytest.mark.parametrize("message", [True, False])
def test_only_a_certain_message_tells_a_delivery_s_id_from_another_one_s(message: bool) -> None:
    world = World()
    sent = world.publish("a", "same")
    publish, _, _ = world.take(sent)
    delivery = world.delivery(sent, "b")
    world.take(delivery, publish, message=publish if message else None)
    _, _, found = world.take(world.publish("b", "next", names="same"))
    assert [edge.kind is not EdgeKind.candidate for edge in found] == [message]


def test_a_quiet_event_joins_nothing_and_neither_names_nor_is_named() -> None:
    world = World()
    sent = world.publish("a", "first")
    cause, _, _ = world.take(sent)
    quiet, names, edges = world.take(world.publish("b", "second", names="first"), cause, quiet=True)
    assert not is_before(cause, quiet)
    assert (names.ids, names.causes, edges) == ((), (), ())
    assert names.called
    _, _, found = world.take(world.publish("c", "third", names="second"))
    assert found == ()
    assert world.who("b").reactions == 0


def test_a_publish_after_a_delivery_may_have_a_cause_and_known_edges_explain_it() -> None:
    world = World()
    sent = world.publish("a")
    publish, _, _ = world.take(sent)
    world.take(world.delivery(sent, "b"), publish, message=publish)
    world.take(world.publish("b"))
    world.take(world.publish("b"), publish, ways=(Awareness.known, Awareness.hidden))
    who = world.who("b")
    assert (who.reactions, who.explained) == (2, 1)
    assert (who.known, who.missed, who.hidden) == (1, 0, 1)
    assert world.who("a").reactions == 0


@pytest.mark.parametrize(("policy", "noted"), [(Policy.channel, []), (Policy.connection, [1])])
def test_a_channel_s_last_event_is_noted_where_channels_share_a_participant(
    policy: Policy, noted: list[int]
) -> None:
    world = World(policy)
    _, names, _ = world.take(world.publish("a"))
    assert names is NO_NAMES
    assert world.participants.changes()[1] == noted


def program(address: str, port: int, user: str = "shop") -> Channel:
    return Channel("rabbit@test", f"{address}:{port} -> 10.0.0.1:5672", 1, user)


@pytest.mark.parametrize(
    ("policy", "hearer", "publisher", "client", "reacts"),
    [
        (Policy.connection, ("10.0.0.7", 1), ("10.0.0.7", 2), None, True),
        (Policy.connection, ("10.0.0.7", 1), ("10.0.0.7", 2, "other"), None, False),
        (Policy.connection, ("10.0.0.7", 1), ("10.0.0.8", 2), None, False),
        (Policy.client, ("10.0.0.7", 1), ("10.0.0.8", 2), None, False),
        (Policy.client, ("127.0.0.1", 1), ("127.0.0.1", 2), None, True),
        (Policy.client, ("127.0.0.1", 1), ("127.0.0.1", 2), "billing", False),
        (Policy.connection, ("127.0.0.1", 1), ("127.0.0.1", 2), "orders", True),
        (Policy.user, ("10.0.0.7", 1), ("10.0.0.7", 2, "other"), None, False),
    ],
)
def test_whoever_never_received_may_have_a_cause_if_another_of_its_program_did(
    policy: Policy,
    hearer: tuple[str, int],
    publisher: tuple[str, int],
    client: str | None,
    reacts: bool,
) -> None:
    world = World(policy)
    one, other = program(*hearer), program(*publisher)
    world.participants.introduce(one, "orders")
    world.participants.introduce(other, client)
    world.take(Publish(one, "", ("q",), (), {}, b""))
    world.take(Deliver(one, "", ("q",), "q", False, {}, b""))
    world.take(Publish(other, "", ("q",), (), {}, b""))
    assert world.participants.actor(other)[1].reactions == reacts


def test_two_names_of_which_one_only_receives_and_the_other_only_publishes_may_be_one() -> None:
    world = World(Policy.client)
    one, other = program("127.0.0.1", 1), program("127.0.0.1", 2)
    world.participants.introduce(one, "in")
    world.participants.introduce(other, "out")
    world.take(Publish(other, "", ("q",), (), {}, b""))
    world.take(Deliver(one, "", ("q",), "q", False, {}, b""))
    world.take(Publish(other, "", ("q",), (), {}, b""))
    world.take(Publish(one, "", ("q",), (), {}, b""))  # so it does not only receive
    world.take(Publish(other, "", ("q",), (), {}, b""))
    assert world.participants.actor(other)[1].reactions == 1


def test_whoever_names_a_cause_has_one_though_it_is_not_found() -> None:
    world = World()
    world.take(world.publish("relay", "b", names="never seen"))
    world.take(world.publish("relay", "c"))
    assert (world.who("relay").reactions, world.who("relay").explained) == (1, 0)


def test_participants_that_have_gone_told_nobody() -> None:
    world = World(Policy.connection)
    one, other = program("10.0.0.7", 1), program("10.0.0.7", 2)
    world.take(Deliver(one, "", ("q",), "q", False, {}, b""))
    world.take(Publish(other, "", ("q",), (), {}, b""))
    for number, channel in enumerate((one, other)):
        last = world.participants.actor(channel)[1].last
        assert last is not None
        last.id = 1 + number
    assert len(world.participants.retire_before(2)) == 1
    world.take(Publish(other, "", ("q",), (), {}, b""))
    assert world.participants.actor(other)[1].reactions == 1
