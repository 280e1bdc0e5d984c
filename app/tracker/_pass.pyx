# cython: boundscheck=False
"""The pass of a record to its stamped event: match, links, clock.

Every record takes it, and most do nothing else. So the halves of the tracker's parts that it goes
through are here, and each part's other half, in Python, inherits its own.
"""

cimport cython
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject

from itertools import chain

from msgspec.structs import astuple

from app.tracker._fields cimport at, check, place_of, put
from app.tracker._memories cimport KeyedFifo, hash_of
from app.tracker._names cimport changes_headers
from app.tracker.events import NamedEvent, PendingCopy, Reference, StampedEvent
from app.tracker.fingerprint import fingerprint
from app.tracker.links.names import NO_NAMES, Names
from app.tracker.records import Deliver, Publish
from itc import receive
from itc.core import core
from model.texts import is_reply
from model.words import Awareness, EdgeKind, Match

cdef enum:
    BYTES = 16  # of a fingerprint without another half
    MOST_PUSHERS = 64  # publishers of a queue
    AGED_AT_ONCE = 100  # overaged copies that one publish drops, beside those beyond the bound
    # The tracker is called every fifth of a second, or little later, unless the store is slow (µs).
    LONGEST_STEP = 500_000
    MOST_BACK = 10_000_000  # times of arrival go back a little; further where the clock was set back
    # Several consumers of a queue act at once: their trace messages may be this far out of order.
    MOST_OUT_OF_ORDER = 1_000_000

MOST_STEP, SETTLED = LONGEST_STEP, MOST_OUT_OF_ORDER

cdef object NO_MATCH = Match.none, ROUTED = Match.routed, UNTRACED = Match.untraced
cdef object UNMATCHED = Match.unmatched
cdef object KNOWN = Awareness.known, FORWARD = EdgeKind.forward, CANDIDATE = EdgeKind.candidate
cdef object receive_compiled = receive if core is None else core.receive


cdef struct Places:  # of a record's fields
    Py_ssize_t channel, exchange, properties, body, deaths, queues


cdef Places places_of(kind, str queues):
    cdef Places places
    places.channel, places.exchange = place_of(kind, "channel"), place_of(kind, "exchange")
    places.properties, places.body = place_of(kind, "properties"), place_of(kind, "body")
    places.deaths, places.queues = place_of(kind, "deaths"), place_of(kind, queues)
    return places


cdef Places OF_PUBLISH = places_of(Publish, "routed_queues"), OF_DELIVER = places_of(Deliver, "queue")
cdef Py_ssize_t REDELIVERED = place_of(Deliver, "redelivered")
cdef Py_ssize_t IDS = place_of(Names, "ids"), CAUSES = place_of(Names, "causes")
cdef Py_ssize_t CONVERSATIONS = place_of(Names, "conversations")
cdef Py_ssize_t FOUND_BY = place_of(Names, "found_by"), CALLED = place_of(Names, "called")
cdef Py_ssize_t PACKED = place_of(Reference, "packed"), LAMPORT = place_of(Reference, "lamport")
cdef Py_ssize_t NAMES = place_of(Reference, "names")
cdef Py_ssize_t QUEUE_OF_COPY = place_of(PendingCopy, "queue")
cdef Py_ssize_t NUMBER_OF_COPY = place_of(PendingCopy, "number")
cdef Py_ssize_t CAUSE_OF_COPY = place_of(PendingCopy, "cause")
cdef Py_ssize_t MARK_OF_COPY = place_of(PendingCopy, "fingerprint")
cdef Py_ssize_t TIME_OF_COPY = place_of(PendingCopy, "recorded_at")


cdef class QuietNames:
    """Names of exchanges and queues, each with whether traffic through it is quiet."""

    cdef public tuple patterns
    cdef public object _exchanges, _queues

    cpdef bint covers(self, record) except -1:
        """Tell whether a message went through a quiet exchange, or to quiet queues alone."""
        cdef bint is_publish = type(record) is Publish
        if not is_publish:
            check(record, Deliver)
        cdef Places *places = &OF_PUBLISH if is_publish else &OF_DELIVER
        if not self.patterns:
            return False
        if self._exchanges[at(record, places.exchange)]:
            return True
        queues = at(record, places.queues)
        if not is_publish:
            return self._queues[queues]
        for queue in <tuple>queues:
            if not self._queues[queue]:
                return False
        return len(<tuple>queues) > 0


