"""The tracker: one record in, its stamped events out.

Pure and synchronous. All state changes happen in `Tracker.apply`; the state leaves through
`Tracker.checkpoint` and comes back through `Tracker(restored=…)`, so that the events of an
interrupted run are those of an uninterrupted one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, pairwise
from typing import Annotated

import msgspec
from msgspec.structs import replace

from app.tracker._pass import Stamping, SteadyTime
from app.tracker.events import (
    Checkpoint,
    DeliveryOrigin,
    LostCopy,
    Omission,
    PendingCopy,
    Reference,
    RestorePoint,
    StampedEvent,
)
from app.tracker.fingerprint import fingerprint, strip_annotations
from app.tracker.identity import Identity, Policy, SharedPlaces, is_of_unix_socket
from app.tracker.links.linker import Linker
from app.tracker.links.memory import LinkCount
from app.tracker.links.rules import Rules
from app.tracker.matching.matcher import Matcher
from app.tracker.participants import ParticipantRegistry
from app.tracker.quiet import Quiet
from app.tracker.records import (
    NOWHERE,
    UNTRACED_REPLY,
    Deliver,
    Publish,
    Record,
    Settlement,
    Unreadable,
)
from app.tracker.reorder import (
    ReorderWindow,
    WaitingRecord,
    WaitKey,
    wait_key_of_name,
    wait_keys_of,
)
from app.tracker.replies import Replies
from app.tracker.settlements import Settlements
from app.tracker.step import Steps
from app.tracker.suspicion import Suspicion, may_be_new
from app.tracker.taken import ALL, Selection, Takes
from itc import IdPool, MalformedError
from model.deaths import LossWord
from model.words import Match


class Bounds(msgspec.Struct, frozen=True):
    """Bounds on the tracker's memory. Times in microseconds."""

    copies: int = 200_000
    copy_age: int = 24 * 3600 * 1_000_000
    handovers: int = 20_000
    reorder_window: int = 0  # on a cluster; on a single node no deliver overtakes its publish
    reorder_held: int = 10_000
    assumed: int = 64  # participants for connections of which nothing is known
    named_events: int = 50_000  # events that later messages may name


class Counters(msgspec.Struct):
    """Events of a trace since it was made, by kind."""

    published: int = 0
    received: int = 0
    unmatched: int = 0
    redelivered: int = 0
    dead_lettered: int = 0
    quarantined: int = 0
    copies_dropped: int = 0
    untraced: Annotated[int, "Direct replies, known from `reply_to` alone."] = 0
    quiet: Annotated[int, "Of quiet traffic; also counted above."] = 0


class Totals(msgspec.Struct, frozen=True):
    """The numbers of a trace, whether or not it runs; ``links`` by rule, ``unread`` by reason."""

    counters: Counters
    participants: int
    pending_copies: int
    links: dict[str, LinkCount] = {}
    unread: dict[str, int] = {}


class TrackerState(msgspec.Struct):
    """The small rest of a checkpoint, beside its rows."""

    pool: bytes
    next_participant: int
    next_channel_key: int
    next_copy: int
    totals: Totals
    held: list[WaitingRecord]
    time: int  # the tracker's own
    heard: int  # and the clock's at that time
    # Identities on connections with held records, where a client's name decided.
    decided: dict[str, dict[str, Identity]] = {}
    forgot_named: bool = False
    # Rules that do not hold for long yet, with the number of events before.
    young_rules: dict[str, int] = {}
    kept: int = 0  # publishes in all that an exchange may keep
    are_bodies_read: bool = True
    taken: Selection = ALL
    unread: dict[str, int] = {}
    taken_since: int | None = 0  # after this event; None: earlier messages are still queued


encode_state = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(TrackerState).decode


class UnreadableCheckpointError(ValueError):
    """A checkpoint's state that no tracker has written."""


def read_state(state: bytes) -> TrackerState:
    """Read a checkpoint's state; raises `UnreadableCheckpointError`."""
    try:
        return _decode(state)
    except msgspec.MsgspecError as error:
        raise UnreadableCheckpointError(str(error)) from error


_COUNTER_NAMES = {
    Match.unmatched: "unmatched",
    Match.redelivered: "redelivered",
    Match.dead_lettered: "dead_lettered",
    Match.untraced: "untraced",
}


# Queues that are remembered for unreadable deliveries, the last ones.
MOST_UNREAD = 1_000

