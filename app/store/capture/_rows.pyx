# cython: boundscheck=False
"""Rows of events and of their keys, of which every event needs some."""

from cpython.bytearray cimport PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING

from hashlib import sha256
from operator import itemgetter

from msgspec.json import Encoder

from app.tracker._fields cimport at, check, place_of
from app.tracker.events import Reference, StampedEvent
from app.tracker.links.names import NO_NAMES, Names
from app.tracker.records import Deliver, Publish
from app.tracker.values import readable
from model.words import IS_CONVERSATION, IS_FOUND_BY

cdef enum:
    MOST_TEXTS = 2_000  # lists of words

cdef Py_ssize_t RECORD = place_of(StampedEvent, "record"), MATCH = place_of(StampedEvent, "match")
cdef Py_ssize_t RECORDED_AT = place_of(StampedEvent, "recorded_at")
cdef Py_ssize_t PARTICIPANT = place_of(StampedEvent, "participant")
cdef Py_ssize_t CHANNEL = place_of(StampedEvent, "channel_key"), SEQ = place_of(StampedEvent, "seq")
cdef Py_ssize_t LAMPORT = place_of(StampedEvent, "lamport")
cdef Py_ssize_t HEIGHT = place_of(StampedEvent, "height"), CAUSE = place_of(StampedEvent, "cause")
cdef Py_ssize_t MARK = place_of(StampedEvent, "fingerprint"), NAMES = place_of(StampedEvent, "names")
cdef Py_ssize_t REFERENCE = place_of(StampedEvent, "reference")
cdef Py_ssize_t QUIET = place_of(StampedEvent, "quiet")
cdef Py_ssize_t CANDIDATES = place_of(StampedEvent, "candidates")
cdef Py_ssize_t DOUBTFUL = place_of(StampedEvent, "is_doubtful")
cdef Py_ssize_t ID = place_of(Reference, "id"), PACKED = place_of(Reference, "packed")
cdef Py_ssize_t IDS = place_of(Names, "ids"), CALLED = place_of(Names, "called")
cdef Py_ssize_t FOUND_BY = place_of(Names, "found_by")
cdef Py_ssize_t CONVERSATIONS = place_of(Names, "conversations")

cdef struct Places:  # of a record's fields
    Py_ssize_t exchange, routing_keys, queues, properties, body, sha256, redactions


cdef Places places_of(kind, str queues):
    cdef Places places
    places.exchange, places.routing_keys = place_of(kind, "exchange"), place_of(kind, "routing_keys")
    places.properties, places.body = place_of(kind, "properties"), place_of(kind, "body")
    places.sha256, places.queues = place_of(kind, "sha256"), place_of(kind, queues)
    places.redactions = place_of(kind, "redactions")
    return places


cdef Places OF_PUBLISH = places_of(Publish, "routed_queues"), OF_DELIVER = places_of(Deliver, "queue")
cdef object PUBLISHED = Publish.event_type, RECEIVED = Deliver.event_type
cdef object encode = Encoder().encode, key_of = itemgetter(2)
cdef object CONVERSATION = IS_CONVERSATION, FOUND = IS_FOUND_BY
cdef object BOTH = IS_CONVERSATION | IS_FOUND_BY
cdef dict texts = {}  # lists of words as they are stored; most come again and again
cdef tuple UNSETTLED = (None, None, None)


cdef str text_of(tuple words):
    text = texts.get(words)
    if text is None:
        if len(texts) >= MOST_TEXTS:
            texts.clear()
        text = texts[words] = (<bytes>encode(words)).decode()
    return text


cdef inline object bytes_of(bytes data, bint as_array):
    """Bytes as the database's driver takes them."""
    if as_array:
        return PyByteArray_FromStringAndSize(PyBytes_AS_STRING(data), len(data))
    return data


