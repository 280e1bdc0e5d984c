# cython: boundscheck=False
"""Copies that wait, and holds of what was handed over: what most records do with them.

The rest is in Python, in classes that inherit these (`app.tracker.matching`).
"""

cimport cython

from app.tracker._fields cimport at, check, place_of
from app.tracker._memories cimport KeyedFifo, hash_of
from app.tracker.events import PendingCopy, Reference

cdef enum:
    BYTES = 16  # of a fingerprint without another half
    MOST_PUSHERS = 64  # publishers of a queue
    AGED_AT_ONCE = 100  # overaged copies that one publish drops, beside those beyond the bound

cdef Py_ssize_t QUEUE_OF_COPY = place_of(PendingCopy, "queue")
cdef Py_ssize_t NUMBER_OF_COPY = place_of(PendingCopy, "number")
cdef Py_ssize_t MARK_OF_COPY = place_of(PendingCopy, "fingerprint")
cdef Py_ssize_t TIME_OF_COPY = place_of(PendingCopy, "recorded_at")


@cython.final
@cython.no_gc
cdef class QueueTrail:
    """A queue: the newest copy's number of each participant that published to it.

    ``length`` counts its copies. All that were recorded clearly before ``handed`` are gone.
    ``newest`` and ``previous`` are the last two copies. ``has_handed`` some out; ``is_refilled``:
    not only publishes come in; ``is_crowded``: not all publishers are known. ``letters_of`` are
    queues whose dead letters come here.
    """

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
