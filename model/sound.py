"""Soundness: whether participants are those who act, as far as it can be seen.

A participant that is finer than its program makes a delivery and the reaction to it look
concurrent. Four signs of that: participants that were assumed; participants that publish and never
receive, where others of their client receive; hardly any publishes by participants that also
receive; messages that name causes which another participant of the program was handed. Names that
share no part are of two programs, unless their connections speak for one. Service and Spark use the
same `statements` and sentences.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Annotated, NamedTuple

from model.described import INNER
from model.gaps import Gap
from model.times import said_time
from model.wording import Sentence
from model.words import number_of, verb

# Up to these numbers quiet events and late links of an answer's span are counted, and links that
# the policy missed, by rule.
MOST_QUIET = MOST_LATE = MOST_MISSED = 1_000

MOST_NAMED = 3
MOST_CONNECTIONS = 1_000  # of clients that are looked at for a sign that two are one program
# With real clients, the publishes by participants that also receive were 0 to 7 % of all where the
# policy missed most causes, and 50 % and more where it saw them all. Few publishes say nothing.
LEAST_SHARE, LEAST_PUBLISHES = 0.1, 50
_STEM = 5  # letters of a word
FINE = ("connection", "channel")
"""The policies that may split one program into several participants."""


def share(part: int, rest: int) -> float | None:
    """A part of the whole, between 0 and 1; None of nothing."""
    whole = part + rest
    return part / whole if whole else None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Causes that messages name, against those that the trace's policy sees."""

    reactions: Annotated[
        int,
        "Publishes that may have a cause: their participant, or another that may be of its "
        "program, had received something, or a cause is named or told.",
    ] = 0
    explained: Annotated[int, "Those of them that name a cause which was found."] = 0
    known: Annotated[int, "Causes that the publisher's participant had in its past."] = 0
    missed: Annotated[
        int,
        "Causes that reached another participant of the same program: where there are any, "
        "participants are finer than programs.",
    ] = 0
    hidden: Annotated[
        int, "Causes that came by no way through the broker: see `/itc_db/hidden`."
    ] = 0
    spanned: Annotated[
        int, "Publishes that name no cause which was found, and of which spans tell one."
    ] = 0

    @property
    def coverage(self) -> float | None:
        """`explained` of `reactions`, between 0 and 1; `null` without any."""
        return share(self.explained, self.reactions - self.explained)

    @property
    def coverage_by_spans(self) -> float | None:
        """`spanned` of `reactions`, which comes to `coverage`; `null` without any."""
        return share(self.spanned, self.reactions - self.spanned)

    @property
    def fit(self) -> float | None:
        """`known` of `known` and `missed`, between 0 and 1; `null` without any."""
        return share(self.known, self.missed)

    @property
    def sentence(self) -> str:
        """The number of publishes that name their cause, and what the others need."""
        if not self.reactions:
            return Sentence.no_reactions
        if self.explained == self.reactions:
            return Sentence.all_named.format(reactions=self.reactions)
        sentence = Sentence.some_named.format(
            named=self.explained,
            reactions=self.reactions,
            spans=f", and spans tell {self.spanned:,} more" if self.spanned else "",
        )
        is_told = self.explained + self.spanned >= self.reactions
        return sentence if is_told else f"{sentence}. {Sentence.naming_remedy}"


NO_EVIDENCE = Evidence()


@dataclass(frozen=True, slots=True)
class MissedLinks:
    """The number of a rule's links that the policy missed."""

    rule: str
    links: int


@dataclass(frozen=True, slots=True)
class AssumedParticipant:
    """A participant that is taken for a program of its own, and may be a part of another."""

    number: int
    name: str
    first_event_id: int
    last_event_id: int

    def is_within(self, a: int, b: int) -> bool:
        """Tell whether the span of its events meets that of an answer, of two events in any order.

        None of its events need lie between the two.
        """
        return _meets(self, a, b)


@dataclass(frozen=True, slots=True)
class SplitParticipant:
    """A participant that misses what its program was told, by the causes that its messages name.

    Of these ``known`` were in its past, and ``missed`` reached another participant of its program.
    """

    vhost: str
    policy: str
    number: int
    name: str
    first_event_id: int
    last_event_id: int
    known: int
    missed: int

    def is_within(self, a: int, b: int) -> bool:
        """Tell the same as `AssumedParticipant.is_within`.

        A program may hear at other participants at any time, and a message that names no cause does
        not show it.
        """
        return _meets(self, a, b)


