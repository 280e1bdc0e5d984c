# cython: boundscheck=False
"""Names in a message's headers and properties, by probes: the compiled part of
app/tracker/links/probes.py.

Digests are BLAKE2b of 16 bytes.
"""

from hashlib import blake2b

cimport cython
from cpython.unicode cimport PyUnicode_AsUTF8, PyUnicode_AsUTF8AndSize
from libc.string cimport memcmp, strncmp

from app.tracker._fields cimport at, check, place_of
from app.tracker.records import Channel, Deliver, Publish
from app.tracker.streams import BROKER_HEADERS, MQTT_CHANNEL

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(object)

cdef enum:
    DIGEST = 16  # bytes
    MOST_KEYS = 64  # each is compared with all others of its use
    BODY_END = 512  # `ends` in app/tracker/links/probes.py
    # Uses of keys, in the order of the fields of `Names`; causes have their rules' numbers.
    IDS = 0
    CAUSES = 1
    USES = 5


cdef object begin_digest = blake2b(digest_size=DIGEST).copy  # faster than to make one


cdef bytes framed(bytes data):
    """Bytes behind their length, so that two in a row cannot be read as two others."""
    return (<object>len(data)).to_bytes(4, "big") + data


cdef tuple untracked(tuple members):
    """A tuple without the collector's care: its members can be in no circle."""
    if members:
        PyObject_GC_UnTrack(members)
    return members


cdef list list_of(result):
    if not isinstance(result, list):
        raise TypeError("keys and values come as lists")
    return result


cdef bint is_among(list keys, bytes key) except -1:
    cdef bytes other_key
    for other_key in keys:
        if memcmp(<const char *>other_key, <const char *>key, DIGEST) == 0:
            return True
    return False


@cython.final
cdef class Use:
    cdef int field
    cdef object number

    def __cinit__(self, int field, number, /):
        if not 0 <= field < USES:
            raise TypeError("there is no such use")
        self.field, self.number = field, number


@cython.final
cdef class Place:
    """A header, or a property."""

    cdef bint is_header
    cdef str name

    def __cinit__(self, bool is_header not None, str name not None, /):
        self.is_header, self.name = is_header, name


@cython.final
cdef class Condition:
    """The condition that some place holds a text with such a beginning, or that none does."""

    cdef tuple places
    cdef bint holds
    cdef str begins

    def __cinit__(self, tuple places not None, bool holds not None, str begins not None, /):
        self.places = tuple([Place(*each) for each in places])
        self.holds, self.begins = holds, begins

    cdef bint is_met(self, dict headers, dict properties) except -1:
        cdef Place place
        for place in self.places:
            value = (headers if place.is_header else properties).get(place.name)
            if value and (
                not self.begins or type(value) is str and (<str>value).startswith(self.begins)
            ):
                return self.holds
        return not self.holds


@cython.final
cdef class Probe:
    """`Compiled` in app/tracker/links/probes.py."""

    cdef bytes prefix
    cdef tuple conditions, uses
    cdef bint of_same_body
    cdef object call
    cdef object begin  # makes a digest of what has the prefix

    def __cinit__(
        self,
        bytes prefix,
        tuple conditions not None,
        bool of_same_body not None,
        call,
        tuple uses not None,
        /,
    ):
        self.prefix, self.of_same_body, self.call = prefix, of_same_body, call
        self.begin = blake2b(prefix or b"", digest_size=DIGEST).copy
        self.conditions = tuple([Condition(*each) for each in conditions])
        self.uses = tuple([Use(*each) for each in uses])

    cdef bytes key(self, const char *text, size_t size, bytes body):
        """The key of a text, and of the body's ends where they count."""
        digest = self.begin()
        if self.of_same_body:
            end = min(len(body), BODY_END)
            ends = b"%d:%b%b" % (len(body), body[:end], body[len(body) - end :])
            digest.update(framed(text[:size]) + framed(ends))
        else:
            digest.update(text[:size])
        return digest.digest()


cdef dict table_of(dict compiled):
    """A table from names to tuples of probes."""
    return {
        name: tuple([Probe(*each) for each in <tuple?>probes]) for name, probes in compiled.items()
    }