cdef class SteadyTime:
    """The tracker's own time in µs, which never goes back; it starts with the clock's.

    Ages are measured by it: how long a delivery waits for its publish, a copy for its delivery. It
    follows the times of arrival, in steps of bounded length: a clock that is set forward by a day
    would drop every waiting copy. While the service is away it stands still, since nothing can come
    then.
    """

    cdef public long long time, clock

    def __cinit__(self, long long time=0, long long clock=0):
        """Go on from ``time`` and the ``clock`` at that time; 0 if there is none yet."""
        self.time, self.clock = time, clock

    cpdef void hear(self, long long clock) noexcept:
        if not self.clock:
            self.clock, self.time = clock, self.time or clock
        elif clock > self.clock:
            self.time += min(clock - self.clock, LONGEST_STEP)
            self.clock = clock
        elif clock < self.clock - MOST_BACK:
            self.clock = clock


cdef class Actor:
    """The part of a participant that its events change; `stamp` is its last event's."""

    cdef public long long number, seq, published, lamport, reactions
    cdef public object stamp, height, last, ground, neighbours
    cdef public bint may_move

    cdef object advance(self, tuple causes):
        """Stamp the participant's next event, after all its causes; return its reference."""
        cdef long long lamport = self.lamport
        cdef list clocks = []
        for cause in causes:
            check(cause, Reference)
            clocks.append(at(cause, PACKED))
            lamport = max(lamport, <long long>at(cause, LAMPORT))
        # Packed at once, while the tree is in the processor's cache.
        try:
            if len(clocks) == 1:  # as a rule, which costs less alone
                after = receive_compiled(self.stamp, clocks[0])
            else:
                after = receive_compiled(self.stamp, *clocks)
        except OverflowError:  # too high for it
            after = receive(self.stamp, *clocks)
        self.stamp, self.height, packed = after
        self.seq += 1
        self.lamport = lamport + 1
        self.last = reference = Reference(packed, self.lamport)
        return reference

    @property
    def reacts(self):
        """Tell whether it has received anything, which may lead to its publishes."""
        return self.seq > self.published


cdef class Actors:
    """The channels of a trace, each with its key and participant."""

    cdef public dict _by_channel, _actors
    cdef public object _ground

    cpdef tuple actor(self, channel):
        """The channel's key and participant, both made when it is first seen."""
        cdef PyObject *known = PyDict_GetItemWithError(self._by_channel, channel)
        entry = <tuple>known if known != NULL else self._introduce(channel)
        cdef Actor participant = <Actor?>entry[1]
        if participant.ground is not self._ground:
            participant.stand_on(self._ground)
        self._actors[participant.number] = participant
        return entry


cdef class NamedEvents:
    """The last events with keys, a row of the newest of which is not sorted by these yet."""

    cdef readonly KeyedFifo _events
    cdef readonly list _pending  # not taken in yet, oldest first
    cdef public Py_ssize_t _limit, _at_once, _look_back  # `app.tracker.links.memory`
    cdef long long _next

    def __cinit__(self, limit):
        self._events, self._pending, self._next = KeyedFifo(), [], 1

    cpdef int note(self, event) except -1:
        """Remember an event that has keys; the oldest one makes room."""
        self._pending.append(event)
        if len(self._pending) >= self._at_once:
            self._take_in()
        return 0

    cpdef int _take_in(self) except -1:
        """Sort the noted events by their keys."""
        for event in self._pending:
            if self._events.add_under(self._next, event.keys, event) > self._look_back:
                self._crowd(event)
            if len(self._events) > self._limit:
                self._forget_oldest()
            self._next += 1
        self._pending.clear()
        return 0