def _meets(participant: AssumedParticipant | SplitParticipant, a: int, b: int) -> bool:
    first, last = sorted((a, b))
    return participant.last_event_id >= first and participant.first_event_id <= last


class Client(NamedTuple):
    """A participant by its user, its place and its client's name, empty where unknown.

    ``alone`` are its ``publishes`` if it never ``receives``, else 0; ``number`` is its own.
    """

    vhost: str
    policy: str
    user: str
    place: str
    client: str
    publishes: int
    alone: int
    receives: int
    number: int = 0


class OpenedConnection(NamedTuple):
    """A connection of a client: its name, the process that it gives or '', and its time in µs."""

    client: int
    name: str
    process: str
    opened_at: int


@dataclass(frozen=True, slots=True)
class Misfit:
    """A policy that is too fine for a trace's clients.

    ``apart`` of its ``publishes`` are by participants that never received: under `FINE` policies
    those of clients that receive as other participants, under others all if they are nearly all.
    ``halves`` are the names of a client that only receives and of one that only publishes, and
    ``sign`` is what speaks for one program.
    """

    vhost: str
    policy: str
    publishes: int
    apart: int
    halves: tuple[str, str] | None = None
    sign: str = Sentence.one_place


@dataclass(frozen=True, slots=True)
class Late:
    """Links of an answer's span that were found after their effects had been stamped."""

    vhost: str
    links: int


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason why an answer is not sound, and what to do about it; ``str()`` says both."""

    statement: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.statement}. {self.remedy}"


@dataclass(frozen=True, slots=True)
class Soundness:
    """The soundness of an answer's span: doubts, and how many quiet events it holds."""

    doubts: tuple[Doubt, ...] = ()
    quiet: int = 0


@dataclass(frozen=True, slots=True)
class Certainty:
    """The certainty of an answer: how far it is to be relied on."""

    gaps: Sequence[Gap]
    soundness: Annotated[Soundness, INNER]

    @property
    def complete(self) -> bool:
        """Tell whether no message of its span may be missing."""
        return not self.gaps

    @property
    def sound(self) -> bool:
        """Tell whether participants are those who act, as far as is seen."""
        return not self.soundness.doubts

    @property
    def doubts(self) -> list[str]:
        """Reasons why it is not sound, a sentence each."""
        return [str(doubt) for doubt in self.soundness.doubts]

    @property
    def quiet(self) -> int:
        """Events of quiet traffic in its span, counted up to 1,000."""
        return self.soundness.quiet

    @property
    def caveats(self) -> list[str]:
        """All that restricts the answer, a sentence each: what to show beside it."""
        chosen, caveats = [gap for gap in self.gaps if gap.is_chosen()], list[str]()
        if lost := len(self.gaps) - len(chosen):
            caveats.append(Sentence.incomplete.format(gaps=number_of(lost, "gap")))
        for gap in chosen[:1]:
            time = said_time(gap.since)
            caveats.append(Sentence.partial.format(reason=gap.reason, time=time))
        caveats += [Sentence.unsound.format(doubt=doubt) for doubt in self.doubts]
        if self.quiet:
            events = number_of(self.quiet, "event")
            events = events if self.quiet < MOST_QUIET else f"at least {events}"
            caveats.append(Sentence.quiet.format(events=events))
        return caveats


def doubts_of(
    assumed: Sequence[AssumedParticipant],
    misfit: Misfit | None,
    split: Sequence[SplitParticipant] = (),
    missed_links: Sequence[MissedLinks] = (),
    late: Late | None = None,
) -> tuple[Doubt, ...]:
    """The doubts about an answer.

    From its span's ``assumed`` participants and those ``split`` causes, with the rules of the
    ``missed_links`` links, from its trace's policy, and from links that clocks do not have.
    """
    doubts = []
    if misfit is not None:
        doubts.append(_of_misfit(misfit))
    if split:
        doubts.append(_of_missing(split, missed_links))
    if assumed:
        doubts.append(_of_assumed(assumed))
    if late is not None and late.links:
        doubts.append(_of_late(late))
    return tuple(doubts)