def event_rows(dialect, trace_id, events, Py_ssize_t body_bytes, dict settled not None):
    """Rows of ``events`` in the order of `EVENT_ROWS`, each body cut to ``body_bytes``.

    A body that is an AMQP 1.0 value is stored as text. ``settled`` is by the events' ids. Where the
    dialect knows the usual values (`USUAL`), a row of which all are so ends before them.
    """
    cdef list rows = []
    cdef bint as_array = dialect.blob is bytearray, knows_usual = dialect.knows_usual
    cdef bint is_publish, is_doubtful, is_redelivered, is_quiet
    cdef dict properties
    cdef bytes body, digest
    cdef Places *places
    cdef tuple ids, row
    absent, flags = dialect.absent, dialect.flags
    for event in events:
        check(event, StampedEvent)
        record, reference, cause = at(event, RECORD), at(event, REFERENCE), at(event, CAUSE)
        is_publish = type(record) is Publish
        if not is_publish:
            check(record, Deliver)
        places = &OF_PUBLISH if is_publish else &OF_DELIVER
        properties = at(record, places.properties)
        if "type" in properties:  # else it is readable as it is
            record = readable(record)
        names = at(event, NAMES)
        check(reference, Reference)
        check(names, Names)
        body, ids, queues = at(record, places.body), at(names, IDS), at(record, places.queues)
        row = (
            at(reference, ID),
            PUBLISHED if is_publish else RECEIVED,
            +at(event, MATCH),  # a plain number
            absent if cause is None else cause.id,
            at(event, PARTICIPANT),
            at(event, SEQ),
            at(event, LAMPORT),
            at(event, RECORDED_AT),
            at(record, places.exchange),
            absent if is_publish else queues,
            text_of(at(record, places.routing_keys)),
            text_of(queues) if is_publish else absent,
            (<bytes>encode(properties)).decode(),
            bytes_of(body[:body_bytes], as_array) if body_bytes else absent,
            len(body),
            trace_id,
            at(event, HEIGHT),
            bytes_of(at(reference, PACKED), as_array),
            at(event, CHANNEL),
            bytes_of(at(event, MARK), as_array),
            bytes_of(ids[0] if len(ids) == 1 else b"".join(ids), as_array) if ids else absent,
        )
        candidates, disposition = at(event, CANDIDATES), settled.get(at(reference, ID))
        is_doubtful, is_quiet = at(event, DOUBTFUL), at(event, QUIET)
        is_redelivered = not is_publish and record.redelivered
        if (
            knows_usual
            and candidates is None
            and disposition is None
            and len(body) <= body_bytes
            and not at(record, places.redactions)
            and not (is_doubtful or is_redelivered or is_quiet)
        ):
            rows.append(row)
            continue
        word, moment, hold = disposition or (absent, absent, absent)
        digest = b"" if len(body) <= body_bytes else record.sha256 or sha256(body).digest()
        rows.append(
            (
                *row,
                absent if candidates is None else candidates,
                flags[is_doubtful],
                flags[is_redelivered],
                flags[is_quiet],
                word,
                moment,
                bytes_of(digest, as_array) if digest else absent,
                text_of(record.redactions) if record.redactions else absent,
                hold,
            )
        )
    return rows


def key_rows(trace_id, events):
    """Rows of the keys by which events are found or belong together.

    A delivery with the same names as its publish is found through the publish by the message's own
    names: nearly every message has an id, and a row for each event costs a tenth of capture's
    speed. Other values many messages may share: a search for these needs all of their events from
    the index, in order.
    """
    cdef list rows = []
    cdef tuple own_names, conversations, found_by
    for event in events:
        check(event, StampedEvent)
        names, cause = at(event, NAMES), at(event, CAUSE)
        if names is NO_NAMES:
            continue
        check(names, Names)
        own_names, conversations = at(names, CALLED), at(names, CONVERSATIONS)
        if own_names and cause is not None and cause.names is names:
            own_names = ()
        found_by = at(names, FOUND_BY)
        event_id = event.reference.id
        if not conversations and not found_by:
            for key in own_names:
                rows.append((trace_id, event_id, key, FOUND))
            continue
        found = dict.fromkeys(found_by + own_names)
        for key in conversations:
            rows.append((trace_id, event_id, key, BOTH if key in found else CONVERSATION))
        for key in found:
            if key not in conversations:
                rows.append((trace_id, event_id, key, FOUND))
    rows.sort(key=key_of)  # SQLite's order: an insertion then takes two thirds of the time
    return rows
