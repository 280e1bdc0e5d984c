# cython: boundscheck=False
"""Participants, the events that may be named, and one step of causality, as most records take it.

The rest is in Python, in classes that inherit these.
"""

from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject

from app.tracker._fields cimport at, check, place_of
from app.tracker._memories cimport KeyedFifo
from app.tracker.events import NamedEvent, Reference
from app.tracker.links.names import NO_NAMES, Names
from app.tracker.records import Publish
from itc import receive
from itc.core import core
from model.words import Awareness, EdgeKind

cdef object KNOWN = Awareness.known, FORWARD = EdgeKind.forward, CANDIDATE = EdgeKind.candidate
cdef object receive_compiled = receive if core is None else core.receive
cdef Py_ssize_t IDS = place_of(Names, "ids"), CAUSES = place_of(Names, "causes")
cdef Py_ssize_t CONVERSATIONS = place_of(Names, "conversations")
cdef Py_ssize_t FOUND_BY = place_of(Names, "found_by"), CALLED = place_of(Names, "called")
cdef Py_ssize_t PACKED = place_of(Reference, "packed"), LAMPORT = place_of(Reference, "lamport")


cdef class Actor:
    """The part of a participant that its events change; `stamp` is its last event's."""

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


cdef class Steps:
    """The steps of a trace's participants, with links by its rules."""

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
