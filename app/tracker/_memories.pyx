"""The tracker's memories of copies, handovers and names: a queue by key and by age.

Each key of an entry has a place in a row, and places that were left are taken again, so nothing is
moved but where the row grows or shrinks: to move all at a time takes others' turns.

No Python code runs while the queue is being changed: keys are bytes, or pairs of a text and bytes,
and the collector runs only where lists are made, which comes before anything is looked at.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.long cimport PyLong_AsLongLong
from libc.limits cimport INT_MAX
from libc.string cimport memset

cdef enum:
    FEWEST = 256  # places of an empty queue's row, a power of two
    NOWHERE = -1


cdef struct Place:  # of one of an entry's keys
    long long number
    Py_hash_t hash  # of the key
    int first  # of the entry's places, which has the value
    int next  # of the entry's places; of one that is free, the next free one
    int older  # entries, by their first places
    int newer
    # The newest of a ring comes before the oldest, which counts them and is the one in the table.
    # The others count none.
    int older_alike
    int newer_alike
    int alike
    int next_by_key  # in the same cell of a table
    int next_by_number
    int moved  # to this place of the next row


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


cdef void leave(Place *places, int *link, int at) noexcept:
    """Take a place out of a table's cell of places by number."""
    while link[0] != at:
        link = &places[link[0]].next_by_number
    link[0] = places[at].next_by_number


