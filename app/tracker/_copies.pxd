"""The copies and holds of `_copies.pyx`, for other compiled modules."""

from app.tracker._memories cimport KeyedFifo


cdef class QueueTrail:
    cdef readonly dict pushers
    cdef readonly set letters_of
    cdef public long long newest, previous, length, handed
    cdef public bint has_handed, is_refilled, is_crowded

    cpdef int push(self, long long number, participant) except -1


cdef class Copies:
    # Each under its fingerprint's halves.
    cdef readonly KeyedFifo waiting
    cdef public object equals, _queues, _takes
    cdef readonly long long next_number
    cdef public long long dropped
    cdef readonly Py_ssize_t _most
    cdef long long _stored, _ages_at
    cdef public list newly_lost
    cdef list _removals

    cpdef int number_from(self, long long number) except -1
    cpdef int add(self, publish, bytes mark, cause, participant, long long moment) except -1
    cpdef object take(self, tuple key, deliver=*, bint is_whole=*)
    cpdef QueueTrail _note_leaving(self, copy)


cdef class Hold:
    cdef public object cause, candidates, delivery, participant, death
    cdef public tuple influences
    cdef public bint has_brought  # deaths, as its publish had them
    cdef public bint is_doubtful  # there may be more influences


cdef class Holds:
    cdef public KeyedFifo _holds
    cdef public Hold next
    cdef public Py_ssize_t most
    cdef long long _next

    cpdef int add(self, tuple key, Hold hold) except -1
    cpdef int note(self, queue, bytes mark, delivery, participant) except -1
