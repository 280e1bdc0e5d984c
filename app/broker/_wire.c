/* What every trace message goes through on its way in, compiled: finding it among a connection's
 * frames (app/broker/deliveries.py), and reading its headers (app/broker/wire.py, firehose.py).
 * Those are the reference.
 *
 * Whatever is damaged, incomplete or unusual is left to the Python code, which can handle it or say
 * what is wrong. So nothing here reports errors.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { DEEPEST = 32, FLAGS_AT = 12 }; /* class, weight and the body's size come before the flags */
enum { CONTENT_TYPE = 1 << 15, CONTENT_ENCODING = 1 << 14, HEADERS = 1 << 13 };

/* What is left to read, up to the end of the innermost table or array. */
typedef struct {
    const unsigned char *at, *end;
} Bytes;

static PyObject *read_value(Bytes *bytes, int depth);

/* A big-endian number of this many bytes, which must be there. */
static inline uint64_t
number(const unsigned char *at, int size)
{
    uint64_t value = 0;
    while (size-- > 0)
        value = value << 8 | *at++;
    return value;
}

/* Take this many bytes; NULL if there are fewer. */
static inline const unsigned char *
take(Bytes *bytes, uint64_t size)
{
    const unsigned char *taken = bytes->at;
    if (size > (uint64_t)(bytes->end - bytes->at))
        return NULL;
    bytes->at += size;
    return taken;
}

/* Take what follows its length, a number of this many bytes. */
static inline int
take_counted(Bytes *bytes, int size, Bytes *part)
{
    const unsigned char *length = take(bytes, size);
    const unsigned char *from = length == NULL ? NULL : take(bytes, number(length, size));
    if (from == NULL)
        return -1;
    part->at = from;
    part->end = bytes->at;
    return 0;
}

static PyObject *
text_of(const Bytes *part)
{
    return PyUnicode_DecodeUTF8((const char *)part->at, part->end - part->at, NULL);
}

/* Names that came last, each at the place that its bytes say: those of headers and connections come
 * again with every message, and what is one object is hashed once. */
enum { REMEMBERED = 4096, SHORT = 64 };
static PyObject *remembered[REMEMBERED];

static PyObject *
name_of(const Bytes *part)
{
    Py_ssize_t size = part->end - part->at, i;
    uint32_t mixed = (uint32_t)size;
    PyObject **place, *name;
    if (size > SHORT)
        return text_of(part);
    for (i = 0; i < size; i++)
        mixed = (mixed ^ part->at[i]) * 16777619;
    place = &remembered[(mixed >> 16 ^ mixed) % REMEMBERED];
    if (*place != NULL && PyUnicode_GET_LENGTH(*place) == size
        && memcmp(PyUnicode_DATA(*place), part->at, size) == 0)
        return Py_NewRef(*place);
    name = text_of(part);
    if (name != NULL && PyUnicode_IS_ASCII(name))
        Py_XSETREF(*place, Py_NewRef(name));
    return name;
}

static PyObject *
read_text(Bytes *bytes, int depth)
{
    Bytes part;
    if (take_counted(bytes, 4, &part) < 0)
        return NULL;
    return depth == 1 ? name_of(&part) : text_of(&part);
}

static PyObject *
read_integer(Bytes *bytes, int size, int is_signed)
{
    const unsigned char *taken = take(bytes, size);
    uint64_t value;
    if (taken == NULL)
        return NULL;
    value = number(taken, size);
    if (is_signed && size < 8 && value >> (8 * size - 1))
        value |= ~(uint64_t)0 << 8 * size;
    return is_signed ? PyLong_FromLongLong((int64_t)value) : PyLong_FromUnsignedLongLong(value);
}

static PyObject *
read_real(Bytes *bytes, int size)
{
    const char *taken = (const char *)take(bytes, size);
    double value;
    if (taken == NULL)
        return NULL;
    value = size == 4 ? PyFloat_Unpack4(taken, 0) : PyFloat_Unpack8(taken, 0);
    return isfinite(value) ? PyFloat_FromDouble(value) : NULL;
}

static int
read_member(Bytes *bytes, int depth, PyObject *array)
{
    PyObject *value = read_value(bytes, depth + 1);
    int failed = value == NULL || PyList_Append(array, value) < 0;
    Py_XDECREF(value);
    return failed ? -1 : 0;
}

