# cython: boundscheck=False
"""What every trace message goes through on its way in: it is found among a connection's frames
(app/broker/deliveries.py), and its headers are read (app/broker/wire.py, firehose.py).

Those are the reference. What is damaged, incomplete or unusual is left to them: it is a ValueError
in here, and is never reported.
"""

from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.unicode cimport PyUnicode_1BYTE_DATA, PyUnicode_FindChar
from libc.math cimport isfinite
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcmp

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(str text)
    double PyFloat_Unpack4(const char *data, int is_little_endian) except? -1
    double PyFloat_Unpack8(const char *data, int is_little_endian) except? -1

cdef enum:
    DEEPEST = 32
    FLAGS_AT = 12  # class, weight and the body's size come before the flags
    CONTENT_TYPE = 1 << 15
    CONTENT_ENCODING = 1 << 14
    HEADERS = 1 << 13
    # Frames: kind, channel, size of the payload; the payload; one octet.
    METHOD = 1
    HEADER = 2
    BODY = 3
    FRAME_END = 0xCE
    BODY_SIZE_AT = 4  # in a header's payload, after class and weight
    REMEMBERED = 4096  # names, of up to
    SHORT = 64  # bytes


cdef struct Bytes:  # what is left to read, up to the end of the innermost table or array
    const unsigned char *at
    const unsigned char *end


cdef inline const unsigned char *take(Bytes *data, uint64_t size) except NULL:
    """Take this many bytes, which must be there."""
    if size > <uint64_t>(data.end - data.at):
        raise ValueError
    data.at += size
    return data.at - size


cdef inline uint64_t number(const unsigned char *at, int size) noexcept:
    """A big-endian number of this many bytes."""
    cdef uint64_t value = 0
    cdef int i
    for i in range(size):
        value = value << 8 | at[i]
    return value


cdef inline int take_counted(Bytes *data, int size, Bytes *part) except -1:
    """Take what follows its length, a number of this many bytes."""
    part.at = take(data, number(take(data, size), size))
    part.end = data.at
    return 0


cdef inline bytes bytes_of(Bytes *part):
    return part.at[:part.end - part.at]


cdef inline str text_of(Bytes *part):
    return part.at[:part.end - part.at].decode("utf-8")


# Names that came last, each at the place that its bytes say: those of headers and connections come
# again with every message, and what is one object is hashed once.
cdef list remembered = [None] * REMEMBERED


cdef str name_of(Bytes *part):
    cdef Py_ssize_t size = part.end - part.at, i
    cdef uint32_t mixed = <uint32_t>size
    if size > SHORT:
        return text_of(part)
    for i in range(size):
        mixed = (mixed ^ part.at[i]) * 16777619
    mixed = (mixed >> 16 ^ mixed) % REMEMBERED
    name = <str>remembered[mixed]
    if name is None or len(name) != size or memcmp(PyUnicode_1BYTE_DATA(name), part.at, size) != 0:
        name = text_of(part)
        if PyUnicode_IS_ASCII(name):
            remembered[mixed] = name
    return name


cdef read_value(Bytes *data, int depth):
    cdef unsigned char kind = take(data, 1)[0]
    cdef Bytes part
    if kind == c"S":
        take_counted(data, 4, &part)
        return name_of(&part) if depth == 1 else text_of(&part)
    elif kind == c"F":
        return read_table(data, depth)
    elif kind == c"A":
        return read_array(data, depth)
    elif kind == c"t":
        return take(data, 1)[0] != 0
    elif kind == c"b":
        return <int8_t>take(data, 1)[0]
    elif kind == c"B":
        return take(data, 1)[0]
    elif kind == c"s":
        return <int16_t>number(take(data, 2), 2)
    elif kind == c"u":
        return number(take(data, 2), 2)
    elif kind == c"I":
        return <int32_t>number(take(data, 4), 4)
    elif kind == c"i":
        return number(take(data, 4), 4)
    elif kind == c"l" or kind == c"L":
        return <int64_t>number(take(data, 8), 8)
    elif kind == c"T":
        return number(take(data, 8), 8)
    elif kind == c"f" or kind == c"d":
        if kind == c"f":
            real = PyFloat_Unpack4(<const char *>take(data, 4), 0)
        else:
            real = PyFloat_Unpack8(<const char *>take(data, 8), 0)
        if isfinite(real):
            return real
    elif kind == c"V":
        return None
    raise ValueError  # decimals and byte arrays are rare, the rest is not AMQP


cdef dict read_table(Bytes *data, int depth):
    cdef dict table = {}
    cdef Bytes part, name
    if depth > DEEPEST:
        raise ValueError
    take_counted(data, 4, &part)
    while part.at < part.end:
        take_counted(&part, 1, &name)
        key = name_of(&name)
        table[key] = read_value(&part, depth + 1)
    return table


cdef list read_array(Bytes *data, int depth):
    cdef list array = []
    cdef Bytes part
    if depth > DEEPEST:
        raise ValueError
    take_counted(data, 4, &part)
    while part.at < part.end:
        array.append(read_value(&part, depth + 1))
    return array


# What a trace message's headers say, in the order in which `read_trace` returns it. The last is
# `routed_queues` of a publish or `redelivered` of a deliver.
cdef enum:
    CHANNEL = 2
    KEYS = 5
    PROPERTIES = 6
    LAST = 7
    FIELDS = 8

cdef tuple NAMES = (
    b"node", b"connection", b"channel", b"user", b"exchange_name", b"routing_keys", b"properties"
)
cdef tuple OF_PUBLISH = (*NAMES, b"routed_queues"), OF_DELIVER = (*NAMES, b"redelivered")