@cython.final
@cython.no_gc
cdef class QueueTrail:
    """A queue: the newest copy's number of each participant that published to it.

    ``length`` counts its copies. All that were recorded clearly before ``handed`` are gone.
    ``newest`` and ``previous`` are the last two copies. ``has_handed`` some out; ``is_refilled``:
    not only publishes come in; ``is_crowded``: not all publishers are known. ``letters_of`` are
    queues whose dead letters come here.
    """

    cdef readonly dict pushers
    cdef readonly set letters_of
    cdef public long long newest, previous, length, handed
    cdef public bint has_handed, is_refilled, is_crowded

    def __cinit__(self, bint is_crowded):
        self.pushers, self.letters_of, self.is_crowded = {}, set(), is_crowded

    cpdef int push(self, long long number, participant) except -1:
        """Note a copy that comes in."""
        self.previous, self.newest = self.newest, number
        self.length += 1
        self.pushers[participant] = number
        if len(self.pushers) > MOST_PUSHERS:
            del self.pushers[next(iter(self.pushers))]
            self.is_crowded = True
        return 0


cdef class Copies:
    """The copies that wait, as most come and go."""

    # Each under its fingerprint's halves.
    cdef readonly KeyedFifo waiting
    cdef public object equals, _queues, _takes
    cdef readonly long long next_number
    cdef public long long dropped
    cdef readonly Py_ssize_t _most
    cdef long long _stored, _ages_at
    cdef public list newly_lost
    cdef list _removals

    def __cinit__(self, most, long long age, queues, takes):
        self.waiting = KeyedFifo()
        self._most, self._age, self._queues, self._takes = most, age, queues, takes
        self.newly_lost, self._removals = [], []
        self.next_number = self._stored = 1  # copies from the second on are not
        self._ages_at = 0  # until then no copy is too old

    cpdef int number_from(self, long long number) except -1:
        """Go on with this number; all before it are stored."""
        self.next_number = self._stored = number
        return 0

    cpdef int add(self, publish, bytes mark, cause, participant, long long moment) except -1:
        """Remember one copy for each queue that a publish was routed to."""
        cdef dict states = self._queues.states
        cdef tuple queues = publish.routed_queues
        cdef QueueTrail state
        if not self._takes.is_all:
            queues = tuple(filter(self._takes.deliveries, queues))
        expires = self._expires(publish, moment) if "expiration" in publish.properties else 0
        for queue in queues:
            number = self.next_number
            copy = PendingCopy(number, queue, mark, cause, moment, participant, expires)
            if len(mark) != BYTES:
                self._wait(copy)
            elif self.waiting.append(number, (queue, mark), copy) > 1:
                self.equals.note(copy)
            state = states.get(queue)
            if state is None:
                state = self._queues.add(queue, number)
            state.push(number, participant)
            self.next_number += 1
        if moment > self._ages_at or len(self.waiting) > self._most:
            self._ages_at = self._drop_excess(moment, len(queues) + AGED_AT_ONCE)
        return 0

    cpdef object take(self, tuple key, deliver=None, bint is_whole=False):
        """Take the oldest copy, if there is one, which is handed over or has died.

        If it ``is_whole``, only one whose fingerprint has no other half.
        """
        cdef QueueTrail queue
        cdef int index = self.waiting._oldest_of(key, hash_of(key))
        copy = self.waiting._value_at(index)
        if copy is None or (is_whole and len(<bytes>at(copy, MARK_OF_COPY)) != BYTES):
            return None
        self.waiting._remove(index)
        queue = self._note_leaving(copy)
        if queue is not None and deliver is not None:
            queue.has_handed = True
            if (
                <long long>at(copy, TIME_OF_COPY) > queue.handed
                and "priority" not in deliver.properties
            ):
                queue.handed = at(copy, TIME_OF_COPY)
        return copy

    cpdef QueueTrail _note_leaving(self, copy):
        """Note that a copy has left its queue; returns that, if it is remembered."""
        cdef QueueTrail queue
        check(copy, PendingCopy)
        number = at(copy, NUMBER_OF_COPY)
        if <long long>number < self._stored:
            self._removals.append(number)
        queue = (<dict>self._queues.states).get(at(copy, QUEUE_OF_COPY))
        if queue is not None:
            queue.length -= 1
        if self.equals.newest:
            self.equals.note_leaving(copy)
        return queue

    def changes(self):
        """Copies (added, removed, lost) since the last call; short-lived ones only in the last."""
        changes = self.waiting.since(self._stored), self._removals, self.newly_lost
        self._stored, self._removals, self.newly_lost = self.next_number, [], []
        return changes


