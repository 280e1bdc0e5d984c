"""Consumers that may carry a conversation on, by what they published before and since."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from model.conversations.members import Members
from model.conversations.pace import Course, Pace
from model.happened import LIKELY, Cause, ConversationEvent
from model.sound import NO_EVIDENCE, Evidence
from model.words import BACK, Disposition, EventType, Via

MOST_PUBLISHES = 16
"""The last publishes of each participant that are compared with a conversation's own."""
PATIENCE, LEAST_PATIENCE = 10, 10_000_000
"""For so many times as long as anybody took in a conversation, and so long at least (µs), whoever
published for a message may go on unless its `Pace` says that it has had its time."""
NEW_PATIENCE = 75_000_000
"""For so long at least (µs) whoever is handed messages of a kind that is new may yet publish: it
may gather them for a minute, or have all of them in work at once."""
NO_PACE = Pace()
# A copy that is back is its queue's or the next one's; publishes before are `unnamed_consumers`'.
_NOT_WITH_IT = (Disposition.rejected, Disposition.in_hand, *BACK)


class PublisherRecord(NamedTuple):
    """A participant's publishes, by what they say of their causes.

    ``unnamed`` is the last publish that names none, or an event before which there may be one; 0
    for none. ``evidence`` are its counts. ``newest`` are all its publishes after the event
    ``cutoff``. A publish that begins a conversation of its own counts as neither of them, and
    ``only_begins`` says that it publishes nothing else. ``unexplained`` is its last publish that
    neither names a cause nor, along keys, has one of an earlier message, or an event before which
    there may be one. ``may_be_half`` says that another may publish for its program.
    """

    unnamed: int = 0
    evidence: Evidence = NO_EVIDENCE
    newest: tuple[int, ...] = ()
    cutoff: int = 0
    only_begins: bool = False
    unexplained: int = 0
    may_be_half: bool = False

    def explains_all_since(self, event: int) -> bool:
        """Tell whether it reacts, and all that it published since says to which message."""
        return bool(self.evidence.reactions) and self.unexplained < event

    def may_publish(self, received_at: int, moment: int, patience: int) -> bool:
        """Tell whether it may yet publish for a message of a kind that is not known to end there.

        Whoever publishes for others may take any time; whoever never did is waited for.
        """
        if self.evidence.reactions:
            return not self.only_begins
        return received_at > moment - max(patience, NEW_PATIENCE)


class Silence(NamedTuple):
    """Names of consumers whose effects nothing names, by how they may go on."""

    silent: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    halves: tuple[str, ...] = ()


NO_SILENCE = Silence()


def unnamed_consumers(
    members: Members, publishers: Mapping[int, PublisherRecord], via: Via
) -> tuple[str, ...]:
    """Consumers that have published without a cause since.

    Along clocks all that may be of the conversation is in it.
    """
    if via is Via.any:
        return ()
    handed: dict[int, ConversationEvent] = {}
    for event in members.events.values():
        if event.type is EventType.received and event.mover is None:
            handed.setdefault(event.participant, event)
    return tuple(
        event.name
        for number, event in handed.items()
        if number in publishers and publishers[number].unnamed > event.id
    )


def silent_consumers(
    members: Members,
    publishers: Mapping[int, PublisherRecord],
    via: Via,
    now: int | None,
    dead_ends: Collection[int] = (),
    paces: Mapping[int, Pace] = MappingProxyType({}),
) -> Silence:
    """Consumers whose effects nothing names.

    Silent ones have published outside the conversation since; pending ones have published nothing
    since, though they do for other messages, or never yet, but may be at their first; for halves
    another may have published.
    Deliveries that were rejected, came back or are in hand do not count, nor ``dead_ends`` whose
    participants have had their time, and explain all that they published since. Suggestions count
    as neither named nor part of the conversation.
    """
    if via is Via.any:
        return NO_SILENCE
    caused = {
        cause.event for links in members.causes.values() for cause in links if cause.kind != LIKELY
    }
    replies = {
        (head.participant, members.message_of(cause.event)): head.id
        for head in members.heads
        for cause in members.causes.get(head.id, ())
        if cause.kind != LIKELY
    }
    own = members.events.keys() - members.suggested_messages()
    through = _through(members, paces)
    silent: dict[int, str] = {}
    pending: dict[int, str] = {}
    halves: dict[int, str] = {}
    moment, patience = now or sys.maxsize, _patience(members)
    for event in members.events.values():
        if event.type is not EventType.received or event.mover or event.id in caused:
            continue
        if event.participant in through:
            continue
        if event.settlement in _NOT_WITH_IT:
            continue
        record = publishers.get(event.participant)
        message = members.message_of(event.id)
        if record is None or (event.participant, message) in replies:
            continue
        first = members.first_attempt(message)  # which is what a publish for a later one may name
        if replies.get((event.participant, first), 0) > event.id:
            continue
        newer = {publish for publish in record.newest if publish > event.id}
        if _goes_on_after_reply(event, members):
            continue
        tells = via is Via.links or bool(members.events[message].keys)
        if tells and event.id in dead_ends and record.explains_all_since(event.id):
            pace, since = _pace_for(event, paces), event.recorded_at
            is_waited_for = _is_waited_for(pace, since, since, moment, patience)
            if is_waited_for and not record.only_begins:
                pending.setdefault(event.participant, event.name)
        elif record.cutoff > event.id or newer - own:
            silent.setdefault(event.participant, event.name)
        elif (
            not newer
            and (record.evidence.reactions or event.id not in dead_ends)
            and record.may_publish(event.recorded_at, moment, patience)
        ):
            pending.setdefault(event.participant, event.name)
        elif record.may_be_half:
            halves.setdefault(event.participant, event.name)
    return Silence(*(tuple(each.values()) for each in (silent, pending, halves)))