@cython.final
@cython.no_gc_clear  # the collector empties the lists, whose bounds are checked
cdef class KeyedFifo:
    """A queue of numbered values that can be taken by key or by age. No value is None."""

    cdef bytearray _row, _tables  # the memory of the next three
    cdef Place *_places
    cdef int *_by_key  # cells with the first of some places
    cdef int *_by_number
    cdef size_t _mask  # of hashes and numbers, to the tables' cells
    cdef list _keys, _values  # of each place; the value is at the entry's first, the others' None
    cdef int _oldest, _newest, _free
    cdef int _room, _held  # places, in all and of entries
    cdef Py_ssize_t _count

    def __cinit__(self):
        self._oldest = self._newest = NOWHERE
        self._renew(FEWEST)

    def __init__(self):
        pass  # or any arguments were accepted

    def __len__(self):
        return self._count

    def __contains__(self, key):
        return self._oldest_of(key, hash_of(key)) != NOWHERE

    def add(self, number, key, value, /):
        """Append a value; numbers must grow. Returns how many the key has now."""
        cdef Py_hash_t its_hash = hash_of(key)
        cdef long long its_number = self._admitted(number, 1)
        cdef int first = self._put(its_number, key, its_hash)
        self._append(first, value)
        return self._linked(first)

    def add_under(self, number, tuple keys not None, value, /):
        """Append a value that can be taken by each of several keys, no two of them equal.

        Returns how many the key has now that most have.
        """
        cdef long long its_number
        cdef int at, last = NOWHERE, most = 0
        if not keys:
            raise ValueError("a value needs a key")
        for key in keys:
            hash_of(key)
        its_number = self._admitted(number, len(keys))
        for key in keys:
            at = self._put(its_number, key, hash(key))
            if last == NOWHERE:
                self._append(at, value)
            else:
                self._places[at].first = self._places[last].first
                self._places[last].next = at
            last = at
            most = max(most, self._linked(at))
        return most

    def take(self, key, /):
        """Remove and return the oldest value of a key; None if it has none."""
        return self._taken(self._oldest_of(key, hash_of(key)))

    def first(self, key, /):
        """Return the oldest value of a key; None if it has none."""
        return self._value_at(self._oldest_of(key, hash_of(key)))

    def count(self, key, /):
        """Return how many values a key has."""
        cdef int oldest = self._oldest_of(key, hash_of(key))
        return 0 if oldest == NOWHERE else self._places[oldest].alike

    def get(self, number, /):
        """Return the value of that number, where it is still held."""
        cdef long long its_number = PyLong_AsLongLong(number)
        cdef int at = self._by_number[<size_t>its_number & self._mask]
        while at != NOWHERE and self._places[at].number != its_number:
            at = self._places[at].next_by_number
        return self._value_at(at)

    def oldest(self):
        """Return the oldest value of all."""
        return self._value_at(self._oldest)

    def take_oldest(self):
        """Remove and return the oldest value of all, which is also the oldest of its keys."""
        return self._taken(self._oldest)

    def newest(self, key, Py_ssize_t most, /):
        """Return up to ``most`` values of a key, newest first."""
        cdef list found = []
        cdef int oldest = self._oldest_of(key, hash_of(key))
        cdef int at = oldest
        while at != NOWHERE and len(found) < most:
            at = self._places[at].older_alike
            found.append(self._value_at(at))
            if at == oldest:
                break
        return found

    def since(self, number, /):
        """Return the values with that number and later ones, oldest first."""
        cdef list found = []
        cdef long long its_number = PyLong_AsLongLong(number)
        cdef int at = self._newest
        while at != NOWHERE and self._places[at].number >= its_number:
            found.append(self._values[at])
            at = self._places[at].older
        found.reverse()
        return found

    def keys(self):
        """Return each value's first key, oldest value first."""
        return self._by_age(self._keys)

    def values(self):
        """Return all values, oldest first."""
        return self._by_age(self._values)

    cdef list _by_age(self, list what):
        cdef list found = []
        cdef int at = self._oldest
        while at != NOWHERE:
            found.append(what[at])
            at = self._places[at].newer
        return found

    cdef object _value_at(self, int at):
        return None if at == NOWHERE else self._values[self._places[at].first]

    cdef int _oldest_of(self, key, Py_hash_t its_hash) except -2:
        """The place of a key's oldest; NOWHERE if there is none."""
        cdef int at = self._by_key[<size_t>its_hash & self._mask]
        while at != NOWHERE:
            if self._places[at].hash == its_hash and are_equal(self._keys[at], key):
                break
            at = self._places[at].next_by_key
        return at

    cdef void _enter_key(self, int at) noexcept:
        """Put a place into its key's cell."""
        cdef int *cell = &self._by_key[<size_t>self._places[at].hash & self._mask]
        self._places[at].next_by_key = cell[0]
        cell[0] = at

    cdef void _enter_number(self, int at) noexcept:
        """Put a place into its number's cell."""
        cdef int *cell = &self._by_number[<size_t>self._places[at].number & self._mask]
        self._places[at].next_by_number = cell[0]
        cell[0] = at

    cdef long long _admitted(self, number, Py_ssize_t keys) except? -1:
        """The number of a new entry, for which there is room then."""
        cdef long long its_number = PyLong_AsLongLong(number)
        cdef Py_ssize_t room
        while keys > self._room - self._held:  # others may have come meanwhile
            room = 2 * <Py_ssize_t>self._room
            while room < self._held + keys:
                room *= 2
            self._renew(room)
        if self._newest != NOWHERE and its_number <= self._places[self._newest].number:
            raise ValueError("numbers must grow")
        return its_number

    cdef int _put(self, long long number, key, Py_hash_t its_hash) except -1:
        """Give a key a place, which is its entry's only one until others say so."""
        cdef int at = self._free
        cdef Place *place = &self._places[at]
        self._free = place.next
        self._held += 1
        self._keys[at] = key
        place.number = number
        place.hash = its_hash
        place.first = at
        place.next = place.older = place.newer = NOWHERE
        return at

    cdef int _append(self, int first, value) except -1:
        """Make an entry the newest, by its first place."""
        self._values[first] = value
        self._enter_number(first)
        self._places[first].older = self._newest
        if self._newest == NOWHERE:
            self._oldest = first
        else:
            self._places[self._newest].newer = first
        self._newest = first
        self._count += 1
        return 0

    cdef int _linked(self, int at) except -1:
        """Put a place with those of an equal key. Returns how many there are now."""
        cdef Place *place = &self._places[at]
        cdef int oldest = self._oldest_of(self._keys[at], place.hash)
        place.alike = 0
        if oldest == NOWHERE:
            self._enter_key(at)
            oldest = place.older_alike = place.newer_alike = at
        else:
            place.newer_alike = oldest
            place.older_alike = self._places[oldest].older_alike
            self._places[place.older_alike].newer_alike = at
            self._places[oldest].older_alike = at
        self._places[oldest].alike += 1
        return self._places[oldest].alike

    cdef int _unlink(self, int at) except -1:
        """Take a place out of those of an equal key."""
        cdef Place *place = &self._places[at]
        cdef int newer = place.newer_alike
        cdef int *link
        if place.alike == 0:
            self._places[self._oldest_of(self._keys[at], place.hash)].alike -= 1
        else:
            link = &self._by_key[<size_t>place.hash & self._mask]
            while link[0] != at:
                link = &self._places[link[0]].next_by_key
            link[0] = place.next_by_key
            if newer != at:
                self._places[newer].alike = place.alike - 1
                self._places[newer].next_by_key = link[0]
                link[0] = newer
        self._places[place.older_alike].newer_alike = newer
        self._places[newer].older_alike = place.older_alike
        return 0

    cdef object _taken(self, int at):
        """Remove the entry with a place; returns its value."""
        cdef int first, following
        if at == NOWHERE:
            return None
        at = first = self._places[at].first
        value = self._values[first]
        self._values[first] = None
        leave(
            self._places,
            &self._by_number[<size_t>self._places[first].number & self._mask],
            first,
        )
        if first == self._oldest:
            self._oldest = self._places[first].newer
        else:
            self._places[self._places[first].older].newer = self._places[first].newer
        if first == self._newest:
            self._newest = self._places[first].older
        else:
            self._places[self._places[first].newer].older = self._places[first].older
        while at != NOWHERE:
            self._unlink(at)
            self._keys[at] = None
            following = self._places[at].next
            self._places[at].next = self._free
            self._free = at
            self._held -= 1
            at = following
        self._count -= 1
        if self._room > FEWEST and self._held < self._room // 8:
            try:
                self._renew(self._room // 4)
            except MemoryError:
                pass  # which is only a matter of memory
        return value

    cdef int _moved(self, int at) noexcept:
        return NOWHERE if at == NOWHERE else self._places[at].moved

    cdef int _renew(self, Py_ssize_t room) except -1:
        """Make the row and the tables anew, with so many places: a power of two."""
        cdef int at, entry, end = 0
        cdef Place *places
        cdef Place *place
        room = max(room, FEWEST)
        if room > INT_MAX // 2:
            raise MemoryError
        row, tables = bytearray(room * sizeof(Place)), bytearray(2 * room * sizeof(int))
        keys, values = [None] * room, [None] * room
        if self._held > room:  # others have come while the lists were made
            return 0
        places = <Place *>PyByteArray_AS_STRING(row)
        entry = self._oldest
        while entry != NOWHERE:
            at = entry
            while at != NOWHERE:
                self._places[at].moved = end
                end += 1
                at = self._places[at].next
            entry = self._places[entry].newer
        entry = self._oldest
        while entry != NOWHERE:
            at = entry
            while at != NOWHERE:
                place = &places[self._places[at].moved]
                place[0] = self._places[at]
                place.first = self._moved(place.first)
                place.next = self._moved(place.next)
                place.older = self._moved(place.older)
                place.newer = self._moved(place.newer)
                place.older_alike = self._moved(place.older_alike)
                place.newer_alike = self._moved(place.newer_alike)
                keys[place.moved], values[place.moved] = self._keys[at], self._values[at]
                at = self._places[at].next
            entry = self._places[entry].newer
        self._oldest, self._newest = self._moved(self._oldest), self._moved(self._newest)
        self._row, self._tables, self._keys, self._values = row, tables, keys, values
        self._places, self._by_key = places, <int *>PyByteArray_AS_STRING(tables)
        self._by_number = self._by_key + room
        self._mask, self._room, self._free = room - 1, room, NOWHERE
        memset(self._by_key, 0xFF, 2 * room * sizeof(int))  # NOWHERE
        for at in range(room - 1, end - 1, -1):
            places[at].next = self._free
            self._free = at
        for at in range(end):
            if places[at].alike:
                self._enter_key(at)
            if places[at].first == at:
                self._enter_number(at)
        return 0
