"""The participants and steps of `_steps.pyx`, for other compiled modules."""

from app.tracker._memories cimport KeyedFifo


cdef class Actor:
    cdef public long long number, seq, published, lamport, reactions
    cdef public object stamp, height, last, ground, neighbours
    cdef public bint may_move

    cdef object advance(self, tuple causes)


cdef class Actors:
    cdef public dict _by_channel, _actors
    cdef public object _ground

    cpdef tuple actor(self, channel)


cdef class NamedEvents:
    cdef readonly KeyedFifo _events
    cdef readonly list _pending  # not taken in yet, oldest first
    cdef public Py_ssize_t _limit, _at_once, _look_back  # `app.tracker.links.memory`
    cdef long long _next

    cpdef int note(self, event) except -1
    cpdef int _take_in(self) except -1


cdef class Steps:
    cdef object _linker, _note_last
    cdef NamedEvents _named

    cdef int _weigh( self, Actor participant, names, tuple edges, ways, bint quiet, bint is_publish ) except -1