_LACKS = {
    "publish": "a publish on",
    "deliver": "a delivery from queue {!r} to",
    "settle": "what the broker plugin said of",
}

_UNKNOWN = "; what became of {} until then is not known"

EVENTS = "amq.rabbitmq.event"  # the broker's own messages, which nobody published


class Tracker(Stamping):
    """Participants, matching and stamping of one trace."""

    def __init__(
        self,
        policy: Policy,
        bounds: Bounds,
        restored: RestorePoint | None = None,
        *,
        quiet: Quiet | None = None,
        places: SharedPlaces | None = None,
        rules: Rules | None = None,
        selection: Selection = ALL,
    ) -> None:
        """Start from the seed, or go on exactly where ``restored`` left off.

        ``policy``, ``quiet``, ``rules`` and ``selection`` belong to the trace; `Policy` says what
        shared ``places`` change.
        """
        self._takes = Takes(selection)
        self.took = selection  # as of the checkpoint
        self.counters = Counters()
        self._most_held = bounds.reorder_held
        self._quiet, places = quiet or Quiet(()), places or SharedPlaces()
        self._matcher = Matcher(
            copies=bounds.copies,
            copy_age=bounds.copy_age,
            handovers=bounds.handovers,
            takes=self._takes,
        )
        self._span = bounds.reorder_window
        self._window = ReorderWindow(span=bounds.reorder_window, limit=bounds.reorder_held)
        self._time = SteadyTime()
        self._replies = Replies()
        self._suspicion = Suspicion()
        self.settlements = Settlements()
        self._omissions: list[Omission] = []
        self._unread: dict[str, int] = {}  # when queues last handed out what cannot be read
        state = read_state(restored.state) if restored is not None and restored.state else None
        self.participants = ParticipantRegistry(
            policy, places, assumed=bounds.assumed, pool=None if state is None else _pool(state)
        )
        self._linker = Linker(
            Rules(()) if rules is None else rules,
            bounds.named_events,
            self.participants.by_number,
            self._event_count,
            places,
        )
        if restored is not None and state is not None:
            self._restore(restored, state)
        self._steps = Steps(self.participants, self._linker)

    @property
    def held_since(self) -> int | None:
        """The arrival of the oldest held record (µs), None without any."""
        return self._window.oldest

    def apply(self, record: Record, moment: int) -> list[StampedEvent]:
        """Take in one record, which reached us at ``moment``; return its events.

        One as a rule. With a reorder window none while a deliver waits for its publish, and several
        when the publish comes.
        """
        return [*self.steps(record, moment)]

    def _admit_all(self, record: Record, moment: int, mark: bytes) -> Iterator[StampedEvent]:
        """Stamp a record, and others that it releases or that are overdue."""
        names = self._linker.read(record)
        arrival = WaitingRecord(record, moment, mark, self._time.time, names)
        return chain(self._admit(arrival), self._close_overdue())

    def settle(self, settlement: Settlement, moment: int) -> None:
        """Take in the broker plugin's message, which reached us at ``moment``.

        It is ignored where deliveries cannot be counted: in a partial trace, and on a Unix socket,
        whose clients have channels of one name.
        """
        if not self._takes.is_all or self.is_taking_anew or is_of_unix_socket(settlement.channel):
            return
        if self._window.count:
            name = self.participants.key_of(settlement.channel)
            if self._window.blocks(name):
                self._window.hold(name, WaitingRecord(settlement, moment, b"", self._time.time))
                return
        self.settlements.note(settlement)

    def quarantine(self, record: Unreadable, moment: int) -> None:
        """Note an unreadable record, which reached us at ``moment``: a gap is in its place.

        On a cluster a delivery waits as if its publish did not come.
        """
        self.counters.quarantined += 1
        self._time.hear(moment)
        window = self._window
        if (window.span or window.count) and record.channel != NOWHERE:
            name = self.participants.key_of(record.channel)
            if window.blocks(name) or (window.span and record.kind == "deliver"):
                window.hold(name, WaitingRecord(record, moment, b"", self._time.time))
                self._await(name)
                return
        self._omit(record)

    def _omit(self, record: Unreadable) -> None:
        """Leave out a record; deliveries that it may have settled become unknown."""
        channel, settlements, reason = record.channel, self.settlements, self._lacks(record)
        if record.kind != "publish" and not record.is_forged:
            if channel in settlements.channels:
                reason += _UNKNOWN.format("its deliveries")
            elif channel == NOWHERE and settlements.channels:
                reason += _UNKNOWN.format("any delivery in the virtual host")
            settlements.lose(channel)
        if record.queue is not None:
            self._unread.pop(record.queue, None)
            self._unread[record.queue] = self._time.time
            if len(self._unread) > MOST_UNREAD:
                del self._unread[next(iter(self._unread))]
        self._omissions.append(Omission(record, settlements.last, reason))

    def _lacks(self, record: Unreadable) -> str:
        """A sentence on the missing record."""
        channel, number = record.channel, self.participants.locate(record.channel)[0]
        place = "a channel that nobody can tell"
        if channel != NOWHERE:
            place = f"channel {channel.number} on {channel.connection}"
        if acting := self.participants.by_number(number):
            place += f" ({acting.identity.label(number)})"
        subject = _LACKS.get(record.kind, "a trace message of").format(record.queue)
        return f"{subject} {place} is in quarantine: {record.reason}"

    def _reply(self, publish: Publish, moment: int) -> Iterator[StampedEvent]:
        """The delivery of a direct reply, behind its publish."""
        yield from self.steps(self._replies.delivery_of(publish), moment)

    def ends_with(self, connection: str) -> bool:
        """Tell whether `end` changes anything."""
        return self.participants.ends_with(connection) or self._replies.reach(connection)

    def end(self, connection: str) -> bool:
        """Note that a connection has closed: the next one of that name is another.

        False, and nothing is done, while something of it still waits for a publish.
        """
        if connection in self._window.connections:
            return False
        self.participants.end(connection)
        self._replies.end(connection)
        return True

    def pending(self) -> tuple[list[PendingCopy], int]:
        """The copies that wait to be handed over, oldest first; and the tracker's time now."""
        return self._matcher.copies.waiting.values(), self._time.time

    def lose(self, copy: PendingCopy, moment: int, reason: LossWord) -> None:
        """Note that a copy is gone (`LostCopy`)."""
        is_unread = self._unread.get(copy.queue, -1) >= copy.recorded_at
        self._matcher.lose(copy, moment, "unread" if is_unread else reason)

    def note_lost(self, copy: LostCopy) -> None:
        """Note that a copy is gone which had been handed over, and came back."""
        self._matcher.copies.newly_lost.append(copy)

    def suspects(self) -> list[Reference | None]:
        """The events after which publishes are probably missing, found newly (`Suspicion`)."""
        return self._suspicion.take()

    @property
    def is_taking_anew(self) -> bool:
        """Tell whether the selection has changed, until `take_since`."""
        return self._suspicion.start is None

    def take_since(self, event_id: int) -> None:
        """Say after which event the present selection is complete."""
        self._suspicion.start = event_id

    def trace_replies(self, are_traced: bool) -> None:
        """Say whether the broker traces the deliveries of direct replies; before 4.2 not."""
        self._replies.trace(are_traced)

    def take_up(self, rules: Rules) -> None:
        """Read messages by other rules from now on, those too that wait in the reorder window.

        Earlier events keep their keys, and can still be named by them.
        """
        self._linker.take_up(rules)
        for cause in self._matcher.causes():  # as it is after a restart
            cause.names = None
        records = self._window.records()
        self._window = ReorderWindow(span=self._window.span, limit=self._most_held)
        self._hold_again(records)

    def reorder(self, is_on: bool) -> None:
        """Switch the reorder window on or off; off, it releases its records at the next look."""
        self._window.span = self._span if is_on else 0

    def close_overdue(self, moment: int) -> Iterator[StampedEvent]:
        """Stamp overdue records of the reorder window, as `steps` does."""
        self._time.hear(moment)
        return self._close_overdue()

    def checkpoint(self) -> Checkpoint:
        """The changes since the last call, to be stored with the events since then."""
        channels, acted, participants = self.participants.changes()
        new_copies, removals, losses = self._matcher.copies.changes()
        clock = self._time.clock
        losses = [copy if copy.lost_at else replace(copy, lost_at=clock) for copy in losses]
        replies = self._replies.changes()
        omissions, self._omissions = self._omissions, []
        return Checkpoint(
            self._state(),
            channels,
            acted,
            participants,
            new_copies,
            removals,
            losses,
            replies,
            self.settlements.changes(),
            omissions,
        )

    def forget_before(self, event_id: int) -> list[int]:
        """Forget everything that only events with smaller ids hold; retention removes those.

        :returns: the numbers of the participants whose ids went back to the pool.
        """
        self._matcher.forget_before(event_id)
        numbers = self.participants.retire_before(event_id)
        self._replies.keep(self.participants.knows)
        self._linker.forget_before(event_id)
        return numbers

    def totals(self) -> Totals:
        self.counters.copies_dropped = self._matcher.copies.dropped
        links, unread = self._linker.counts, dict(self._linker.unread)
        copies = len(self._matcher.copies.waiting)
        return Totals(self.counters, len(self.participants), copies, links, unread)

    @staticmethod
    def stored_totals(state: bytes | None) -> Totals:
        """Read the numbers out of a checkpoint's state; None or empty before the first.

        Raises `UnreadableCheckpointError`, as restoring does.
        """
        return read_state(state).totals if state else Totals(Counters(), 0, 0)

    def _state(self) -> bytes:
        return encode_state(
            TrackerState(
                pool=self.participants.pool.dump(),
                next_participant=self.participants.next_participant,
                next_channel_key=self.participants.next_channel_key,
                next_copy=self._matcher.copies.next_number,
                totals=self.totals(),
                held=self._window.records(),
                time=self._time.time,
                heard=self._time.clock,
                forgot_named=self._linker.has_forgotten,
                young_rules=self._linker.young,
                kept=self._matcher.kept.count,
                are_bodies_read=self._linker.reads_bodies,
                taken=self._takes.selection,
                taken_since=self._suspicion.start,
                unread=self._unread,
                decided=self.participants.decisions(self._window.connections),
            )
        )

    def _restore(self, restored: RestorePoint, state: TrackerState) -> None:
        self.counters = state.totals.counters
        self._matcher.copies.dropped = self.counters.copies_dropped
        _check_numbers(restored.copies, state.next_copy)
        self._matcher.restore(state.next_copy, state.kept, restored)
        self.participants.next_participant = state.next_participant
        self.participants.next_channel_key = state.next_channel_key
        self.participants.restore(restored.participants, restored.channels, state.decided)
        self._replies.restore(restored.channels)
        self._linker.restore(
            state.totals.links,
            state.totals.unread,
            restored.named_events,
            state.young_rules,
            has_forgotten=state.forgot_named,
        )
        if self._linker.reads_bodies and not state.are_bodies_read:
            self._linker.read_bodies_again()
        self._unread, self.took = state.unread, state.taken
        self._suspicion.start = state.taken_since if state.taken == self._takes.selection else None
        self._suspicion.restore(restored.handovers)
        self.settlements = Settlements(
            restored.open_channels, restored.in_hand, restored.last_event_id
        )
        if not self._takes.is_all or self.is_taking_anew:
            self.settlements.forget()
        self._time = SteadyTime(state.time, state.heard)
        self._hold_again(state.held)

    def _hold_again(self, records: Iterable[WaitingRecord]) -> None:
        """Have records wait, each read by the present rules."""
        for record in records:
            name = self.participants.key_of(record.record.channel)
            if record.record.is_event:
                record = replace(record, names=self._linker.read(record.record))
            self._window.hold(name, record)
        for name in self._window.names():
            self._await(name)

    def _admit(self, arrival: WaitingRecord) -> Iterator[StampedEvent]:
        """Stamp an arrival and whatever it releases, unless its participant has to wait."""
        name = self.participants.key_of(arrival.record.channel)
        if self._window.blocks(name) or self._must_wait(arrival):
            self._window.hold(name, arrival)
            self._await(name)
        else:
            yield from self._with_released(self._stamp_held(arrival))

    def _must_wait(self, arrival: WaitingRecord) -> bool:
        record = arrival.record
        if isinstance(record, Deliver):
            return self._matcher.is_early(record, arrival.fingerprint)
        if isinstance(record, Unreadable):
            return record.kind == "deliver"
        names = arrival.names
        return bool(names.causes) and self._linker.is_early(
            names, *self.participants.locate(record.channel)
        )

    def _await(self, name: str) -> None:
        head = self._window.head(name)
        if head is not None:
            self._window.await_keys(name, partial(self._awaited_keys, head))

    def _awaited_keys(self, head: WaitingRecord) -> list[WaitKey]:
        if isinstance(head.record, Deliver):
            return self._matcher.wait_keys(head.record, head.fingerprint)
        return [wait_key_of_name(key) for key in self._linker.sure_keys(head.names)]

    def _with_released(self, events: Iterable[StampedEvent]) -> Iterator[StampedEvent]:
        """Yield these events, and those of the held records that they release, one by one."""
        stamped: deque[StampedEvent] = deque()
        for event in events:
            stamped.append(event)
            yield event
        while stamped and len(self._window):
            for name in self._window.participants_waiting(_wait_keys_of(stamped.popleft())):
                for event in self._release(name):
                    stamped.append(event)
                    yield event

    def _release(self, name: str) -> Iterator[StampedEvent]:
        """Stamp a participant's records, up to one that has to wait on."""
        while (head := self._window.head(name)) and not self._must_wait(head):
            yield from self._stamp_held(self._window.release(name))
        self._await(name)

    def _stamp_held(self, arrival: WaitingRecord) -> Iterator[StampedEvent]:
        if arrival.record.is_event:
            yield self._stamp(arrival.record, arrival.at, arrival.fingerprint, arrival.names)
        elif isinstance(arrival.record, Unreadable):
            self._omit(arrival.record)
        else:
            self.settlements.note(arrival.record)

    def _close_overdue(self) -> Iterator[StampedEvent]:
        while overdue := self._window.overdue(self._time.time):
            first = self._stamp_held(self._window.release(overdue))
            yield from self._with_released(chain(first, self._release(overdue)))

    def _note_lost_reply(self, publish: Publish, reference: Reference, moment: int) -> None:
        """Note a gap behind a publish that may have been handed over untraced."""
        if self._replies.is_to_somebody(publish):
            lacks = Unreadable(UNTRACED_REPLY, "", "", b"", 0, moment)
            self._omissions.append(Omission(lacks, reference, UNTRACED_REPLY, is_untraced=True))

    def _is_missed(self, deliver: Deliver) -> bool:
        """Tell whether the trace takes the publish of an unmatched delivery."""
        return self._takes.is_all or self._matcher.is_publish_taken(deliver)

    def _origin_elsewhere(
        self, deliver: Deliver, mark: bytes, unmatched: DeliveryOrigin
    ) -> tuple[DeliveryOrigin, bytes]:
        """The origin of a delivery that no publish to its queue explains, and its mark.

        Somebody may have added to its headers, or the broker moved it unseen. Otherwise it is in
        doubt, unless it is surely from before the trace: its queue still hands out those messages,
        and nobody has published its id, or else the broker moves nothing unseen.
        """
        for original in strip_annotations(deliver):
            original_mark = fingerprint(original)
            origin = self._matcher.cause_of(original, original_mark, self._time.time)
            if origin.match is not Match.unmatched:
                return origin, original_mark
        if deliver.exchange == EVENTS or not self._is_missed(deliver):
            return unmatched, mark
        publishes, are_all = self._linker.publishes_like(deliver)
        if publishes:
            return self._matcher.match_moved(deliver, mark, publishes), mark
        is_from_before = (
            not unmatched.is_doubtful
            and self._suspicion.is_first(deliver)
            and (are_all or not self._replies.are_traced)
            and not may_be_new(deliver)
            and not self._matcher.copies.has_forgotten(deliver.queue)
        )
        return replace(unmatched, is_doubtful=not is_from_before), mark

    def _event_count(self) -> int:
        return self.counters.published + self.counters.received

    def _count(self, match: Match) -> None:
        if name := _COUNTER_NAMES.get(match):
            setattr(self.counters, name, getattr(self.counters, name) + 1)


def _pool(state: TrackerState) -> IdPool:
    try:
        return IdPool.load(state.pool)
    except MalformedError as error:
        raise UnreadableCheckpointError(str(error)) from error


def _check_numbers(copies: Iterable[PendingCopy], next_copy: int) -> None:
    """Refuse copies whose numbers do not grow, up to the next one."""
    for number, next_number in pairwise(chain((copy.number for copy in copies), (next_copy,))):
        if next_number <= number:
            raise UnreadableCheckpointError(
                f"the numbers of copies do not grow: {next_number} comes after {number}"
            )


def _wait_keys_of(event: StampedEvent) -> list[WaitKey]:
    return wait_keys_of(event.record, event.fingerprint, event.names)