def _of_misfit(misfit: Misfit) -> Doubt:
    vhost = shlex.quote(misfit.vhost)
    if misfit.halves is not None:
        receiving, publishing = misfit.halves
        return Doubt(
            Sentence.halves.format(receiving=receiving, publishing=publishing, sign=misfit.sign),
            Sentence.halves_remedy.format(vhost=vhost),
        )
    are = verb(misfit.apart, "is", "are")
    counts = {"apart": misfit.apart, "publishes": misfit.publishes, "are": are}
    if misfit.policy not in FINE:
        return Doubt(Sentence.coarse.format(**counts), Sentence.coarse_remedy.format(vhost=vhost))
    return Doubt(
        Sentence.fine.format(policy=misfit.policy, **counts),
        Sentence.policy_remedy.format(vhost=vhost, policy="client"),
    )


def _of_late(late: Late) -> Doubt:
    links = "1 link was" if late.links == 1 else f"{late.links} links were"
    if late.links >= MOST_LATE:
        links = f"{MOST_LATE} links or more were"
    remedy = Sentence.late_remedy.format(vhost=shlex.quote(late.vhost))
    return Doubt(Sentence.late.format(links=links), remedy)


def _of_assumed(assumed: Sequence[AssumedParticipant]) -> Doubt:
    names = join_names([participant.name for participant in assumed])
    participants = number_of(len(assumed), "participant")
    statement = Sentence.assumed.format(participants=participants, names=names)
    return Doubt(statement, Sentence.assumed_remedy)


def _of_missing(split: Sequence[SplitParticipant], missed_links: Sequence[MissedLinks]) -> Doubt:
    first = split[0]
    missed = sum(row.missed for row in split)
    rules = sorted(missed_links, key=lambda row: (-row.links, row.rule))
    statement = Sentence.split_program.format(
        policy=first.policy,
        causes=missed + sum(row.known for row in split),
        names=join_names([row.name for row in split]),
        rules=f" by {join_names([row.rule for row in rules])}" if rules else "",
        missed=missed,
    )
    # `client` misses connections without a name.
    policy = "client" if first.policy in FINE else "host"
    remedy = Sentence.policy_remedy.format(vhost=shlex.quote(first.vhost), policy=policy)
    return Doubt(statement, remedy)


