"""The queue of `_memories.pyx`, for other compiled modules."""

cdef enum:
    NOWHERE = -1
    BY_KEY = 0  # the tables
    BY_NUMBER = 1
    TABLES = 2
    CELLS = 2  # of a table for each place; with one, a full queue is a quarter slower
    SMALLEST = 256  # places worth giving back


cdef struct Place:  # of one of an entry's keys
    long long codes[TABLES]  # the key's hash, the entry's number
    int next_in_cell[TABLES]
    int first  # of the entry's places, which has the value
    int next  # of the entry's places; of one that is free, the next free one
    int older  # entries, by their first places
    int newer
    # The newest of a ring comes before the oldest, which counts them and is the one in the table.
    # The others count none.
    int older_alike
    int newer_alike
    int alike


cdef Py_hash_t hash_of(key) except -1


cdef class KeyedFifo:
    cdef bytearray _row, _by_key, _by_number  # the memory of the next two
    cdef Place *_places
    cdef int *_cells[TABLES]  # each with the first of some places
    cdef size_t _mask  # of codes, to the cells and as many as will be split from them next
    cdef list _keys, _values  # of each place; an entry's first has the value, the others None
    cdef int _oldest, _newest, _free
    cdef int _room, _busy  # places, in all and of entries
    cdef Py_ssize_t _count

    cdef int append(self, long long number, key, value) except -1
    cdef list _by_age(self, list column)
    cdef object _value_at(self, int index)
    cdef int _oldest_of(self, key, Py_hash_t key_hash) except -2
    cdef int *_cell(self, int table, long long code) noexcept
    cdef void _enter(self, int table, int index) noexcept
    cdef int *_link(self, int table, int index) noexcept
    cdef int _admit(self, long long number, Py_ssize_t keys) except -1
    cdef int _grow(self) except -1
    cdef int _put(self, int last, long long number, key, Py_hash_t key_hash, value) except -1
    cdef int _linked(self, int index) except -1
    cdef int _unlink(self, int index) except -1
    cdef object _remove(self, int index)
    cdef int _renew(self) except -1