def recent_publishers(
    members: Members,
    via: Via,
    now: int | None,
    paces: Mapping[int, Pace] = MappingProxyType({}),
) -> tuple[str, ...]:
    """Consumers that published here only just now: who publishes twice for a message may go on."""
    if via is Via.any or now is None:
        return ()
    received: defaultdict[int, list[ConversationEvent]] = defaultdict(list)
    for event in members.events.values():
        if event.type is EventType.received:
            received[event.participant].append(event)
    patience = _patience(members)

    def is_recent(head: ConversationEvent) -> bool:
        """Tell whether it may go on with any delivery: which of them it published for, may vary."""
        return any(
            _is_waited_for(
                _pace_for(delivery, paces),
                delivery.recorded_at,
                head.recorded_at,
                now,
                patience,
            )
            for delivery in received[head.participant]
        )

    return tuple(
        dict.fromkeys(
            head.name
            for head in members.heads
            if head.type is EventType.published
            and head.participant in received
            and members.causes.get(head.id)
            and is_recent(head)
        )
    )


def _goes_on_after_reply(delivery: ConversationEvent, members: Members) -> bool:
    """Tell whether a reply's receiver has published since, for what had made it ask.

    The effects of a reply are those of the message for which it was asked, and name that one.
    """

    def certain_causes(message: int) -> list[Cause]:
        return [cause for cause in members.causes.get(message, ()) if cause.kind != LIKELY]

    links = certain_causes(members.message_of(delivery.id))
    requests = {members.message_of(link.event) for link in links if link.kind == "reply"}
    asking = {link.event for request in requests for link in certain_causes(request)}
    return any(
        head.id > delivery.id
        and head.participant == delivery.participant
        and any(link.event in asking for link in certain_causes(head.id))
        for head in members.heads
    )


def _through(members: Members, paces: Mapping[int, Pace]) -> set[int]:
    """Participants that published last, and whose share in a conversation is an end by then."""
    shares: defaultdict[int, Counter[Course]] = defaultdict(Counter)
    last: dict[int, EventType] = {}
    for event in members.events.values():
        course = Course(event.queue, event.exchange, event.routing_keys)
        shares[event.participant][course] += 1
        last[event.participant] = event.type
    return {
        number
        for number, pace in paces.items()
        if last.get(number) is EventType.published and pace.is_through(shares[number])
    }


def _pace_for(delivery: ConversationEvent, paces: Mapping[int, Pace]) -> Pace:
    """The pace of a delivery's participant for messages that come as this one did."""
    course = Course(delivery.queue, delivery.exchange, delivery.routing_keys)
    return paces.get(delivery.participant, NO_PACE).of_course(course)


def _patience(members: Members) -> int:
    """The time for which a consumer that never published is waited for (µs)."""
    took = [
        members.events[effect].recorded_at - members.events[cause].recorded_at
        for cause, effects in members.leads_to.items()
        for effect in effects
        if {cause, effect} <= members.events.keys()
    ]
    return max(LEAST_PATIENCE, PATIENCE * max(took, default=0))


def _is_waited_for(pace: Pace, received_at: int, since: int, moment: int, patience: int) -> bool:
    """Tell whether a consumer may yet publish, of which nothing more came ``since`` a time."""
    if since <= moment - max(patience, PATIENCE * pace.longest):
        return False
    return not pace.has_had_time(received_at)