static int
read_entry(Bytes *bytes, int depth, PyObject *table)
{
    Bytes name;
    PyObject *key, *value;
    int failed;
    if (take_counted(bytes, 1, &name) < 0)
        return -1;
    key = name_of(&name);
    value = key == NULL ? NULL : read_value(bytes, depth + 1);
    failed = value == NULL || PyDict_SetItem(table, key, value) < 0;
    Py_XDECREF(key);
    Py_XDECREF(value);
    return failed ? -1 : 0;
}

/* Fill a new table or array with what follows its length. Takes over the reference. */
static PyObject *
filled(PyObject *whole, Bytes *bytes, int depth, int (*read_one)(Bytes *, int, PyObject *))
{
    Bytes part = {NULL, NULL};
    if (depth > DEEPEST || take_counted(bytes, 4, &part) < 0)
        Py_CLEAR(whole);
    while (whole != NULL && part.at < part.end)
        if (read_one(&part, depth, whole) < 0)
            Py_CLEAR(whole);
    return whole;
}

static PyObject *
read_value(Bytes *bytes, int depth)
{
    const unsigned char *kind = take(bytes, 1), *taken;
    switch (kind == NULL ? 0 : *kind) {
    case 'S': return read_text(bytes, depth);
    case 'F': return filled(PyDict_New(), bytes, depth, read_entry);
    case 'A': return filled(PyList_New(0), bytes, depth, read_member);
    case 't': return (taken = take(bytes, 1)) == NULL ? NULL : PyBool_FromLong(*taken);
    case 'b': return read_integer(bytes, 1, 1);
    case 'B': return read_integer(bytes, 1, 0);
    case 's': return read_integer(bytes, 2, 1);
    case 'u': return read_integer(bytes, 2, 0);
    case 'I': return read_integer(bytes, 4, 1);
    case 'i': return read_integer(bytes, 4, 0);
    case 'l':
    case 'L': return read_integer(bytes, 8, 1);
    case 'T': return read_integer(bytes, 8, 0);
    case 'f': return read_real(bytes, 4);
    case 'd': return read_real(bytes, 8);
    case 'V': return Py_NewRef(Py_None);
    default: return NULL; /* decimals and byte arrays are rare, the rest is not AMQP */
    }
}

/* What a trace message's headers say, in the order in which `read_trace` returns it. The last is
 * `routed_queues` of a publish or `redelivered` of a deliver. */
enum { NODE, CONNECTION, CHANNEL, USER, EXCHANGE, KEYS, PROPERTIES, LAST, FIELDS };

static const struct {
    const char *name;
    int size, field;
} FIELD_NAMES[] = {
    {"exchange_name", 13, EXCHANGE}, {"routing_keys", 12, KEYS}, {"properties", 10, PROPERTIES},
    {"node", 4, NODE},               {"connection", 10, CONNECTION}, {"channel", 7, CHANNEL},
    {"user", 4, USER},
};

static int
field_of(const Bytes *name, const char *last)
{
    size_t size = name->end - name->at, i;
    for (i = 0; i < sizeof FIELD_NAMES / sizeof *FIELD_NAMES; i++)
        if (size == (size_t)FIELD_NAMES[i].size && memcmp(name->at, FIELD_NAMES[i].name, size) == 0)
            return FIELD_NAMES[i].field;
    return size == strlen(last) && memcmp(name->at, last, size) == 0 ? LAST : FIELDS;
}

/* Whether a value is text that any database holds. */
static int
is_text(PyObject *value)
{
    return PyUnicode_CheckExact(value)
           && PyUnicode_FindChar(value, 0, 0, PyUnicode_GET_LENGTH(value), 1) < 0;
}

/* A list of texts as a tuple; NULL if it is anything else. Takes over the reference. */
static PyObject *
texts_of(PyObject *value)
{
    PyObject *texts = NULL;
    if (PyList_CheckExact(value)) {
        Py_ssize_t i = 0, count = PyList_GET_SIZE(value);
        while (i < count && is_text(PyList_GET_ITEM(value, i)))
            i++;
        if (i == count)
            texts = PyList_AsTuple(value);
    }
    Py_DECREF(value);
    return texts;
}

/* A value as its field has it; NULL if it does not fit the field. Takes over the reference. */
static PyObject *
as_field(int field, int is_publish, PyObject *value)
{
    int is_right;
    if (field == KEYS || (field == LAST && is_publish))
        return texts_of(value);
    if (field == PROPERTIES)
        is_right = PyDict_CheckExact(value);
    else if (field == CHANNEL || field == LAST) {
        int overflow = 0;
        long long whole =
            PyLong_CheckExact(value) ? PyLong_AsLongLongAndOverflow(value, &overflow) : -1;
        is_right = whole >= 0 && whole <= (field == CHANNEL ? 65535 : 1); /* -1 where too large */
    } else
        is_right = is_text(value);
    if (is_right)
        return value;
    Py_DECREF(value);
    return NULL;
}

