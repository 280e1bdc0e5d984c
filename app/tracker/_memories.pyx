"""The tracker's memories of copies, handovers and names: a queue by key and by age.

Each key of an entry has a place in a row, and free places are reused. To move everything in one go
would take others' turns, so the row grows place by place, and the tables by linear hashing (Litwin,
1980): each new cell takes over its own entries from one other.

No Python code runs while the queue is being changed: keys are bytes, or pairs of a text and bytes,
and the collector runs only where objects are made, which comes before any look.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.long cimport PyLong_AsLongLong
from libc.limits cimport INT_MAX

cdef extern from *:
    """
    #ifdef __GLIBC__
    #include <malloc.h>
    #define move_by_pages(size) \\
        (mallopt(M_MMAP_THRESHOLD, (size)), mallopt(M_TRIM_THRESHOLD, 8 * (size)))
    #else
    #define move_by_pages(size) 1
    #endif
    """
    int move_by_pages(int size)

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
cdef bint are_equal(first, second) except -1:
    """Tell whether two keys of equal hash are equal."""
    if first is second or type(first) is not type(second):
        return first is second
    if type(first) is bytes:
        return <bytes>first == <bytes>second
    return <bytes>(<tuple>first)[1] == <bytes>(<tuple>second)[1] and (
        <str>(<tuple>first)[0] == <str>(<tuple>second)[0]
    )


cdef char *resized(bytearray memory, Py_ssize_t size) except NULL:
    """The memory in a new size. The system moves large ones without copying them."""
    PyByteArray_Resize(memory, size)
    return PyByteArray_AS_STRING(memory)


# The C library raises its own bound once somebody frees a large block; from then on it copies what
# grows, 30 ms of others' turns at 130,000 places.
move_by_pages(1 << 20)


@cython.final
@cython.no_gc_clear  # the collector empties the lists, whose bounds are checked
cdef class KeyedFifo:
    """A queue of numbered values that can be taken by key or by age. No value is None."""

    def __cinit__(self):
        self._oldest = self._newest = self._free = NOWHERE
        self._row, self._by_key, self._by_number = bytearray(), bytearray(), bytearray()
        self._keys, self._values = [], []
        self._grow()

    def __init__(self):
        pass  # or any arguments were accepted

    def __len__(self):
        return self._count

    def __contains__(self, key):
        return self._oldest_of(key, hash_of(key)) != NOWHERE

    def add(self, number, key, value, /):
        """Append a value; numbers must grow. Returns how many values the key has now."""
        return self.append(PyLong_AsLongLong(number), key, value)

    cdef int append(self, long long number, key, value) except -1:
        cdef Py_hash_t key_hash = hash_of(key)
        self._admit(number, 1)
        return self._linked(self._put(NOWHERE, number, key, key_hash, value))

    def add_under(self, number, tuple keys not None, value, /):
        """Append a value that can be taken by each of several keys, no two of them equal.

        Returns the greatest number of values that one of these keys has now.
        """
        cdef long long entry_number = PyLong_AsLongLong(number)
        cdef int last = NOWHERE, greatest = 0
        if not keys:
            raise ValueError("a value needs a key")
        for key in keys:
            hash_of(key)
        self._admit(entry_number, len(keys))
        for key in keys:
            last = self._put(last, entry_number, key, hash(key), value)
            greatest = max(greatest, self._linked(last))
        return greatest

    def take(self, key, /):
        """Remove and return the oldest value of a key; None if it has none."""
        return self._remove(self._oldest_of(key, hash_of(key)))

    def first(self, key, /):
        """Return the oldest value of a key; None if it has none."""
        return self._value_at(self._oldest_of(key, hash_of(key)))

    def count(self, key, /):
        """Return how many values a key has."""
        cdef int oldest = self._oldest_of(key, hash_of(key))
        return 0 if oldest == NOWHERE else self._places[oldest].alike

    def get(self, number, /):
        """Return the value of that number; None if it was taken."""
        cdef long long entry_number = PyLong_AsLongLong(number)
        cdef int index = self._cell(BY_NUMBER, entry_number)[0]
        while index != NOWHERE and self._places[index].codes[BY_NUMBER] != entry_number:
            index = self._places[index].next_in_cell[BY_NUMBER]
        return self._value_at(index)

    def oldest(self):
        """Return the oldest value of all."""
        return self._value_at(self._oldest)

    def take_oldest(self):
        """Remove and return the oldest value of all, which is also the oldest of its keys."""
        return self._remove(self._oldest)

    def newest(self, key, Py_ssize_t limit, /):
        """Return up to ``limit`` values of a key, newest first."""
        cdef list values = []
        cdef int oldest = self._oldest_of(key, hash_of(key))
        cdef int index = oldest
        while index != NOWHERE and len(values) < limit:
            index = self._places[index].older_alike
            values.append(self._value_at(index))
            if index == oldest:
                break
        return values

    def since(self, number, /):
        """Return the values with that number and later ones, oldest first."""
        cdef list values = []
        cdef long long entry_number = PyLong_AsLongLong(number)
        cdef int index = self._newest
        while index != NOWHERE and self._places[index].codes[BY_NUMBER] >= entry_number:
            values.append(self._values[index])
            index = self._places[index].older
        values.reverse()
        return values

    def keys(self):
        """Return each value's first key, oldest value first."""
        return self._by_age(self._keys)

    def values(self):
        """Return all values, oldest first."""
        return self._by_age(self._values)

    cdef list _by_age(self, list column):
        cdef list values = []
        cdef int index = self._oldest
        while index != NOWHERE:
            values.append(column[index])
            index = self._places[index].newer
        return values

    cdef object _value_at(self, int index):
        return None if index == NOWHERE else self._values[self._places[index].first]

    cdef int _oldest_of(self, key, Py_hash_t key_hash) except -2:
        """The place of a key's oldest; NOWHERE if there is none."""
        cdef int index = self._cell(BY_KEY, key_hash)[0]
        while index != NOWHERE:
            if self._places[index].codes[BY_KEY] == key_hash and are_equal(self._keys[index], key):
                break
            index = self._places[index].next_in_cell[BY_KEY]
        return index

    cdef int *_cell(self, int table, long long code) noexcept:
        """The cell for a code: by as many of its bits as have a cell by now."""
        cdef size_t cell = <size_t>code & self._mask
        return &self._cells[table][cell & (self._mask >> (cell >= <size_t>(CELLS * self._room)))]

    cdef void _enter(self, int table, int index) noexcept:
        """Put a place into its cell."""
        cdef int *cell = self._cell(table, self._places[index].codes[table])
        self._places[index].next_in_cell[table] = cell[0]
        cell[0] = index

    cdef int *_link(self, int table, int index) noexcept:
        """The link to a place in its cell."""
        cdef int *link = self._cell(table, self._places[index].codes[table])
        while link[0] != index:
            link = &self._places[link[0]].next_in_cell[table]
        return link

    cdef int _admit(self, long long number, Py_ssize_t keys) except -1:
        """Make room for a new entry; its number must be one that may follow."""
        while keys > self._room - self._busy:
            self._grow()
        if self._newest != NOWHERE and number <= self._places[self._newest].codes[BY_NUMBER]:
            raise ValueError("numbers must grow")
        return 0

    cdef int _grow(self) except -1:
        """Add a free place, and its cells to each table."""
        cdef int table, cell, index, next_index, new = self._room
        cdef int *split
        cdef Py_ssize_t room
        if new == INT_MAX // CELLS:
            raise MemoryError
        if PyByteArray_GET_SIZE(self._by_number) <= new * CELLS * <Py_ssize_t>sizeof(int):
            room = 2 * <Py_ssize_t>new + 1
            self._places = <Place *>resized(self._row, room * sizeof(Place))
            self._cells[BY_KEY] = <int *>resized(self._by_key, room * CELLS * sizeof(int))
            self._cells[BY_NUMBER] = <int *>resized(self._by_number, room * CELLS * sizeof(int))
        self._keys.append(None)
        self._values.append(None)
        self._places[new].next, self._free = self._free, new
        self._room += 1
        self._mask |= CELLS * new + CELLS - 1
        for cell in range(CELLS * new, CELLS * (new + 1)):
            for table in range(TABLES):
                self._cells[table][cell] = NOWHERE
                split = &self._cells[table][cell & (self._mask >> 1)]
                index, split[0] = split[0], NOWHERE
                while index != NOWHERE:
                    next_index = self._places[index].next_in_cell[table]
                    self._enter(table, index)
                    index = next_index
        return 0

    cdef int _put(self, int last, long long number, key, Py_hash_t key_hash, value) except -1:
        """Give a key the place behind the last one of its entry, or the first of a new entry."""
        cdef int index = self._free
        cdef Place *place = &self._places[index]
        self._free = place.next
        self._busy += 1
        self._keys[index] = key
        place.codes[BY_KEY] = key_hash
        place.codes[BY_NUMBER] = number
        place.next = NOWHERE
        if last != NOWHERE:
            place.first = self._places[last].first
            self._places[last].next = index
            return index
        self._values[index] = value
        self._enter(BY_NUMBER, index)
        place.first = index
        place.older, place.newer = self._newest, NOWHERE
        if self._newest == NOWHERE:
            self._oldest = index
        else:
            self._places[self._newest].newer = index
        self._newest = index
        self._count += 1
        return index

    cdef int _linked(self, int index) except -1:
        """Put a place with those of an equal key. Returns how many there are now."""
        cdef Place *place = &self._places[index]
        cdef int oldest = self._oldest_of(self._keys[index], place.codes[BY_KEY])
        place.alike = 0
        if oldest == NOWHERE:
            self._enter(BY_KEY, index)
            oldest = place.older_alike = place.newer_alike = index
        else:
            place.newer_alike = oldest
            place.older_alike = self._places[oldest].older_alike
            self._places[place.older_alike].newer_alike = index
            self._places[oldest].older_alike = index
        self._places[oldest].alike += 1
        return self._places[oldest].alike

    cdef int _unlink(self, int index) except -1:
        """Take a place out of those of an equal key."""
        cdef Place *place = &self._places[index]
        cdef int newer = place.newer_alike
        cdef int *link
        if place.alike == 0:
            self._places[self._oldest_of(self._keys[index], place.codes[BY_KEY])].alike -= 1
        else:
            link = self._link(BY_KEY, index)
            link[0] = place.next_in_cell[BY_KEY]
            if newer != index:
                self._places[newer].alike = place.alike - 1
                self._places[newer].next_in_cell[BY_KEY] = link[0]
                link[0] = newer
        self._places[place.older_alike].newer_alike = newer
        self._places[newer].older_alike = place.older_alike
        return 0

    cdef object _remove(self, int index):
        """Remove the entry with a place; returns its value."""
        cdef int first, next_index
        if index == NOWHERE:
            return None
        index = first = self._places[index].first
        value = self._values[first]
        self._values[first] = None
        self._link(BY_NUMBER, first)[0] = self._places[first].next_in_cell[BY_NUMBER]
        if first == self._oldest:
            self._oldest = self._places[first].newer
        else:
            self._places[self._places[first].older].newer = self._places[first].newer
        if first == self._newest:
            self._newest = self._places[first].older
        else:
            self._places[self._places[first].newer].older = self._places[first].older
        while index != NOWHERE:
            self._unlink(index)
            self._keys[index] = None
            next_index = self._places[index].next
            self._places[index].next = self._free
            self._free = index
            self._busy -= 1
            index = next_index
        self._count -= 1
        if self._room > SMALLEST and self._busy < self._room // 64:
            try:
                self._renew()
            except MemoryError:
                pass  # which is only a matter of memory
        return value

    cdef int _renew(self) except -1:
        """Give back the memory of places that were left, by adding the rest to a new queue."""
        cdef KeyedFifo new = KeyedFifo()
        cdef Place *place
        cdef int last, index, entry = self._oldest
        while entry != NOWHERE:
            last, index, value = NOWHERE, entry, self._values[entry]
            while index != NOWHERE:
                if new._free == NOWHERE:
                    new._grow()
                place = &self._places[index]
                last = new._put(
                    last, place.codes[BY_NUMBER], self._keys[index], place.codes[BY_KEY], value
                )
                new._linked(last)
                index = place.next
            entry = self._places[entry].newer
        self._row, self._by_key, self._by_number = new._row, new._by_key, new._by_number
        self._keys, self._values, self._cells = new._keys, new._values, new._cells
        self._places, self._mask, self._room = new._places, new._mask, new._room
        self._oldest, self._newest, self._free = new._oldest, new._newest, new._free
        return 0
