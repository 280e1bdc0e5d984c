# cython: boundscheck=False
"""The compiled way in of every trace message: finds it among a connection's frames, and reads its
headers (app/broker/firehose.py). Bytes that cannot be read raise a `ValueError` that says why.

Why not the client library's own decoder: the traced message's publisher chose the contents of the
header table. pamqp decodes it while it reads the frame, and a table nested a thousand deep, a key that is not UTF-8 or a date beyond the year 9999 raises there, which closes the
*connection*; the message is requeued, and kills the next one.

Frames, methods and tables: https://www.rabbitmq.com/resources/specs/amqp0-9-1.pdf (sections 2.3.5,
4.2); a table's types as RabbitMQ writes them: https://www.rabbitmq.com/amqp-0-9-1-errata (section
3).
"""

from binascii import b2a_base64
from hashlib import sha256

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.unicode cimport PyUnicode_1BYTE_DATA, PyUnicode_FindChar
from libc.math cimport isfinite
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from app.broker.deliveries import UNREAD, Arrival, channel_of
from app.tracker._fields cimport at, place_of
from app.tracker.records import LARGE, Deliver, Publish
from app.tracker.records import Channel as ChannelType
from model.texts import storable, storable_name

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(str text)
    int PyUnicode_KIND(str text)
    str PyUnicode_FromKindAndData(int kind, const void *data, Py_ssize_t size)
    double PyFloat_Unpack4(const char *data, int is_little_endian) except? -1
    double PyFloat_Unpack8(const char *data, int is_little_endian) except? -1

cdef enum:
    MOST_VALUES = 9_000  # of a table; each of its fields counts for three, and takes up to 0.8 µs
    MOST_NAMES = 65_536  # of queues that a message goes to, and of keys
    # Odd bytes of texts take up to six times their room in JSON. In a field of more than
    MOST_COUNTED = 16_384  # bytes they are counted: of a table may be
    MOST_ODD = 4_096  # and a text with more is bytes; of names and keys
    MOST_ODD_NAMES = 65_536
    ODD_OF_NAME = 6  # in a header's name count for one more value
    DEEPEST = 64  # for anything a person nests, and far from the end of any stack
    FLAGS_AT = 12  # class, weight and the body's size come before the flags
    # A property's place among the flags. Before each are those of higher bits: short texts but for
    # the headers, two single bytes, and a time.
    HEADERS = 13
    MODE = 12
    PRIORITY = 11
    TIME = 6
    USER_ID = 4
    # Frames: kind, channel, size of the payload; the payload; one octet.
    HEAD = 7
    METHOD = 1
    HEADER = 2
    BODY = 3
    HEARTBEAT = 8
    FRAME_END = 0xCE
    BODY_SIZE_AT = 4  # in a header's payload, after class and weight
    MOST_BODY = 1 << 30  # bytes; RabbitMQ takes half of that at most
    KIND = 7  # letters, of "publish" as of "deliver"
    RECENT_NAMES = 4096  # names, of up to
    SHORT = 64  # bytes


cdef const char *HEX = b"0123456789abcdef"


cdef struct Bytes:  # what is left to read, up to the end of the innermost table or array
    const unsigned char *at
    const unsigned char *end


cdef inline const unsigned char *take(Bytes *data, uint64_t size) except NULL:
    """Take this many bytes, which must be there."""
    if size > <uint64_t>(data.end - data.at):
        raise ValueError("a length points behind the end")
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
    """The text of bytes; what is not UTF-8 is kept as escapes (``\\xhh``)."""
    cdef str text = part.at[:part.end - part.at].decode("utf-8", "surrogateescape")
    cdef Py_UCS4 letter
    if PyUnicode_KIND(text) > 1:
        for letter in text:
            if 0xDC80 <= letter <= 0xDCFF:  # of valid UTF-8 there is none
                return escaped(text)
    return text


cdef Py_ssize_t odd_in(Bytes *part, str text) noexcept:
    """The number of control characters among these bytes, and of characters that escapes added.

    Ends of lines and tabulators are no control characters here.
    """
    cdef Py_ssize_t i, size = part.end - part.at, count = max(0, len(text) - size)
    cdef unsigned char byte
    for i in range(size):
        byte = part.at[i]
        count += byte < 0x20 and byte != c"\t" and byte != c"\n" and byte != c"\r"
    return count