/* Read the table's entries into their fields; entries without a field must be readable too. */
static int
read_fields(Bytes *table, int is_publish, PyObject **fields)
{
    const char *last = is_publish ? "routed_queues" : "redelivered";
    while (table->at < table->end) {
        Bytes name;
        PyObject *value;
        int field;
        if (take_counted(table, 1, &name) < 0)
            return -1;
        field = field_of(&name, last);
        value = read_value(table, 1);
        if (value == NULL)
            return -1;
        if (field == FIELDS) {
            Py_DECREF(value);
            continue;
        }
        if (fields[field] != NULL) { /* twice in one table: odd */
            Py_DECREF(value);
            return -1;
        }
        fields[field] = as_field(field, is_publish, value);
        if (fields[field] == NULL)
            return -1;
    }
    return 0;
}

/* Find the table of headers in the payload of a header frame. */
static int
find_headers(Bytes *bytes, Bytes *table)
{
    const unsigned char *flags;
    uint64_t set;
    Bytes skipped;
    if (take(bytes, FLAGS_AT) == NULL || (flags = take(bytes, 2)) == NULL)
        return -1;
    set = number(flags, 2);
    if (!(set & HEADERS) || (set & CONTENT_TYPE && take_counted(bytes, 1, &skipped) < 0)
        || (set & CONTENT_ENCODING && take_counted(bytes, 1, &skipped) < 0))
        return -1;
    return take_counted(bytes, 4, table);
}

static PyObject *
trace_of(Bytes *bytes, int is_publish)
{
    PyObject *fields[FIELDS] = {NULL}, *trace = NULL;
    Bytes table;
    int field, is_whole;
    is_whole = find_headers(bytes, &table) == 0 && read_fields(&table, is_publish, fields) == 0;
    for (field = 0; field < FIELDS; field++)
        is_whole = is_whole && fields[field] != NULL;
    if (is_whole)
        trace = PyTuple_New(FIELDS);
    for (field = 0; field < FIELDS; field++)
        if (trace != NULL)
            PyTuple_SET_ITEM(trace, field, fields[field]);
        else
            Py_XDECREF(fields[field]);
    return trace;
}

static PyObject *
wire_read_trace(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    Bytes bytes;
    PyObject *trace;
    if (count != 2 || !PyBytes_Check(args[0]) || !PyBool_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "read_trace takes bytes and a bool");
        return NULL;
    }
    bytes.at = (const unsigned char *)PyBytes_AS_STRING(args[0]);
    bytes.end = bytes.at + PyBytes_GET_SIZE(args[0]);
    trace = trace_of(&bytes, args[1] == Py_True);
    if (trace != NULL)
        return trace;
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        return NULL; /* no memory */
    PyErr_Clear();
    Py_RETURN_NONE;
}

/* Frames: kind, channel, size of the payload; the payload; one octet. */
enum { METHOD = 1, HEADER = 2, BODY = 3, FRAME_END = 0xCE };
enum { BODY_SIZE_AT = 4 }; /* in a header's payload, after class and weight */

/* Take a frame of this kind and channel; any other, or an incomplete one, is not taken. */
static int
take_frame(Bytes *bytes, int kind, uint64_t channel, Bytes *payload)
{
    Bytes from = *bytes;
    const unsigned char *head = take(&from, 3), *end;
    if (head == NULL || *head != kind || number(head + 1, 2) != channel
        || take_counted(&from, 4, payload) < 0 || (end = take(&from, 1)) == NULL
        || *end != FRAME_END)
        return -1;
    *bytes = from;
    return 0;
}

/* Where a delivery's parts are. */
typedef struct {
    uint64_t tag;
    int redelivered;
    Bytes routing_key, header, body;
} Parts;

/* The arguments of a basic.deliver. */
static int
read_deliver(Bytes method, Parts *parts)
{
    static const unsigned char DELIVER[] = {0, 60, 0, 60};
    const unsigned char *taken = take(&method, sizeof DELIVER);
    Bytes skipped;
    if (taken == NULL || memcmp(taken, DELIVER, sizeof DELIVER) != 0
        || take_counted(&method, 1, &skipped) < 0 || (taken = take(&method, 9)) == NULL
        || take_counted(&method, 1, &skipped) < 0
        || take_counted(&method, 1, &parts->routing_key) < 0)
        return -1;
    parts->tag = number(taken, 8);
    parts->redelivered = taken[8] & 1;
    return 0;
}