def join_names(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    parts = [*names[:MOST_NAMED]]
    if len(names) > MOST_NAMED:
        parts.append(f"{len(names) - MOST_NAMED} more")
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def misfit_of(
    clients: Sequence[Client], connections: Sequence[OpenedConnection] = ()
) -> Misfit | None:
    """The misfit of a trace's policy; None without a sign of one.

    At loopback a named client is the participants of its name and those without one; elsewhere all
    of a user at a place are one client. The ``connections`` are those of `strangers_of`.
    """
    if not clients:
        return None
    vhost, policy = clients[0].vhost, clients[0].policy
    publishes = sum(client.publishes for client in clients)
    if policy not in FINE:
        if publishes_apart := _apart_at_all(clients, publishes):
            return Misfit(vhost, policy, publishes, publishes_apart)
        by_client: defaultdict[int, list[OpenedConnection]] = defaultdict(list)
        for connection in connections:
            by_client[connection.client].append(connection)
        for one, other in _halves(clients) if policy == "client" else ():
            sign = _sign_of(one, other, by_client)
            if sign is not None:
                return Misfit(vhost, policy, publishes, 0, (one.client, other.client), sign)
        return None
    receiving = [client for client in clients if client.receives]
    receivers = {(client.user, client.place) for client in receiving}
    known_by_name = {(client.user, client.place, client.client) for client in receiving}
    publishes_apart = 0
    for client in (client for client in clients if client.alone):
        if client.client and (client.place == "::1" or client.place.startswith("127.")):
            receives = any(
                (client.user, client.place, name) in known_by_name for name in (client.client, "")
            )
        else:
            receives = (client.user, client.place) in receivers
        publishes_apart += client.alone if receives else 0
    return Misfit(vhost, policy, publishes, publishes_apart) if publishes_apart else None


def strangers_of(clients: Sequence[Client]) -> set[int]:
    """The numbers of clients whose connections alone may show that two are one program."""
    if not clients or clients[0].policy != "client" or misfit_of(clients) is not None:
        return set()
    places = {half.place for half, _ in _halves(clients)}
    return {client.number for client in clients if client.client and client.place in places}


def _apart_at_all(clients: Sequence[Client], publishes: int) -> int:
    """The publishes by participants that never received, if they are nearly all.

    Not counted are those of clients whose names share no part with any that receives.
    """
    if publishes < LEAST_PUBLISHES:
        return 0
    words = frozenset[str]().union(*(_words(each.client) for each in clients if each.receives))
    alone = sum(client.alone for client in clients if _may_be_one(_words(client.client), words))
    return alone if publishes - alone < LEAST_SHARE * publishes else 0


def _halves(clients: Sequence[Client]) -> Iterator[tuple[Client, Client]]:
    """The clients with names of a user at a place of which one receives and the other publishes.

    Neither does both. Clients without a name are in doubt anyway.
    """
    receiving: defaultdict[tuple[str, str], list[Client]] = defaultdict(list)
    for client in clients:
        if client.client and client.receives and not client.publishes:
            receiving[client.user, client.place].append(client)
    for client in clients:
        if client.client and client.alone:
            for half in receiving.get((client.user, client.place), ()):
                yield half, client


def _sign_of(
    receiving: Client, publishing: Client, connections: Mapping[int, Sequence[OpenedConnection]]
) -> Sentence | None:
    """The sign that two clients are one program; None without one."""
    words, others = _words(receiving.client), _words(publishing.client)
    if _NOTHING in words | others:
        return Sentence.role_name
    if words & others:
        return Sentence.common_word
    pairs = [
        *product(connections.get(receiving.number, ()), connections.get(publishing.number, ()))
    ]
    if any(one.process == other.process not in _NO_PROCESS for one, other in pairs):
        return Sentence.one_process
    strangers = connections.keys() - {receiving.number, publishing.number}
    times = [other.opened_at for number in strangers for other in connections[number]]
    for one, other in pairs:
        is_start_of_many = any(abs(time - one.opened_at) <= _ALONE for time in times)
        if _are_side_by_side(one, other) and not is_start_of_many:
            return Sentence.neighbours
    return None


def _are_side_by_side(one: OpenedConnection, other: OpenedConnection) -> bool:
    """Tell whether two connections were opened at once, from ports next to each other."""
    ports = [_PORT.match(connection.name) for connection in (one, other)]
    is_refuted = bool(one.process and other.process)
    if is_refuted or abs(one.opened_at - other.opened_at) > _AT_ONCE or None in ports:
        return False
    first, last = (int(port[1]) for port in ports if port)
    return abs(first - last) <= _PORTS_APART


# Linux 6.18 gave the connections that a program opened in a row ports 2 to 16 apart. With pika it
# opened two in 5 to 14 ms. Programs that are started together may, too: then others open theirs
# within a second.
_AT_ONCE, _ALONE, _PORTS_APART = 20_000, 1_000_000, 16
_PORT = re.compile(r"\S*:(\d{1,5}) -> ")
# Without a number, and what each container's first process has.
_NO_PROCESS = ("", "1")
_NOTHING = ""
_WORD = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[^\W\d_a-z]+")
_OF_ANY = frozenset({"api", "app", "service", "svc", "worker"})
# Words for the purpose of a connection: receiving or publishing.
_ROLES = frozenset(
    {"consume", "consumer", "emitter", "in", "inbound", "inbox", "input", "listener", "out"}
    | {"outbound", "outbox", "output", "pub", "publish", "publisher", "producer", "read", "reader"}
    | {"receive", "receiver", "recv", "rx", "send", "sender", "sub", "subscriber", "tx", "write"}
    | {"writer"}
)


def _may_be_one(words: Set[str], others: Set[str]) -> bool:
    """Tell whether names of these words may be of one program."""
    return bool(others) and (_NOTHING in words | others or bool(words & others))


@lru_cache(maxsize=1_024)
def _words(name: str) -> frozenset[str]:
    """The beginnings of the words of a name, as `order` of `orders`; `_NOTHING` of a mere role."""
    words = {word.lower() for word in _WORD.findall(name)} - _OF_ANY
    stems = {word[:_STEM].rstrip("s") for word in words - _ROLES if len(word) > 1}
    return frozenset(stems or {_NOTHING})