cdef str escaped(str text):
    cdef Py_UCS4 letter
    cdef Py_ssize_t size = 0
    cdef Py_UCS4 *spelt = <Py_UCS4 *>PyMem_Malloc(4 * len(text) * sizeof(Py_UCS4))
    if spelt == NULL:
        raise MemoryError
    for letter in text:
        if 0xDC80 <= letter <= 0xDCFF:
            spelt[size], spelt[size + 1] = c"\\", c"x"
            spelt[size + 2], spelt[size + 3] = HEX[<int>letter >> 4 & 15], HEX[<int>letter & 15]
            size += 4
        else:
            spelt[size] = letter
            size += 1
    try:
        return PyUnicode_FromKindAndData(4, spelt, size)
    finally:
        PyMem_Free(spelt)


# The latest names, each at an index hashed from its bytes: names of headers and connections come
# again with every message, and one object is hashed once.
cdef list recent_names = [None] * RECENT_NAMES


cdef str name_of(Bytes *part):
    cdef Py_ssize_t size = part.end - part.at, i
    cdef uint32_t mixed = <uint32_t>size
    if size > SHORT:
        return text_of(part)
    for i in range(size):
        mixed = (mixed ^ part.at[i]) * 16777619
    mixed = (mixed >> 16 ^ mixed) % RECENT_NAMES
    name = <str>recent_names[mixed]
    if name is None or len(name) != size or memcmp(PyUnicode_1BYTE_DATA(name), part.at, size) != 0:
        name = text_of(part)
        if PyUnicode_IS_ASCII(name):
            recent_names[mixed] = name
    return name


cdef struct Left:  # what a table may have
    int values
    int odd
    bint is_large


cdef bytes_value(Bytes *part):
    """Bytes as JSON has them."""
    return {"base64": (<bytes>b2a_base64(bytes_of(part), newline=False)).decode("ascii")}


cdef read_value(Bytes *data, int depth, Left *left):
    """A value, as JSON has it: bytes as ``{"base64": …}``, decimals as text, times as seconds."""
    cdef unsigned char kind = take(data, 1)[0]
    cdef Bytes part
    cdef Py_ssize_t odd
    left.values -= 1
    if left.values < 0:
        raise ValueError("too many values")
    if kind == c"S":
        take_counted(data, 4, &part)
        if depth == 1:
            return name_of(&part)
        text = text_of(&part)
        if left.is_large:
            odd = odd_in(&part, text)
            if odd > left.odd:
                return bytes_value(&part)
            left.odd -= <int>odd
        return text
    elif kind == c"F":
        return read_table(data, depth, left)
    elif kind == c"A":
        return read_array(data, depth, left)
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
    elif kind == c"T":  # of any size, so it stays a number
        return number(take(data, 8), 8)
    elif kind == c"f" or kind == c"d":
        if kind == c"f":
            real = PyFloat_Unpack4(<const char *>take(data, 4), 0)
        else:
            real = PyFloat_Unpack8(<const char *>take(data, 8), 0)
        return real if isfinite(real) else str(real)  # JSON has no NaN and no infinity
    elif kind == c"D":
        scale = take(data, 1)[0]
        digits = <int32_t>number(take(data, 4), 4)
        return f"{digits}e-{scale}" if scale else str(digits)
    elif kind == c"x":
        take_counted(data, 4, &part)
        return bytes_value(&part)
    elif kind == c"V":
        return None
    raise ValueError(f"a value of an unknown type ({kind})")


cdef int take_nested(Bytes *data, int depth, Left *left, Bytes *part) except -1:
    """Take the inside of a table or an array."""
    if depth > DEEPEST:
        raise ValueError(f"nested deeper than {DEEPEST}")
    take_counted(data, 4, part)
    if depth == 1:  # the field alone decides: around it a publish and its deliveries differ
        left.is_large = part.end - part.at > MOST_COUNTED
    return 0


