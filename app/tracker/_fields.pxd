"""Fields of structs and of classes with slots, read where they are in an object's memory.

That takes a few instructions, where a look-up by name takes a hundred.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF

cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member


cdef inline Py_ssize_t place_of(kind, str name) except -1:
    """The place of a field in each object of a class."""
    member = getattr(kind, name)
    if type(member).__name__ != "member_descriptor":
        raise TypeError(f"{name} has no place in {kind}")
    return (<PyMemberDescrObject *>member).d_member.offset


cdef inline int check(object value, kind) except -1:
    """Refuse an object of another class: its fields are elsewhere."""
    if type(value) is not kind:
        raise TypeError(f"not a {kind.__name__}: {value!r}")
    return 0


cdef inline PyObject **slot(object owner, Py_ssize_t place) noexcept:
    return <PyObject **>(<char *><PyObject *>owner + place)


cdef inline object at(object owner, Py_ssize_t place):
    """The value of a field of an object whose class is known."""
    return <object>slot(owner, place)[0]


cdef inline int put(object owner, Py_ssize_t place, object value) except -1:
    cdef PyObject *former = slot(owner, place)[0]
    Py_INCREF(value)
    slot(owner, place)[0] = <PyObject *>value
    Py_XDECREF(former)
    return 0