cdef int field_of(Bytes *name, tuple names) except -1:
    """The field of a name; `FIELDS` if it has none."""
    cdef int field
    for field in range(FIELDS):
        its = <bytes>names[field]
        if len(its) == name.end - name.at and memcmp(<char *>its, name.at, len(its)) == 0:
            return field
    return FIELDS


cdef bint is_text(value) except -1:
    """Whether a value is text that any database holds."""
    return type(value) is str and PyUnicode_FindChar(value, 0, 0, len(<str>value), 1) < 0


cdef as_field(int field, bint is_publish, value):
    """A value as its field has it, which it must fit."""
    cdef bint is_right
    cdef long long whole
    cdef int overflow = 0
    if field == KEYS or field == LAST and is_publish:
        is_right = type(value) is list
        if is_right:
            for each in <list>value:
                is_right = is_right and is_text(each)
            value = tuple(<list>value)
    elif field == PROPERTIES:
        is_right = type(value) is dict
    elif field == CHANNEL or field == LAST:
        is_right = type(value) is int
        if is_right:
            whole = PyLong_AsLongLongAndOverflow(value, &overflow)  # -1 where it is too large
            is_right = 0 <= whole <= (65535 if field == CHANNEL else 1)
    else:
        is_right = is_text(value)
    if not is_right:
        raise ValueError
    return value


cdef tuple read_fields(Bytes *table, bint is_publish):
    """The table's entries in their fields; entries without a field must be readable too."""
    cdef tuple names = OF_PUBLISH if is_publish else OF_DELIVER
    cdef list fields = [None] * FIELDS
    cdef Bytes name
    cdef int field, found = 0
    while table.at < table.end:
        take_counted(table, 1, &name)
        field = field_of(&name, names)
        value = read_value(table, 1)
        if field < FIELDS:
            if fields[field] is not None:  # twice in one table
                raise ValueError
            fields[field] = as_field(field, is_publish, value)
            found += 1
    if found < FIELDS:
        raise ValueError
    return tuple(fields)


cdef int find_headers(Bytes *data, Bytes *table) except -1:
    """Find the table of headers in the payload of a header frame."""
    cdef uint64_t flags
    take(data, FLAGS_AT)
    flags = number(take(data, 2), 2)
    if not flags & HEADERS:
        raise ValueError
    if flags & CONTENT_TYPE:
        take_counted(data, 1, table)
    if flags & CONTENT_ENCODING:
        take_counted(data, 1, table)
    return take_counted(data, 4, table)


def read_trace(bytes header not None, bool is_publish not None, /):
    """What app.broker.firehose reads in a header frame's payload; None if it is unusual."""
    cdef Bytes data, table
    data.at = header
    data.end = data.at + len(header)
    try:
        find_headers(&data, &table)
        return read_fields(&table, is_publish)
    except ValueError:
        return None


cdef struct Delivery:
    uint64_t tag
    bint redelivered
    Bytes routing_key
    Bytes header
    Bytes body


cdef int take_frame(Bytes *data, int kind, uint64_t channel, Bytes *payload) except -1:
    """Take a frame, which must be complete, and of this kind and channel."""
    head = take(data, 3)
    if head[0] != kind or number(head + 1, 2) != channel:
        raise ValueError
    take_counted(data, 4, payload)
    if take(data, 1)[0] != FRAME_END:
        raise ValueError
    return 0


cdef int read_deliver(Bytes *method, Delivery *delivery) except -1:
    """Read the arguments of a basic.deliver."""
    cdef Bytes skipped
    if memcmp(take(method, 4), b"\x00\x3c\x00\x3c", 4) != 0:
        raise ValueError
    take_counted(method, 1, &skipped)
    taken = take(method, 9)
    delivery.tag, delivery.redelivered = number(taken, 8), taken[8] & 1
    take_counted(method, 1, &skipped)
    return take_counted(method, 1, &delivery.routing_key)


cdef int take_delivery(Bytes *data, uint64_t channel, Delivery *delivery) except -1:
    """Take a delivery of three frames, or of two if its body is empty."""
    cdef Bytes method, header
    cdef uint64_t size
    take_frame(data, METHOD, channel, &method)
    read_deliver(&method, delivery)
    take_frame(data, HEADER, channel, &delivery.header)
    header = delivery.header
    take(&header, BODY_SIZE_AT)
    size = number(take(&header, 8), 8)
    delivery.body.at = delivery.body.end = data.at
    if size > 0:
        take_frame(data, BODY, channel, &delivery.body)
        if <uint64_t>(delivery.body.end - delivery.body.at) != size:
            raise ValueError
    return 0


def read_deliveries(bytes data not None, Py_ssize_t at, Py_ssize_t channel, kind, /):
    """The simple, complete deliveries of a channel from there on, and where they end.

    That is where the first frame of anything else begins.
    """
    cdef list deliveries = []
    cdef Bytes left
    cdef Delivery delivery
    if at < 0 or at > len(data) or channel < 0:
        raise ValueError("invalid offset or channel")
    left.at = <const unsigned char *>data + at
    left.end = left.at + (len(data) - at)
    while left.at < left.end:
        try:
            take_delivery(&left, channel, &delivery)
            key = text_of(&delivery.routing_key)
        except ValueError:
            break
        header, body = bytes_of(&delivery.header), bytes_of(&delivery.body)
        deliveries.append(kind(delivery.tag, delivery.redelivered, key, header, body))
        at = left.at - <const unsigned char *>data
    return deliveries, at