/* Take a delivery of three frames, or of two if its body is empty. */
static int
take_delivery(Bytes *bytes, uint64_t channel, Parts *parts)
{
    Bytes from = *bytes, method, size;
    uint64_t body;
    if (take_frame(&from, METHOD, channel, &method) < 0 || read_deliver(method, parts) < 0
        || take_frame(&from, HEADER, channel, &parts->header) < 0)
        return -1;
    size = parts->header;
    if (take(&size, BODY_SIZE_AT) == NULL || size.end - size.at < 8)
        return -1;
    body = number(size.at, 8);
    parts->body.at = parts->body.end = from.at;
    if (body > 0
        && (take_frame(&from, BODY, channel, &parts->body) < 0
            || (uint64_t)(parts->body.end - parts->body.at) != body))
        return -1;
    *bytes = from;
    return 0;
}

static PyObject *
bytes_of(const Bytes *part)
{
    return PyBytes_FromStringAndSize((const char *)part->at, part->end - part->at);
}

static PyObject *
new_delivery(PyObject *make, const Parts *parts)
{
    PyObject *arguments[5], *delivery = NULL;
    int i, made = 0;
    arguments[0] = PyLong_FromUnsignedLongLong(parts->tag);
    arguments[1] = PyBool_FromLong(parts->redelivered);
    arguments[2] = text_of(&parts->routing_key);
    arguments[3] = bytes_of(&parts->header);
    arguments[4] = bytes_of(&parts->body);
    for (i = 0; i < 5; i++)
        made += arguments[i] != NULL;
    if (made == 5)
        delivery = PyObject_Vectorcall(make, arguments, 5, NULL);
    for (i = 0; i < 5; i++)
        Py_XDECREF(arguments[i]);
    return delivery;
}

/* Take simple, complete deliveries of this channel, up to the first frame of anything else. */
static int
take_deliveries(Bytes *bytes, uint64_t channel, PyObject *make, PyObject *deliveries)
{
    Bytes from = *bytes;
    Parts parts;
    while (take_delivery(&from, channel, &parts) == 0) {
        PyObject *delivery = new_delivery(make, &parts);
        int failed = delivery == NULL || PyList_Append(deliveries, delivery) < 0;
        Py_XDECREF(delivery);
        if (failed && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
            PyErr_Clear(); /* a routing key of odd bytes */
            return 0;
        }
        if (failed)
            return -1;
        *bytes = from;
    }
    return 0;
}

static PyObject *
wire_read_deliveries(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    Bytes bytes;
    Py_ssize_t at;
    long channel;
    PyObject *deliveries;
    if (count != 4 || !PyBytes_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "read_deliveries takes bytes, offset, channel, class");
        return NULL;
    }
    at = PyLong_AsSsize_t(args[1]);
    channel = PyLong_AsLong(args[2]);
    if (PyErr_Occurred())
        return NULL;
    if (at < 0 || at > PyBytes_GET_SIZE(args[0]) || channel < 0) {
        PyErr_SetString(PyExc_ValueError, "invalid offset or channel");
        return NULL;
    }
    bytes.at = (const unsigned char *)PyBytes_AS_STRING(args[0]) + at;
    bytes.end = bytes.at - at + PyBytes_GET_SIZE(args[0]);
    deliveries = PyList_New(0);
    if (deliveries != NULL && take_deliveries(&bytes, channel, args[3], deliveries) < 0)
        Py_CLEAR(deliveries);
    if (deliveries == NULL)
        return NULL;
    at = (const char *)bytes.at - PyBytes_AS_STRING(args[0]);
    return Py_BuildValue("(Nn)", deliveries, at);
}

static PyMethodDef methods[] = {
    {"read_trace", (PyCFunction)(void (*)(void))wire_read_trace, METH_FASTCALL,
     "read_trace(header, is_publish): what app.broker.firehose reads in it; None if unusual."},
    {"read_deliveries", (PyCFunction)(void (*)(void))wire_read_deliveries, METH_FASTCALL,
     "read_deliveries(data, at, channel, class): the complete ones there, and where they end."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_wire", "Trace messages off the wire, compiled.", 0, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__wire(void)
{
    return PyModuleDef_Init(&definition);
}
