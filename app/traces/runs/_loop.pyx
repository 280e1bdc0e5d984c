# cython: boundscheck=False
"""The loop over what arrived: each message or record is counted, and stamped if it is new."""

from cpython.time cimport perf_counter

from app.tracker._fields cimport at, place_of, put
from app.tracker.digest import digest

cdef tuple FIELDS = (
    "tag", "message", "digest", "size", "at", "bundle", "ordinal", "is_last"
)  # of an `Arrival`, in the order of the next
cdef enum:
    TAG = 0
    MESSAGE = 1
    DIGEST = 2
    SIZE = 3
    AT = 4
    BUNDLE = 5
    ORDINAL = 6
    IS_LAST = 7
    ALL_FIELDS = 8
    IS_OWN = 0  # of `About`
    IS_COUNTED = 1


cdef class Loop:
    """One portion's way through the loop, with its counts.

    ``stamper`` takes what is not ordinary (`Stamper.take_rare`), and the first and last record of
    a bundle (`Stamper.take_record`). The broker counts what is ``published`` and ``received``.
    """

    cdef readonly object tag
    cdef readonly long long count, size, unfinished
    cdef public long long published, received
    cdef object _stamper, _collectors, _about, _steps, _refused, _kind, _bundle, _maker
    cdef list _events, _digests, _inner
    cdef Py_ssize_t _places[ALL_FIELDS]
    cdef Py_ssize_t _next_ordinal

    def __cinit__(self, stamper, recorder, about, refused):
        stretch = stamper.stretch
        self._stamper, self._refused, self._steps = stamper, refused, recorder.tracker.steps
        self._about, self._collectors = about, recorder.collectors
        self._events, self._digests, self._inner = stretch.events, stretch.digests, stretch.inner
        self.tag = stretch.tag

    cdef int _learn(self, arrival) except -1:
        """Learn where the fields of an arrival are."""
        cdef int field
        for field in range(ALL_FIELDS):
            self._places[field] = place_of(type(arrival), FIELDS[field])
        self._kind = type(arrival)
        return 0

    cdef bint _is_new(self, arrival, bundle) except -1:
        """Take a record of a bundle; tell whether it is not stored yet."""
        ordinal = at(arrival, self._places[ORDINAL])
        if bundle is not self._bundle or at(arrival, self._places[IS_LAST]):
            is_new = self._stamper.take_record(arrival, bundle)
            self._bundle, self._maker = bundle, self._collectors.maker
            self._next_ordinal = place_of(type(self._maker), "ordinal")
            return is_new
        if ordinal < at(self._maker, self._next_ordinal):
            return False
        put(self._maker, self._next_ordinal, ordinal + 1)
        return True

    def go_on(self, decisions, double deadline):
        """Go on with pairs of an arrival and whether it is new, up to a time.

        Returns None once there is no other; or the events that one became, still to be made and to
        be added to the others, none as a rule.
        """
        cdef bint is_new
        self._bundle = None  # collectors may have changed meanwhile
        for arrival, is_new in decisions:
            if type(arrival) is not self._kind:
                self._learn(arrival)
            bundle, message = at(arrival, self._places[BUNDLE]), at(arrival, self._places[MESSAGE])
            self.count += 1
            self.size += <long long>at(arrival, self._places[SIZE])
            self.tag = at(arrival, self._places[TAG])
            if bundle is not None:
                self.unfinished += not at(arrival, self._places[IS_LAST])
                is_new = is_new and self._is_new(arrival, bundle)
            if not is_new:
                continue
            key = at(arrival, self._places[DIGEST]) or digest(message)
            (self._digests if bundle is None else self._inner).append(key)
            about = self._about(message)
            if not isinstance(about, tuple):
                raise TypeError("a message is about something")
            if (
                (<tuple>about)[IS_OWN]
                or not (<tuple>about)[IS_COUNTED]
                or not message.is_event
                or (self._refused and key in self._refused)
            ):
                outcome = self._stamper.take_rare(self, arrival, key)
            else:
                if message.queue is None:
                    self.published += 1
                else:
                    self.received += 1
                outcome = self._steps(message, at(arrival, self._places[AT]))
            if type(outcome) is not tuple:
                return outcome
            self._events += <tuple>outcome
            if perf_counter() >= deadline:
                return ()
        return None
