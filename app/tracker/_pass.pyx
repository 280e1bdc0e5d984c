# cython: boundscheck=False
"""The pass of a record to its stamped event: match, links, clock.

Every record takes it, and most do nothing else. So the halves of the tracker's parts that it goes
through are compiled (`_copies.pyx`, `_steps.pyx`), and each part's other half, in Python, inherits
its own.
"""

cimport cython
from itertools import chain

from msgspec.structs import astuple

from app.tracker._copies cimport Copies, Hold, Holds
from app.tracker._fields cimport at, check, place_of, put
from app.tracker._names cimport changes_headers
from app.tracker._steps cimport Actor, Actors, Steps
from app.tracker.events import PendingCopy, Reference, StampedEvent
from app.tracker.fingerprint import fingerprint
from app.tracker.links.names import Names
from app.tracker.records import Deliver, Publish
from model.texts import is_reply
from model.words import Match

cdef enum:
    BYTES = 16  # of a fingerprint without another half
    # The tracker is called every fifth of a second, or little later, unless the store is slow (µs).
    LONGEST_STEP = 500_000
    MOST_BACK = 10_000_000  # times of arrival go back a little; further where the clock was set back
    # Several consumers of a queue act at once: their trace messages may be this far out of order.
    MOST_OUT_OF_ORDER = 1_000_000

MOST_STEP, SETTLED = LONGEST_STEP, MOST_OUT_OF_ORDER

cdef object NO_MATCH = Match.none, ROUTED = Match.routed, UNTRACED = Match.untraced
cdef object UNMATCHED = Match.unmatched


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
cdef Py_ssize_t CAUSES = place_of(Names, "causes")
cdef Py_ssize_t NAMES = place_of(Reference, "names")
cdef Py_ssize_t CAUSE_OF_COPY = place_of(PendingCopy, "cause")


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