@cython.final
@cython.freelist(1)
@cython.no_gc  # it is gone when `Reader.read` is done
cdef class Reading:
    """The names in one message, as far as they were read."""

    cdef Reader reader
    cdef object record, rules, message  # the last for probes that are read in Python
    cdef dict headers, properties
    cdef bytes body
    cdef list fields  # lists of keys; None before the first
    cdef bint is_open  # there are too many keys, or causes that may not be meant

    cdef int note_table(self, dict by_name, dict table) except -1:
        """Note the values of a table, in its order."""
        for name, value in table.items():
            probes = by_name.get(name)
            if probes is not None and value is not None:
                self.note_value(<tuple>probes, value)
        return 0

    cdef int note_value(self, tuple probes, value) except -1:
        """Note the keys that the probes of one header or property make of its value."""
        cdef Probe probe
        cdef list texts = None  # of a value that is odd: bytes
        cdef bytes raw
        cdef const char *text = NULL
        cdef Py_ssize_t size = 0
        cdef bint says_nothing = False
        if type(value) is str and len(<str>value) <= self.reader.short:
            try:
                text = PyUnicode_AsUTF8AndSize(value, &size)
                says_nothing = value in self.reader.empty_texts
            except UnicodeEncodeError:  # half a character
                pass
        for probe in probes:
            if probe.prefix is None:
                self.note_other(probe)
                continue
            if text == NULL and texts is None:
                texts = list_of(self.rules.values_of(value))
            if says_nothing or not self.meets(probe.conditions):
                continue
            if texts is None:
                self.note_text(probe, text, size, value)
                continue
            for raw in texts:
                self.note_text(probe, raw, len(raw), None)
        return 0

    cdef bint meets(self, tuple conditions) except -1:
        cdef Condition condition
        for condition in conditions:
            if not condition.is_met(self.headers, self.properties):
                return False
        return True

    cdef int note_text(self, Probe probe, const char *text, Py_ssize_t size, whole) except -1:
        """Note the key of a text, or of a probe's extract of it, unless that is empty.

        ``whole`` is the text, if that is at hand.
        """
        if probe.call is not None:
            if whole is None:
                whole = text[:size].decode("utf-8", "replace")
            extract = probe.call(whole)
            if extract is None:
                return 0
            text = PyUnicode_AsUTF8AndSize(extract, &size)
            if size == 0:
                return 0
        return self.note_key(probe, probe.key(text, size, self.body))

    cdef int note_other(self, Probe probe) except -1:
        """Note the keys of a probe that Python reads."""
        if self.message is None:
            self.message = self.rules.look_into(self.record)
        for key in list_of(probe.call(self.message)):
            if type(key) is not bytes or len(<bytes>key) != DIGEST:
                raise TypeError("a key is a digest")
            self.note_key(probe, key)
        return 0

    cdef int note_key(self, Probe probe, bytes key) except -1:
        """Note a key for each of a probe's uses: causes as often as they are named, others once.

        Of too many keys, one more than there may be is enough to see it.
        """
        cdef Use use
        cdef list field
        cdef Py_ssize_t limit
        if self.fields is None and probe.uses:
            self.fields = [None] * USES
        for use in probe.uses:
            field = <list>self.fields[use.field]
            if field is None:
                field = self.fields[use.field] = []
            limit = self.reader.most_ids if use.field == IDS else self.reader.most_keys
            if use.field == CAUSES:
                self.is_open |= len(field) > 0
                field.append(untracked((use.number, key)))
            elif len(field) <= limit and not is_among(field, key):
                self.is_open |= len(field) == limit
                field.append(key)
        return 0

    cdef result(self):
        """The names, or a tuple of their fields where rules have to decide."""
        if self.fields is None:
            return self.reader.no_names
        ids, causes, conversations, found_by, message_ids = [
            () if each is None else untracked(tuple(<list>each)) for each in self.fields
        ]
        if self.is_open or causes and (<tuple>(<tuple>causes)[0])[1] in <tuple>ids:
            return ids, causes, conversations, found_by, message_ids
        return self.reader.names(ids, causes, conversations, found_by, message_ids)


