"""The tracker's memories of copies, handovers and names: a queue by key and by age.

Entries stand in a row by age; one that was taken leaves a hole. A row that is full is made anew
without holes. Beside it, a table has the place of each key's oldest entry, by the key's hash; those
of equal keys make a ring.

No Python code runs while the queue is being changed: keys are bytes, or pairs of a text and bytes,
and the collector runs only where lists are made, which comes before anything is looked at.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.long cimport PyLong_AsLongLong
from libc.limits cimport INT_MAX, LLONG_MIN

cdef enum:
    FEWEST = 256  # places of an empty queue's row
    NOWHERE = -1
    FREE = 0  # in the table, where places are raised by one
    LEFT = -1  # what was there is gone: those of other keys may come behind


cdef struct Place:  # of one of an entry's keys
    long long number
    Py_hash_t hash  # of the key
    int first  # of the entry's places; NOWHERE if it was taken
    int cell  # of the table, where the place of the key's oldest is
    # The newest of a ring comes before the oldest, which counts them and is the one in the table.
    # The others count none.
    int older_alike
    int newer_alike
    int alike


cdef Py_hash_t hash_of(key) except -1:
    if not (
        type(key) is bytes
        or type(key) is tuple
        and len(<tuple>key) == 2
        and type((<tuple>key)[0]) is str
        and type((<tuple>key)[1]) is bytes
    ):
        raise TypeError("a key is bytes, or a text and bytes")
    return hash(key)


@cython.boundscheck(False)
cdef bint are_equal(one, other) except -1:
    """Whether two keys of equal hash are."""
    if one is other or type(one) is not type(other):
        return one is other
    if type(one) is bytes:
        return <bytes>one == <bytes>other
    return <bytes>(<tuple>one)[1] == <bytes>(<tuple>other)[1] and (
        <str>(<tuple>one)[0] == <str>(<tuple>other)[0]
    )


@cython.final
@cython.no_gc_clear  # the collector empties the lists, whose bounds are checked
cdef class KeyedFifo:
    """A queue of numbered values that can be taken by key or by age. No value is None."""

    cdef bytearray _row, _table  # the memory of the next two
    cdef Place *_places
    cdef int *_cells
    cdef size_t _mask  # of hashes, to the table's cells
    cdef list _keys, _values  # of each place; the value is at the entry's first, the others' None
    cdef int _begin, _end, _room  # of the row; all places before the beginning are holes
    cdef int _held  # places that are no holes
    cdef Py_ssize_t _count

    def __cinit__(self):
        self._renew(0)

    def __init__(self):
        pass  # or any arguments were accepted

    def __len__(self):
        return self._count

    def __contains__(self, key):
        return self._oldest(key) != NOWHERE

    def add(self, number, key, value, /):
        """Append a value; numbers must grow. Returns how many the key has now."""
        cdef Py_hash_t its_hash = hash_of(key)
        cdef long long its_number = self._admitted(number, 1)
        self._count += 1
        return self._put(its_number, self._end, key, its_hash, value)

    def add_under(self, number, tuple keys not None, value, /):
        """Append a value that can be taken by each of several keys, no two of them equal.

        Returns how many the key has now that most have.
        """
        cdef long long its_number
        cdef int first, most = 0
        if not keys:
            raise ValueError("a value needs a key")
        for key in keys:
            hash_of(key)
        its_number = self._admitted(number, len(keys))
        self._count += 1
        first = self._end
        for key in keys:
            most = max(most, self._put(its_number, first, key, hash(key), value))
            value = None
        return most

    def take(self, key, /):
        """Remove and return the oldest value of a key; None if it has none."""
        return self._taken(self._oldest(key))

    def first(self, key, /):
        """Return the oldest value of a key; None if it has none."""
        cdef int oldest = self._oldest(key)
        return None if oldest == NOWHERE else self._values[self._places[oldest].first]

    def count(self, key, /):
        """Return how many values a key has."""
        cdef int oldest = self._oldest(key)
        return 0 if oldest == NOWHERE else self._places[oldest].alike

    def get(self, number, /):
        """Return the value of that number, where it is still held."""
        cdef long long its_number = PyLong_AsLongLong(number)
        cdef int at = self._place_of(its_number)
        if at == self._end or self._places[at].number != its_number:
            return None
        return self._values[at]

    def oldest(self):
        """Return the oldest value of all."""
        return None if self._begin == self._end else self._values[self._begin]

    def take_oldest(self):
        """Remove and return the oldest value of all, which is also the oldest of its keys."""
        return self._taken(NOWHERE if self._begin == self._end else self._begin)

    def newest(self, key, Py_ssize_t most, /):
        """Return up to ``most`` values of a key, newest first."""
        cdef list found = []
        cdef int oldest = self._oldest(key)
        cdef int at = oldest
        while at != NOWHERE and len(found) < most:
            at = self._places[at].older_alike
            found.append(self._values[self._places[at].first])
            if at == oldest:
                break
        return found

    def since(self, number, /):
        """Return the values with that number and later ones, oldest first."""
        cdef list found = []
        cdef int at
        for at in range(self._place_of(PyLong_AsLongLong(number)), self._end):
            if self._places[at].first == at:
                found.append(self._values[at])
        return found

    def keys(self):
        """Return each value's first key, oldest value first."""
        cdef list found = []
        cdef int at
        for at in range(self._begin, self._end):
            if self._places[at].first == at:
                found.append(self._keys[at])
        return found

    def values(self):
        """Return all values, oldest first."""
        return self.since(LLONG_MIN)

    cdef int _cell(self, key, Py_hash_t its_hash) except -1:
        """The cell with the place of a key's oldest, or one where it can be put."""
        cdef int left = -1
        cdef size_t cell = <size_t>its_hash & self._mask
        cdef int at = self._cells[cell]
        while at != FREE:
            if at == LEFT:
                if left < 0:
                    left = cell
            elif self._places[at - 1].hash == its_hash and are_equal(self._keys[at - 1], key):
                return cell
            cell = (cell + 1) & self._mask
            at = self._cells[cell]
        return cell if left < 0 else left

    cdef int _oldest(self, key) except -2:
        """The place of a key's oldest; NOWHERE if there is none."""
        cdef int at = self._cells[self._cell(key, hash_of(key))]
        return at - 1 if at > FREE else NOWHERE

    cdef int _place_of(self, long long number) noexcept:
        """The place of the oldest with that number or a later one, even of a hole; or the end."""
        cdef int begin = self._begin, end = self._end, middle
        while begin < end:
            middle = begin + (end - begin) // 2
            if self._places[middle].number < number:
                begin = middle + 1
            else:
                end = middle
        return begin

    cdef long long _admitted(self, number, Py_ssize_t keys) except? -1:
        """The number of a new entry, for which there is room then."""
        cdef long long its_number = PyLong_AsLongLong(number)
        if keys > self._room - self._end:
            self._renew(keys)
        if self._end > 0 and its_number <= self._places[self._end - 1].number:
            raise ValueError("numbers must grow")
        return its_number

    cdef int _put(
        self, long long number, int first, key, Py_hash_t its_hash, value
    ) except -1:
        """Append a place, of an entry that begins there or before. Returns as `_linked`."""
        cdef int at = self._end
        self._keys.append(key)
        self._values.append(value)
        self._places[at].number = number
        self._places[at].hash = its_hash
        self._places[at].first = first
        self._end += 1
        self._held += 1
        return self._linked(at)

    cdef int _linked(self, int at) except -1:
        """Put a place with those of an equal key. Returns how many there are now."""
        cdef Place *place = &self._places[at]
        cdef int cell = self._cell(self._keys[at], place.hash)
        cdef int oldest = self._cells[cell] - 1
        place.cell = cell
        place.alike = 0
        if oldest < 0:
            oldest = place.older_alike = place.newer_alike = at
            self._cells[cell] = at + 1
        else:
            place.newer_alike = oldest
            place.older_alike = self._places[oldest].older_alike
            self._places[place.older_alike].newer_alike = at
            self._places[oldest].older_alike = at
        self._places[oldest].alike += 1
        return self._places[oldest].alike

    cdef void _unlink(self, int at) noexcept:
        cdef Place *place = &self._places[at]
        cdef int newer = place.newer_alike
        if place.alike == 0:
            self._places[self._cells[place.cell] - 1].alike -= 1
        elif newer == at:
            self._cells[place.cell] = LEFT
        else:
            self._cells[place.cell] = newer + 1
            self._places[newer].alike = place.alike - 1
        self._places[place.older_alike].newer_alike = newer
        self._places[newer].older_alike = place.older_alike
        place.first = NOWHERE
        self._held -= 1

    cdef object _taken(self, int at):
        """Remove the entry with a place; returns its value."""
        cdef int first
        if at == NOWHERE:
            return None
        at = first = self._places[at].first
        value = self._values[first]
        self._values[first] = None
        while at < self._end and self._places[at].first == first:
            self._unlink(at)
            self._keys[at] = None
            at += 1
        self._count -= 1
        while self._begin < self._end and self._places[self._begin].first == NOWHERE:
            self._begin += 1
        if self._room > FEWEST and self._held < self._room // 8:
            try:
                self._renew(0)
            except MemoryError:
                pass  # which is only a matter of memory
        return value

    cdef int _renew(self, Py_ssize_t more) except -1:
        """Make the row and the table anew without holes, and with room for this many keys more."""
        cdef list keys = [], values = []
        cdef Py_ssize_t room = max(FEWEST, 2 * (self._held + more)), cells = 2 * FEWEST
        cdef int at, end = 0
        while cells < 2 * room:
            cells *= 2
        if cells > INT_MAX:
            raise MemoryError
        row, table = bytearray(room * sizeof(Place)), bytearray(cells * sizeof(int))
        places = <Place *>PyByteArray_AS_STRING(row)
        for at in range(self._begin, self._end):
            if self._places[at].first != NOWHERE:
                keys.append(self._keys[at])
                values.append(self._values[at])
                places[end] = self._places[at]
                places[end].first += end - at
                end += 1
        self._row, self._table, self._keys, self._values = row, table, keys, values
        self._places, self._cells = places, <int *>PyByteArray_AS_STRING(table)
        self._begin, self._end, self._room, self._mask = 0, end, room, cells - 1
        for at in range(end):
            self._linked(at)
