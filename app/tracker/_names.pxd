"""A part of `_names.pyx`, for other compiled modules."""

cdef bint changes_headers(dict properties) except -1