cdef dict read_table(Bytes *data, int depth, Left *left):
    cdef dict table = {}
    cdef Bytes part, name
    take_nested(data, depth, left, &part)
    while part.at < part.end:
        take_counted(&part, 1, &name)
        key = name_of(&name)
        left.values -= 2
        if left.is_large:
            left.values -= <int>(odd_in(&name, key) // ODD_OF_NAME)
        table[key] = read_value(&part, depth + 1, left)
    return table


cdef list read_array(Bytes *data, int depth, Left *left):
    cdef list array = []
    cdef Bytes part
    take_nested(data, depth, left, &part)
    while part.at < part.end:
        array.append(read_value(&part, depth + 1, left))
    return array


cdef inline Bytes all_of(bytes data) noexcept:
    cdef Bytes left
    left.at = data
    left.end = left.at + len(data)
    return left


cdef bint find(Bytes header, int wanted, Bytes *data) except -1:
    """Find a property in the payload of a header frame; whether it is there."""
    cdef Bytes skipped
    cdef uint64_t flags
    cdef int bit
    data[0] = header
    try:
        take(data, FLAGS_AT)
        flags = number(take(data, 2), 2)
        if not flags >> wanted & 1:
            return False
        for bit in range(15, wanted, -1):
            if not flags >> bit & 1:
                continue
            elif bit == HEADERS:
                take_counted(data, 4, &skipped)
            elif bit == MODE or bit == PRIORITY:
                take(data, 1)
            elif bit == TIME:
                take(data, 8)
            else:
                take_counted(data, 1, &skipped)
    except ValueError as error:
        raise ValueError(f"not a content header: {error}") from None
    return True


def decode_headers(bytes header not None, /):
    """The table of headers in a header frame's payload; empty if there is none."""
    cdef Bytes data
    cdef Left left = Left(MOST_VALUES, MOST_ODD, False)
    return read_table(&data, 0, &left) if find(all_of(header), HEADERS, &data) else {}


def user_of(bytes header not None, /):
    """The user in a header frame's payload: who published, as the broker checks; perhaps None."""
    cdef Bytes data, user
    if not find(all_of(header), USER_ID, &data):
        return None
    take_counted(&data, 1, &user)
    return text_of(&user)


# Fields of a trace message's headers, in the order in which `fields_of` returns them. The last is
# `routed_queues` of a publish or `redelivered` of a deliver.
cdef enum:
    CHANNEL = 2
    EXCHANGE = 4
    KEYS = 5
    PROPERTIES = 6
    LAST = 7
    FIELDS = 8

cdef tuple NAMES = (
    b"node", b"connection", b"channel", b"user", b"exchange_name", b"routing_keys", b"properties"
)
cdef tuple OF_PUBLISH = (*NAMES, b"routed_queues"), OF_DELIVER = (*NAMES, b"redelivered")
cdef tuple PLACE = (0, 1, CHANNEL, 3)  # node, connection, channel's number, user


cdef int field_of(Bytes *name, tuple names) except -1:
    """The field of a name; `FIELDS` if it has none."""
    cdef int field
    for field in range(FIELDS):
        key = <bytes>names[field]
        if len(key) == name.end - name.at and memcmp(<char *>key, name.at, len(key)) == 0:
            return field
    return FIELDS


cdef as_text(value):
    """A text as any database holds it; None if it is none."""
    if type(value) is not str:
        return None
    return value if PyUnicode_FindChar(value, 0, 0, len(<str>value), 1) < 0 else storable(value)


cdef as_number(value, int limit):
    """A number from 0 to the limit; None if it is none at all."""
    cdef int overflow = 0
    cdef long long whole
    if type(value) is not int:  # a flag is an int to Python, but must not come back as a number
        return None
    whole = PyLong_AsLongLongAndOverflow(value, &overflow)  # -1 where it is too large
    if not 0 <= whole <= limit:
        raise ValueError(f"is {value}: no such number in AMQP")
    return value


cdef as_name(value):
    """A name as any database holds it, and finds it; None if it is no text."""
    name = as_text(value)
    return name if name is None or len(<str>name) <= 255 else storable_name(name)


cdef as_texts(value, bint are_names):
    """A list of texts, as a tuple; None if it is no list.

    Of names text once, as it is stored: two that differ may map to one.
    """
    if type(value) is not list:
        return None
    for text in <list>value:
        if type(text) is not str:
            raise ValueError("holds what is no text")
    if len(<list>value) == 1:  # as a rule
        return (as_name(text) if are_names else as_text(text),)
    if are_names:
        return tuple(dict.fromkeys([as_name(text) for text in <list>value]))
    return tuple([as_text(text) for text in <list>value])


cdef as_field(int field, bint is_publish, value):
    """A value as its field has it, which it must fit."""
    if field == PROPERTIES:
        read, kind = value if type(value) is dict else None, "table"
    elif field == KEYS or field == LAST and is_publish:
        read, kind = as_texts(value, field == LAST), "list"
    elif field == CHANNEL or field == LAST:
        read, kind = as_number(value, 65535 if field == CHANNEL else 1), "number"
    else:
        read, kind = as_text(value) if field == EXCHANGE else as_name(value), "text"
    if read is None:
        raise ValueError(f"is {'missing: a' if value is None else 'no'} {kind}")
    return read


def read_record(
    str routing_key not None, bytes header not None, bytes body not None, bytes digest=b"", /
):
    """The record that a trace message is; None where its routing key says that it is none.

    ``header`` is the payload of its header frame, ``digest`` the SHA-256 of a large body, if it has
    been made.
    """
    return record_of(routing_key, all_of(header), body, digest)


cdef dict queues = {}  # by routing keys of deliveries
cdef dict channels = {}  # by connection
cdef Py_ssize_t NODE = place_of(ChannelType, "node"), USER = place_of(ChannelType, "user")
cdef Py_ssize_t NUMBER = place_of(ChannelType, "number"), QUEUE = place_of(Deliver, "queue")
cdef Py_ssize_t CHANNEL_OF_PUBLISH = place_of(Publish, "channel")
cdef Py_ssize_t CHANNEL_OF_DELIVER = place_of(Deliver, "channel")
cdef Py_ssize_t EXCHANGE_OF_PUBLISH = place_of(Publish, "exchange")


cdef record_of(str key, Bytes header, bytes body, bytes digest):
    cdef bint is_publish = key.startswith("publish")
    if not is_publish and not key.startswith("deliver"):
        return None
    if len(key) > KIND and key[KIND] != u".":
        return None
    node, connection, number, user, exchange, keys, properties, last = fields_of(header, is_publish)
    channel = channels.get(connection)  # the last on it
    if (
        channel is None
        or at(channel, NUMBER) != number
        or at(channel, USER) != user
        or at(channel, NODE) != node
    ):
        if len(channels) >= RECENT_NAMES:
            channels.clear()
        channel = channels[connection] = channel_of(node, connection, number, user)
    if not digest and len(body) > LARGE:
        digest = sha256(body).digest()
    if is_publish:
        return Publish(channel, exchange, keys, last, properties, body, digest)
    queue = queues.get(key)
    if queue is None:
        if len(queues) >= RECENT_NAMES:
            queues.clear()
        queue = queues[key] = storable(key[KIND + 1 :])
    return Deliver(channel, exchange, keys, queue, last != 0, properties, body, digest)


cdef tuple fields_of(Bytes header, bint is_publish):
    """The fields of a trace message's headers, of a header frame's payload."""
    cdef tuple names = OF_PUBLISH if is_publish else OF_DELIVER
    cdef list fields = [None] * FIELDS
    cdef Bytes data, table, name
    cdef int field
    cdef Left values_left = Left(MOST_VALUES, MOST_ODD, False)
    cdef Left names_left = Left(MOST_NAMES, MOST_ODD_NAMES, False)
    cdef bint is_of_names, has_properties = False
    table.at = table.end = NULL
    if find(header, HEADERS, &data):
        take_counted(&data, 4, &table)
    while table.at < table.end:
        take_counted(&table, 1, &name)
        field = field_of(&name, names)
        # A message that goes to many queues names them all; its sender chooses the rest.
        is_of_names = field == KEYS or field == LAST
        value = read_value(&table, 1, &names_left if is_of_names else &values_left)
        if field < FIELDS:
            fields[field] = value
            has_properties |= field == PROPERTIES
    if not has_properties:
        fields[PROPERTIES] = {}
    field = 0
    try:
        for field in range(FIELDS):
            fields[field] = as_field(field, is_publish, fields[field])
    except ValueError as error:
        raise ValueError(f"header {(<bytes>names[field]).decode()} {error}") from None
    return tuple(fields)


def origin_of(bytes header not None, /):
    """Node, connection, channel's number and user of a trace message that cannot be read, as far as
    its headers go; None if one of these is missing.

    Tables and lists are passed over by their lengths, whatever is in them.
    """
    cdef list fields = [None] * FIELDS
    cdef Bytes data, table, name, skipped
    cdef int field
    cdef Left left = Left(MOST_VALUES, MOST_ODD, False)
    try:
        if not find(all_of(header), HEADERS, &data):
            return None
        size = number(take(&data, 4), 4)
        table.at, table.end = data.at, data.end
        if size < <uint64_t>(data.end - data.at):
            table.end = table.at + <uint64_t>size
        while table.at < table.end:
            take_counted(&table, 1, &name)
            field = field_of(&name, OF_DELIVER)
            if field not in PLACE and table.at < table.end and table.at[0] in b"FASx":
                take(&table, 1)
                take_counted(&table, 4, &skipped)
                continue
            value = read_value(&table, 1, &left)
            if field in PLACE:
                fields[field] = as_field(field, False, value)
    except ValueError:  # what came before it counts
        pass
    place = tuple([fields[field] for field in PLACE])
    return None if None in place else place


def unpack(bytes body not None, message, uint64_t first_id, /):
    """The records in the body of a bundle (app/broker/bundles.py), as if each had come alone.

    ``message`` is the bundle's own, whose tag the last record has: only with it may the bundle be
    acknowledged. Their identities count up from ``first_id``. Those that can be read at once are.
    """
    cdef list records = []
    cdef Bytes left, record, key, header
    cdef bytes contents
    cdef str name
    cdef unsigned char identity[8]
    cdef uint64_t shifted
    cdef int i
    bundle, is_redelivered = message.bundle, message.redelivered
    cdef uint64_t tag = message.tag
    ordinal, moment = bundle.first, message.at
    left.at = body
    left.end = left.at + len(body)
    while left.at < left.end:
        take_counted(&left, 4, &record)
        size = record.end - record.at
        take_counted(&record, 2, &key)
        take_counted(&record, 4, &header)
        shifted = first_id + <uint64_t>len(records)
        for i in range(7, -1, -1):
            identity[i] = shifted & 0xFF
            shifted >>= 8
        name, contents = name_of(&key), bytes_of(&record)
        read = None
        if len(contents) <= LARGE:  # digests of others may be made in a thread
            try:
                read = record_of(name, header, contents, b"")
            except ValueError:  # the parser tells why
                pass
        records.append(
            Arrival(
                tag if left.at == left.end else tag - 1,
                is_redelivered,
                name,
                bytes_of(&header) if read is None else b"",
                contents,
                moment,
                UNREAD if read is None else read,
                identity[:8],
                size,
                b"",
                bundle,
                ordinal,
                left.at == left.end,
            )
        )
        ordinal += 1
        moment += 1
    return records


cdef class Others:
    """Recognition of what is somebody else's, and counted by the broker, as nearly all is."""

    cdef public frozenset _users
    cdef public tuple _special  # other names of queues make no difference
    cdef public str _marks
    cdef public object _others

    def about(self, message, /):
        """The subject of a trace message (`app.broker.own`)."""
        cdef bint is_publish = type(message) is Publish
        if not is_publish and type(message) is not Deliver:
            return self._about(message)
        channel = at(message, CHANNEL_OF_PUBLISH if is_publish else CHANNEL_OF_DELIVER)
        if at(channel, NUMBER) == 0:
            return self._about(message)
        if is_publish:
            exchange = <str>at(message, EXCHANGE_OF_PUBLISH)
            if at(channel, USER) in self._users and not (
                exchange and not exchange.startswith(self._marks)
            ):
                return self._about(message)
        elif (<str>at(message, QUEUE)).startswith(self._special):
            return self._about(message)
        return self._others


@cython.final
cdef class DeliverySplitter:
    """Splits a connection's bytes into one channel's deliveries and the rest.

    Bytes that are not frames, and all after them, are left to the client library, which closes the
    connection over them. So is a delivery that ends before it says all that it has to.
    """

    cdef uint64_t _channel  # until one is chosen: the connection itself, which has no deliveries
    cdef object _take_in
    cdef list _parts  # of an incomplete frame
    cdef uint64_t _have, _need
    cdef bint _is_broken
    # The current delivery.
    cdef uint64_t _tag, _missing
    cdef bint _is_redelivered
    cdef str _key  # None: there is none
    cdef bytes _header
    cdef bytes _body  # of the size that its header says; what is missing of it is at its end

    def __init__(self):
        self._parts = []

    @property
    def is_diverting(self):
        return self._channel != 0

    def divert(self, uint64_t channel, take, /):
        """Call ``take`` with the deliveries on that channel from now on, in order."""
        self._channel, self._take_in = channel, take

    def feed(self, bytes data not None, /):
        """Take in the next bytes; return what the library is to read, in complete frames."""
        cdef list passed = [], taken = []
        cdef Bytes left
        if self._is_broken:
            return data
        self._parts.append(data)
        self._have += len(data)
        if self._have < self._need:
            return b""
        data = <bytes>self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        left.at = data
        left.end = left.at + len(data)
        try:
            self._split(&left, passed, taken)
        except ValueError:
            self._is_broken = True
            passed.append(bytes_of(&left))
            left.at = left.end
        self._have = left.end - left.at
        self._parts = [bytes_of(&left)] if self._have else []
        if taken:
            self._take_in(taken)
        return b"".join(passed)

    cdef int _split(self, Bytes *left, list passed, list taken) except -1:
        """Go through complete frames; what is left begins with the first that is not, or is odd."""
        cdef Bytes frame, payload
        cdef int kind
        self._need = HEAD
        while left.end - left.at >= HEAD:
            frame = left[0]
            kind = take(&frame, 3)[0]
            if kind != METHOD and kind != HEADER and kind != BODY and kind != HEARTBEAT:
                raise ValueError("not a frame")
            self._need = HEAD + number(frame.at, 4) + 1
            if <uint64_t>(left.end - left.at) < self._need:
                return 0
            take_counted(&frame, 4, &payload)
            if take(&frame, 1)[0] != FRAME_END:
                raise ValueError("a frame that does not end")
            if (
                self._channel == 0
                or number(left.at + 1, 2) != self._channel
                or not self._is_ours(kind, &payload, taken)
            ):
                passed.append(left.at[:frame.at - left.at])
            left.at = frame.at
            self._need = HEAD
        return 0

    cdef bint _is_ours(self, int kind, Bytes *payload, list taken) except -1:
        """Add a frame of our channel to its delivery; False if it belongs to none."""
        cdef uint64_t size
        cdef char *to
        if kind == METHOD:
            if payload.end - payload.at < 4 or memcmp(payload.at, b"\x00\x3c\x00\x3c", 4) != 0:
                return False
            self._begin(payload)
            return True
        if self._key is None or kind == HEARTBEAT:
            return False
        if kind == HEADER:
            self._header = bytes_of(payload)
            take(payload, BODY_SIZE_AT)
            self._missing = number(take(payload, 8), 8)
            if self._missing > MOST_BODY:
                raise ValueError("a body that is longer than any")
            # At once, and filled as it comes: to join the frames of 120 MiB takes 0.1 s.
            self._body = PyBytes_FromStringAndSize(NULL, self._missing)
        else:
            size = payload.end - payload.at
            if size > self._missing:
                raise ValueError("a body that is longer than was said")
            to = PyBytes_AS_STRING(self._body) + (len(self._body) - self._missing)
            memcpy(to, payload.at, size)
            self._missing -= size
        if self._missing == 0:
            taken.append(
                Arrival(self._tag, self._is_redelivered, self._key, self._header, self._body)
            )
            self._key = self._body = None
        return True

    cdef int _begin(self, Bytes *method) except -1:
        """Read the arguments of a basic.deliver."""
        cdef Bytes skipped, key
        take(method, 4)
        take_counted(method, 1, &skipped)  # the consumer's tag
        self._tag = number(take(method, 8), 8)
        self._is_redelivered = take(method, 1)[0] & 1
        take_counted(method, 1, &skipped)  # the exchange
        take_counted(method, 1, &key)
        self._key, self._body, self._missing = text_of(&key), b"", 0
        return 0