@cython.final
@cython.freelist(64)
@cython.no_gc
cdef class Hold:
    """A delivery that may come back: of a copy of ``cause``, or of another of the candidates.

    With 0 candidates no publish is known, and the delivery stands for it, as it does for several
    until it is handed over again: two such deliveries are of two messages. Without ``delivery`` it
    is a copy that died and was handed to nobody, with the ``influences`` that led to that.
    ``death`` is the time of its newest death as the broker wrote it; None where it is not known.
    """

    cdef public object cause, candidates, delivery, participant, death
    cdef public tuple influences
    cdef public bint has_brought  # deaths, as its publish had them
    cdef public bint is_doubtful  # there may be more influences

    def __cinit__(
        self,
        cause,
        candidates=None,
        delivery=None,
        participant=0,
        death=None,
        bint has_brought=False,
        tuple influences=(),
        bint is_doubtful=False,
    ):
        self.cause, self.candidates, self.delivery = cause, candidates, delivery
        self.participant, self.death, self.has_brought = participant, death, has_brought
        self.influences, self.is_doubtful = influences, is_doubtful


NOBODYS = Reference(b"", 0)


cdef class Holds:
    """The last holds by queue and fingerprint; of deliveries ``next`` is that of the one at hand."""

    cdef public KeyedFifo _holds
    cdef public Hold next
    cdef public Py_ssize_t most
    cdef long long _next

    def __cinit__(self, most):
        self._holds, self.most, self._next = KeyedFifo(), most, 1

    def __len__(self):
        return len(self._holds)

    def __contains__(self, key):
        return key in self._holds

    cpdef int add(self, tuple key, Hold hold) except -1:
        # With deaths that were brought it may be meant as it is, or whatever these are.
        if hold.has_brought:
            self._holds.add_under(self._next, (key, (key[0], key[1][: BYTES // 2])), hold)
        else:
            self._holds.append(self._next, key, hold)
        self._next += 1
        if len(self._holds) > self.most:
            self._holds.take_oldest()
        return 0

    cpdef int note(self, queue, bytes mark, delivery, participant) except -1:
        """Remember the delivery at hand."""
        cdef Hold hold = self.next
        hold.delivery, hold.participant = delivery, participant
        if hold.cause is NOBODYS:
            hold.cause = delivery
        # As `handover_of` has it.
        return self.add((queue, mark if len(mark) == BYTES else mark[-BYTES:]), hold)


cdef class Steps:
    """The steps of a trace's participants, with links by its rules."""

    cdef object _linker, _note_last
    cdef NamedEvents _named

    def __cinit__(self, participants, linker):
        self._linker, self._named = linker, linker.memory
        self._note_last = participants.note_last

    def take(
        self,
        channel_key,
        Actor participant not None,
        record,
        names,
        joins,
        message,
        bint quiet,
        ways=(),
        influences=(),
    ):
        """Stamp a participant's next event; return its reference, its names, and its edges.

        The clock joins all that may have led to it: ``joins``, the events that its ``names`` name,
        and the ``influences`` of the broker's acts. ``message`` is the publish that was received,
        where that is certain. Edges that are known already are evidence by their ``ways``. A
        ``quiet`` event joins nothing, and neither names nor is named.
        """
        cdef bint is_publish = type(record) is Publish
        cdef tuple edges = (), causes = tuple(joins)
        forwarded = None
        if participant.may_move:
            names = self._read_move(participant, record, names)
        check(names, Names)
        if quiet:
            causes = ()
            names = Names(found_by=at(names, FOUND_BY), called=at(names, CALLED))
            if not names.found_by and not names.called:
                names = NO_NAMES
        elif at(names, CAUSES):
            connection = record.channel.connection
            edges = self._linker.edges(names, participant, channel_key, connection)
            for edge in edges:
                if edge.way is not KNOWN:
                    causes = (*causes, edge.cause)
                if edge.kind is FORWARD:
                    forwarded = edge.cause
        if influences:
            acts = self._acts(influences)
            edges = (*edges, *acts)  # of quiet traffic too, which may be restamped as other
            if not quiet:
                causes = (*causes, *[act.cause for act in acts])
        reference = participant.advance(causes)
        if self._note_last is not None:
            self._note_last(channel_key, reference)
        if at(names, IDS):
            self._named.note(
                NamedEvent(
                    at(names, IDS),
                    not is_publish,
                    participant.number,
                    channel_key,
                    record.channel.connection,
                    participant.height,
                    reference,
                    reference if is_publish else message,
                    record.queue,
                    0,
                    forwarded,
                )
            )
        self._weigh(participant, names, edges, ways, quiet, is_publish)
        return reference, names, edges

    cdef int _weigh(
        self, Actor participant, names, tuple edges, ways, bint quiet, bint is_publish
    ) except -1:
        """Note the evidence that an event is of who its participant is, and of whom it heard."""
        neighbours, keys = participant.neighbours, at(names, CONVERSATIONS)
        cdef bint is_echo, is_shared = neighbours.is_shared
        if not is_publish:
            if is_shared and not (participant.published and participant.reacts):
                neighbours.echoes(keys, participant)
            if participant.seq - participant.published == 1:
                neighbours.note_heard(participant)
            return 0
        participant.published += 1
        if participant.published == 1:
            neighbours.note_spoke(participant)
        if edges:
            ways = [*ways, *[edge.way for edge in edges if edge.kind is not CANDIDATE]]
        if ways:
            participant.explain(ways)
        elif not quiet and (
            participant.reacts
            or neighbours.may_have_told(participant.identity)
            or (at(names, CAUSES) and self._linker.sure_keys(names))
        ):
            participant.reactions += 1
        is_echo = is_shared and not participant.reacts and neighbours.echoes(keys, participant)
        if is_echo and not ways:
            participant.missed += 1
        return 0


@cython.final
@cython.no_gc
cdef class QueueTally:
    """The last delivery of a queue that was matched, and the last that is settled."""

    cdef public long long matched_at, settled_at, matched, unmatched
    cdef public object cause, settled

    def __cinit__(self, long long matched_at, cause, long long matched=1):
        self.matched_at, self.cause, self.matched = matched_at, cause, matched


cdef class Matches:
    """The queues of one trace that handed out messages whose publish was seen."""

    cdef public object _queues
    # Earlier events say nothing: other exchanges and queues were taken then. None: they still are.
    cdef public object start

    cdef int note_match(self, name, cause, long long moment) except -1:
        """Note a first delivery whose publish was seen."""
        cdef QueueTally queue
        if self.start is None or (cause.id is not None and cause.id <= self.start):
            return 0
        queue = self._queues.get(name)
        if queue is None:
            self._begin(name, QueueTally(moment, cause))
            return 0
        queue.matched += 1
        if moment - queue.matched_at >= MOST_OUT_OF_ORDER or queue.settled is None:
            queue.settled_at, queue.settled = queue.matched_at, queue.cause
            queue.matched_at, queue.cause = moment, cause
        return 0


cdef class Stamping:
    """A tracker's way with a record that has to wait for nothing."""

    cdef public object counters, settlements, participants
    cdef public QuietNames _quiet
    cdef public object _takes, _matcher, _linker, _replies, _window, _omissions, _unread
    cdef public SteadyTime _time
    cdef public Steps _steps
    cdef public Matches _suspicion
    cdef Actors _actors
    cdef Copies _copies
    cdef Holds _handovers

    cdef int _begin(self) except -1:
        self._actors, self._copies = self.participants, self._matcher.copies
        self._handovers = self._matcher.handovers
        return 0

    def steps(self, record, long long moment):
        """Do what `apply` does, an event at a time, as many may have waited for this record.

        No other method may be called before the last of them.
        """
        publish = self._replies.direct_reply(record) if self._replies.are_awaited else None
        cdef bytes mark = fingerprint(record)
        self._time.hear(moment)
        if not self._window.span and not self._window.count:
            events = (self._stamp(record if publish is None else publish, moment, mark, None),)
        else:
            events = self._admit_all(record if publish is None else publish, moment, mark)
        if publish is not None and self._takes.deliveries(publish.routed_queues[0]):
            return chain(events, self._reply(publish, moment))
        return events

    cpdef object _stamp(self, record, long long moment, bytes mark, names):
        """Stamp a record that has come ``moment``; ``names`` are those in it, if they are read."""
        cdef bint is_publish = type(record) is Publish
        cdef Places *places = &OF_PUBLISH if is_publish else &OF_DELIVER
        cdef bint is_explained = True, is_doubtful = False
        cdef tuple joins = (), influences = ()
        cdef Actor participant
        if not is_publish:
            check(record, Deliver)
        if self._actors is None:
            self._begin()
        channel_key, participant = self._actors.actor(at(record, places.channel))
        cdef dict properties = at(record, places.properties)
        cdef bint quiet = self._quiet.covers(record)
        match, cause, guess, candidates = NO_MATCH, None, None, None
        if not is_publish:
            cause = self._only_cause(record, mark)
            if cause is not None:
                match, guess = ROUTED, cause
            else:
                origin = self._matcher.cause_of(record, mark, self._time.time)
                is_explained = origin.match is not UNMATCHED or bool(origin.influences)
                if not is_explained:
                    origin, mark = self._origin_elsewhere(record, mark, origin)
                match, cause, guess, influences, candidates, is_doubtful = astuple(origin)
            if match is ROUTED and self._replies.are_awaited and is_reply(at(record, places.queues)):
                match = UNTRACED
        if cause is not None:
            joins = (cause,)
        if names is None:
            if cause is not None and is_explained and not changes_headers(properties):
                names = at(cause, NAMES)  # those in its message, which is the same
            if names is None:
                names = self._linker.read(record)
        message_names = names
        if quiet:
            self.counters.quiet += 1
        reference, names, edges = self._steps.take(
            channel_key, participant, record, names, joins, cause, quiet, (), influences
        )
        self.settlements.last = reference
        if is_publish:
            self.counters.published += 1
            if not changes_headers(properties):
                if at(message_names, CAUSES):  # which a delivery does not name
                    ids, _, *others = astuple(message_names)
                    message_names = Names(ids, (), *others)
                put(reference, NAMES, message_names)
            if at(record, places.exchange) or not at(record, places.queues):
                self._matcher.kept.note(mark[:BYTES], reference)
            self._copies.add(record, mark, reference, participant.number, self._time.time)
            if "reply_to" in properties:
                self._replies.note(channel_key, record)
            if not self._replies.are_traced:
                self._note_lost_reply(record, reference, moment)
        else:
            self.counters.received += 1
            if match is not ROUTED and (match is not UNMATCHED or self._is_missed(record)):
                self._count(match)
            queue = at(record, places.queues)
            self._handovers.note(queue, mark, reference, participant.number)
            if self.settlements.channels:
                self.settlements.count_delivery(record, reference, moment)
            if guess is not None:
                if match is ROUTED and is_explained:
                    self._suspicion.note_match(queue, guess, moment)
            elif match is UNMATCHED and self._is_missed(record):
                has_forgotten = self._copies.has_forgotten(queue)
                self._suspicion.note_unmatched(record, moment, has_forgotten=has_forgotten)
        return StampedEvent(  # by place: by name it takes twice as long
            record,
            moment,
            participant.number,
            channel_key,
            participant.seq,
            participant.lamport,
            participant.height,
            participant.stamp,
            match,
            cause,
            mark,
            reference,
            quiet,
            names,
            edges,
            candidates,
            is_doubtful,
        )

    cdef object _only_cause(self, deliver, bytes mark):
        """The publish of a first delivery of the only copy of its kind, as nearly all are.

        None, and nothing is done, where the searches have to look (`matching.searches`).
        """
        cdef Copies copies = self._copies
        if (
            len(mark) != BYTES
            or at(deliver, REDELIVERED)
            or at(deliver, OF_DELIVER.deaths)
            or copies.dropped
            or copies.equals.newest
        ):
            return None
        copy = copies.take((at(deliver, OF_DELIVER.queues), mark), deliver, True)
        if copy is None:
            return None
        cause = at(copy, CAUSE_OF_COPY)
        self._handovers.next = Hold(cause)
        return cause