@cython.final
cdef class Reader:
    """Reads the names in messages' headers and properties, by probes."""

    cdef dict by_header, by_property
    cdef frozenset empty_texts  # that say nothing
    cdef Py_ssize_t short, most_ids, most_keys
    cdef object names, no_names  # `Names`, and `NO_NAMES`
    cdef bytes encoded  # first bytes of bodies that may be
    cdef object of_content_type

    def __cinit__(
        self,
        dict by_header not None,
        dict by_property not None,
        frozenset empty_texts not None,
        Py_ssize_t short,
        names,
        no_names,
        Py_ssize_t most_ids,
        Py_ssize_t most_keys,
        /,
    ):
        if not (0 <= most_ids <= MOST_KEYS and 0 <= most_keys <= MOST_KEYS):
            raise ValueError("there is no room for that many keys")
        self.by_header, self.by_property = table_of(by_header), table_of(by_property)
        self.empty_texts, self.short = empty_texts, short
        self.names, self.no_names = names, no_names
        self.most_ids, self.most_keys = most_ids, most_keys
        self.encoded = b""

    def look_into(self, bytes encoded not None, of_content_type, /):
        """Leave bodies to Python that begin so, or as ``of_content_type`` says, if anything."""
        self.encoded, self.of_content_type = encoded, of_content_type

    def read(self, record, rules, /):
        """The names; their fields where rules have to decide. ``rules`` look into the rest.

        None, and nothing is read, if its body has to be looked into: see `read_tables`.
        """
        cdef bint is_publish = type(record) is Publish
        if not is_publish:
            check(record, Deliver)
        cdef Places *places = &OF_PUBLISH if is_publish else &OF_DELIVER
        cdef dict properties = at(record, places.properties)
        cdef bytes body = at(record, places.body)
        if body:
            if (<unsigned char>body[0]) in self.encoded or "content_encoding" in properties:
                return None
            if self.of_content_type is not None:
                begins, probes = self.of_content_type(properties.get("content_type"))
                if probes and body.startswith(begins):
                    return None
        return self.read_tables(record, rules)

    def read_tables(self, record, rules, /):
        """The names in headers and properties, as `read` gives them."""
        cdef Reading reading = Reading()
        properties, body = record.properties, record.body
        if type(properties) is not dict or type(body) is not bytes:
            raise TypeError("properties are a dict, and a body is bytes")
        headers = (<dict>properties).get("headers")
        reading.reader, reading.record, reading.rules = self, record, rules
        reading.properties, reading.body = properties, body
        reading.headers = headers if type(headers) is dict else {}
        reading.note_table(self.by_header, reading.headers)
        reading.note_table(self.by_property, reading.properties)
        return reading.result()


cdef struct Places:  # of a record's fields
    Py_ssize_t channel, exchange, routing_keys, properties, body, sha256


cdef Places places_of(kind):
    cdef Places places
    places.channel, places.exchange = place_of(kind, "channel"), place_of(kind, "exchange")
    places.routing_keys, places.body = place_of(kind, "routing_keys"), place_of(kind, "body")
    places.properties, places.sha256 = place_of(kind, "properties"), place_of(kind, "sha256")
    return places


cdef Places OF_PUBLISH = places_of(Publish), OF_DELIVER = places_of(Deliver)
cdef Py_ssize_t NUMBER = place_of(Channel, "number")
cdef object MQTT = MQTT_CHANNEL
cdef frozenset broker_headers = BROKER_HEADERS


cdef bint changes_headers(dict properties) except -1:
    headers = properties.get("headers")
    return bool(headers) and isinstance(headers, dict) and not broker_headers.isdisjoint(headers)


def has_broker_headers(record, /):
    """Tell whether a message has headers that may change until its next handover."""
    return changes_headers(record.properties)


cdef bint is_steady(dict table, frozenset revealing, bint is_properties) except -1:
    """Tell whether, by its looks, neither the broker nor a stream changes anything in a table.

    No name is revealing, and only the headers among the properties are a table.
    """
    for name, value in table.items():
        if name in revealing or isinstance(value, list):
            return False
        if isinstance(value, dict):  # an empty one is as none
            if not (is_properties and value and is_steady(value, revealing, False)):
                return False
        elif is_properties and isinstance(value, str):
            if strncmp(PyUnicode_AsUTF8(value), "urn:uuid:", 9) == 0:  # streams write it small
                return False
    return True


def mark(record not None, encode, frozenset revealing not None, /):
    """The fingerprint of an ordinary record; None where Python has to make it.

    So it does for large bodies, and where a name is revealing.
    """
    cdef bint is_publish = type(record) is Publish
    if not is_publish:
        check(record, Deliver)
    cdef Places *places = &OF_PUBLISH if is_publish else &OF_DELIVER
    cdef dict properties = at(record, places.properties)
    cdef tuple keys = at(record, places.routing_keys)
    channel = at(record, places.channel)
    check(channel, Channel)
    if at(record, places.sha256) or at(channel, NUMBER) == MQTT:
        return None
    if properties.get("headers") == {}:  # as none; some libraries write it into each message
        properties = properties.copy()
        del properties["headers"]
    exchange = at(record, places.exchange)
    cdef bytes head = encode((exchange, keys[0] if keys else "", (), properties))
    try:
        if not is_steady(properties, revealing, True):
            return None
    except (TypeError, UnicodeEncodeError):  # a table of another kind, half a character
        return None
    digest = begin_digest()
    digest.update(head)
    digest.update(at(record, places.body))
    return digest.digest()
