/* What every message is recognised by, compiled: the fingerprint of an ordinary one
 * (app/tracker/fingerprint.py), and the keys that it says (app/tracker/links/rules.py). Those are
 * the reference, with the same bytes.
 *
 * Whatever is unusual is left to the Python code, by None in place of a result. Digests are
 * BLAKE2b, RFC 7693, of 16 bytes; values are written as msgspec writes MessagePack with sorted keys.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { DIGEST = 16, BLOCK = 128, DEEPEST = 16, MOST_PAIRS = 64 };

/* BLAKE2b */

typedef struct {
    uint64_t chain[8], count;
    unsigned char block[BLOCK];
    size_t filled;
} Blake;

static const uint64_t START[8] = {
    0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
    0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u,
};

static const unsigned char SIGMA[12][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};

static inline uint64_t
rotated(uint64_t word, int by)
{
    return word >> by | word << (64 - by);
}

static inline uint64_t
little(const unsigned char *at)
{
    uint64_t word = 0;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(&word, at, sizeof word); /* no compiler makes one load of the loop below */
#else
    int i;
    for (i = 7; i >= 0; i--)
        word = word << 8 | at[i];
#endif
    return word;
}

static void
compress(Blake *blake, const unsigned char *block, int is_last)
{
    uint64_t v[16], m[16];
    int i, round;
    for (i = 0; i < 16; i++)
        m[i] = little(block + 8 * i);
    for (i = 0; i < 8; i++) {
        v[i] = blake->chain[i];
        v[i + 8] = START[i];
    }
    v[12] ^= blake->count;
    if (is_last)
        v[14] = ~v[14];
#define MIX(a, b, c, d, x, y)                                                                      \
    do {                                                                                           \
        v[a] += v[b] + x;                                                                          \
        v[d] = rotated(v[d] ^ v[a], 32);                                                           \
        v[c] += v[d];                                                                              \
        v[b] = rotated(v[b] ^ v[c], 24);                                                           \
        v[a] += v[b] + y;                                                                          \
        v[d] = rotated(v[d] ^ v[a], 16);                                                           \
        v[c] += v[d];                                                                              \
        v[b] = rotated(v[b] ^ v[c], 63);                                                           \
    } while (0)
    /* Unrolled, the compiler knows each round's order of words. */
#pragma GCC unroll 12
    for (round = 0; round < 12; round++) {
        const unsigned char *s = SIGMA[round];
        MIX(0, 4, 8, 12, m[s[0]], m[s[1]]);
        MIX(1, 5, 9, 13, m[s[2]], m[s[3]]);
        MIX(2, 6, 10, 14, m[s[4]], m[s[5]]);
        MIX(3, 7, 11, 15, m[s[6]], m[s[7]]);
        MIX(0, 5, 10, 15, m[s[8]], m[s[9]]);
        MIX(1, 6, 11, 12, m[s[10]], m[s[11]]);
        MIX(2, 7, 8, 13, m[s[12]], m[s[13]]);
        MIX(3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
#undef MIX
    for (i = 0; i < 8; i++)
        blake->chain[i] ^= v[i] ^ v[i + 8];
}

static void
begin(Blake *blake)
{
    memcpy(blake->chain, START, sizeof START);
    blake->chain[0] ^= 0x01010000u ^ DIGEST;
    blake->count = 0;
    blake->filled = 0;
}

static void
update(Blake *blake, const void *data, size_t size)
{
    const unsigned char *at = data;
    while (size > 0) {
        size_t part;
        if (blake->filled == BLOCK) { /* and more follows, so it is not the last */
            blake->count += BLOCK;
            compress(blake, blake->block, 0);
            blake->filled = 0;
        }
        part = BLOCK - blake->filled < size ? BLOCK - blake->filled : size;
        memcpy(blake->block + blake->filled, at, part);
        blake->filled += part;
        at += part;
        size -= part;
    }
}

static PyObject *
finished(Blake *blake)
{
    unsigned char digest[DIGEST];
    int i;
    blake->count += blake->filled;
    memset(blake->block + blake->filled, 0, BLOCK - blake->filled);
    compress(blake, blake->block, 1);
    for (i = 0; i < DIGEST; i++)
        digest[i] = (unsigned char)(blake->chain[i / 8] >> 8 * (i % 8));
    return PyBytes_FromStringAndSize((char *)digest, DIGEST);
}

/* MessagePack, into a digest. What returns an int: 0, or -1 for what is left to Python; then an
 * exception may be set, and is to be cleared. */

static inline void
put_number(Blake *blake, unsigned char code, uint64_t value, int size)
{
    unsigned char bytes[9];
    int i;
    bytes[0] = code;
    for (i = size; i > 0; i--, value >>= 8)
        bytes[i] = (unsigned char)value;
    update(blake, bytes, (size_t)size + 1);
}

/* A length: of so few that they are in the code itself, or behind the code for one, two, four bytes
 * (0: there is none for one). */
static int
put_length(Blake *blake, Py_ssize_t length, unsigned char fixed, int few, unsigned char one,
           unsigned char two)
{
    if (length < few)
        put_number(blake, (unsigned char)(fixed | length), 0, 0);
    else if (one && length < 1 << 8)
        put_number(blake, one, (uint64_t)length, 1);
    else if (length < 1 << 16)
        put_number(blake, two, (uint64_t)length, 2);
    else if ((uint64_t)length <= UINT32_MAX)
        put_number(blake, two + 1, (uint64_t)length, 4);
    else
        return -1;
    return 0;
}

static int
put_text(Blake *blake, const char *text, Py_ssize_t size)
{
    if (put_length(blake, size, 0xa0, 32, 0xd9, 0xda) < 0)
        return -1;
    update(blake, text, (size_t)size);
    return 0;
}

static int
put_string(Blake *blake, PyObject *string)
{
    Py_ssize_t size;
    const char *text;
    if (!PyUnicode_CheckExact(string) || (text = PyUnicode_AsUTF8AndSize(string, &size)) == NULL)
        return -1;
    return put_text(blake, text, size);
}

static int
put_integer(Blake *blake, PyObject *number)
{
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow || (value == -1 && PyErr_Occurred()))
        return -1;
    if (value >= 0) {
        if (value < 128)
            put_number(blake, (unsigned char)value, 0, 0);
        else if (value <= UINT8_MAX)
            put_number(blake, 0xcc, (uint64_t)value, 1);
        else if (value <= UINT16_MAX)
            put_number(blake, 0xcd, (uint64_t)value, 2);
        else if (value <= UINT32_MAX)
            put_number(blake, 0xce, (uint64_t)value, 4);
        else
            put_number(blake, 0xcf, (uint64_t)value, 8);
    } else if (value >= -32)
        put_number(blake, (unsigned char)value, 0, 0);
    else if (value >= INT8_MIN)
        put_number(blake, 0xd0, (uint64_t)value, 1);
    else if (value >= INT16_MIN)
        put_number(blake, 0xd1, (uint64_t)value, 2);
    else if (value >= INT32_MIN)
        put_number(blake, 0xd2, (uint64_t)value, 4);
    else
        put_number(blake, 0xd3, (uint64_t)value, 8);
    return 0;
}

typedef struct {
    const char *name;
    Py_ssize_t size;
    PyObject *value; /* borrowed */
} Pair;

static int
is_behind(const Pair *a, const Pair *b)
{
    Py_ssize_t common = a->size < b->size ? a->size : b->size;
    int order = memcmp(a->name, b->name, (size_t)common);
    return order > 0 || (order == 0 && a->size > b->size);
}

/* Adds a pair in its place; most tables come sorted, or nearly. */
static int
put_in_order(Pair *pairs, Py_ssize_t count, PyObject *name, PyObject *value)
{
    Pair pair;
    if (count == MOST_PAIRS || !PyUnicode_CheckExact(name))
        return -1;
    pair.name = PyUnicode_AsUTF8AndSize(name, &pair.size);
    pair.value = value;
    if (pair.name == NULL)
        return -1;
    while (count > 0 && is_behind(&pairs[count - 1], &pair)) {
        pairs[count] = pairs[count - 1];
        count--;
    }
    pairs[count] = pair;
    return 0;
}

static int put_value(Blake *blake, PyObject *value, int depth);

static int
put_pairs(Blake *blake, const Pair *pairs, Py_ssize_t count, int depth)
{
    Py_ssize_t i;
    if (put_length(blake, count, 0x80, 16, 0, 0xde) < 0)
        return -1;
    for (i = 0; i < count; i++)
        if (put_text(blake, pairs[i].name, pairs[i].size) < 0 ||
            put_value(blake, pairs[i].value, depth) < 0)
            return -1;
    return 0;
}

static int
put_table(Blake *blake, PyObject *table, int depth)
{
    Pair pairs[MOST_PAIRS];
    PyObject *name, *value;
    Py_ssize_t place = 0, count = 0;
    while (PyDict_Next(table, &place, &name, &value))
        if (put_in_order(pairs, count++, name, value) < 0)
            return -1;
    return put_pairs(blake, pairs, count, depth);
}

static int
put_value(Blake *blake, PyObject *value, int depth)
{
    Py_ssize_t i;
    if (PyUnicode_CheckExact(value))
        return put_string(blake, value);
    if (PyLong_CheckExact(value))
        return put_integer(blake, value);
    if (value == Py_None || PyBool_Check(value)) {
        put_number(blake, value == Py_None ? 0xc0 : value == Py_True ? 0xc3 : 0xc2, 0, 0);
        return 0;
    }
    if (PyFloat_CheckExact(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        uint64_t bits;
        memcpy(&bits, &number, sizeof bits);
        put_number(blake, 0xcb, bits, 8);
        return 0;
    }
    if (depth == DEEPEST)
        return -1;
    if (PyDict_CheckExact(value))
        return put_table(blake, value, depth + 1);
    if (!PyList_CheckExact(value))
        return -1;
    if (put_length(blake, PyList_GET_SIZE(value), 0x90, 16, 0, 0xdc) < 0)
        return -1;
    for (i = 0; i < PyList_GET_SIZE(value); i++)
        if (put_value(blake, PyList_GET_ITEM(value, i), depth + 1) < 0)
            return -1;
    return 0;
}

/* Fingerprints */

/* The headers in their order, or -1 for those of which some need to be looked at. */
static Py_ssize_t
ordinary_headers(PyObject *headers, PyObject *special, int is_publish, Pair *pairs)
{
    PyObject *name, *value;
    Py_ssize_t place = 0, count = 0;
    while (PyDict_Next(headers, &place, &name, &value)) {
        if (is_publish && (PyDict_Check(value) || PyList_Check(value)))
            return -1; /* a stream loses it */
        if (PySet_Contains(special, name) || put_in_order(pairs, count, name, value) < 0)
            return -1;
        count++;
    }
    return count;
}

/* Whether a property may come out of a stream otherwise, which gives a mark a second half. */
static int
is_suspect(const Pair *pair, int is_of_mqtt)
{
#define IS(text) (pair->size == sizeof text - 1 && memcmp(pair->name, text, sizeof text - 1) == 0)
    int is_correlation = IS("correlation_id");
    if (IS("cluster_id"))
        return 1;
    if (is_of_mqtt && is_correlation)
        return 1;
    if (is_correlation || IS("message_id")) {
        Py_ssize_t size;
        const char *text;
        if (!PyUnicode_CheckExact(pair->value))
            return 1;
        text = PyUnicode_AsUTF8AndSize(pair->value, &size);
        return text == NULL || (size >= 9 && memcmp(text, "urn:uuid:", 9) == 0);
    }
    return 0;
#undef IS
}

static int
put_properties(Blake *blake, PyObject *properties, PyObject *special, int is_publish, int is_of_mqtt)
{
    Pair pairs[MOST_PAIRS], headers[MOST_PAIRS];
    PyObject *name, *value, *table = NULL;
    Py_ssize_t place = 0, count = 0, header_count = 0, i;
    while (PyDict_Next(properties, &place, &name, &value)) {
        if (!PyUnicode_CheckExact(name))
            return -1;
        if (PyUnicode_CompareWithASCIIString(name, "expiration") == 0) {
            if (is_publish && is_of_mqtt)
                return -1;
            continue;
        }
        if (PyDict_CheckExact(value) && PyUnicode_CompareWithASCIIString(name, "headers") == 0) {
            header_count = ordinary_headers(value, special, is_publish, headers);
            if (header_count < 0)
                return -1;
            if (header_count == 0)
                continue;
            table = value;
        }
        if (put_in_order(pairs, count, name, value) < 0)
            return -1;
        count++;
    }
    if (put_length(blake, count, 0x80, 16, 0, 0xde) < 0)
        return -1;
    for (i = 0; i < count; i++) {
        if (is_publish && is_suspect(&pairs[i], is_of_mqtt))
            return -1;
        if (put_text(blake, pairs[i].name, pairs[i].size) < 0)
            return -1;
        if (table != NULL && pairs[i].value == table) {
            if (put_pairs(blake, headers, header_count, 1) < 0)
                return -1;
        } else if (put_value(blake, pairs[i].value, 0) < 0)
            return -1;
    }
    return 0;
}

static PyObject *
left_to_python(void)
{
    PyErr_Clear();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(mark_doc,
             "mark(exchange, key, properties, body, special, is_publish, is_of_mqtt): what\n"
             "fingerprint() gives of an ordinary message, else None. Those with a special header\n"
             "are not; nor are publishes that streams change.");

static PyObject *
digests_mark(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    Blake blake;
    if (count != 7 || !PyDict_CheckExact(args[2]) || !PyBytes_CheckExact(args[3]) ||
        !PyAnySet_Check(args[4]))
        Py_RETURN_NONE;
    begin(&blake);
    update(&blake, "\x94", 1); /* four values */
    if (put_string(&blake, args[0]) < 0 || put_string(&blake, args[1]) < 0)
        return left_to_python();
    update(&blake, "\x90", 1); /* no deaths */
    if (put_properties(&blake, args[2], args[4], args[5] == Py_True, args[6] == Py_True) < 0)
        return left_to_python();
    update(&blake, PyBytes_AS_STRING(args[3]), (size_t)PyBytes_GET_SIZE(args[3]));
    return finished(&blake);
}

/* Keys */

enum { IDS, CONVERSATIONS, FOUND_BY, CAUSES, CALLED, USES };

/* What one call works with; objects are borrowed, except for the lists in `found`. */
typedef struct {
    PyObject *headers, *properties, *body;
    PyObject *nothing; /* texts that say nothing, as a set */
    PyObject *values;  /* from a value to its texts, for what is not one short text */
    PyObject *other;   /* from a probe to its keys, for probes that are not plain */
    Py_ssize_t short_text;
    PyObject *found[USES];
} Reading;

/* The bodies' parts that tell them from others: `ends` in app/tracker/links/probes.py. */
enum { BODY_END = 512 };

static void
update_framed(Blake *blake, const char *data, size_t size)
{
    unsigned char length[4];
    int i;
    for (i = 0; i < 4; i++)
        length[i] = (unsigned char)(size >> 8 * (3 - i));
    update(blake, length, 4);
    update(blake, data, size);
}

static void
update_ends(Blake *blake, PyObject *body)
{
    char said[2 * BODY_END + 32];
    const char *data = PyBytes_AS_STRING(body);
    size_t size = (size_t)PyBytes_GET_SIZE(body), end = size < BODY_END ? size : BODY_END;
    int begin = PyOS_snprintf(said, 32, "%zu:", size);
    memcpy(said + begin, data, end);
    memcpy(said + begin + end, data + size - end, end);
    update_framed(blake, said, (size_t)begin + 2 * end);
}

static PyObject *
key_of(PyObject *prefix, const char *text, Py_ssize_t size, PyObject *same_body)
{
    Blake blake;
    begin(&blake);
    update(&blake, PyBytes_AS_STRING(prefix), (size_t)PyBytes_GET_SIZE(prefix));
    if (same_body == NULL)
        update(&blake, text, (size_t)size);
    else {
        update_framed(&blake, text, (size_t)size);
        update_ends(&blake, same_body);
    }
    return finished(&blake);
}

/* Notes a key for each of its uses, pairs of what it is for and a rule's number: causes with that
 * number, all others once each. */
static int
note_key(Reading *reading, PyObject *uses, PyObject *key)
{
    Py_ssize_t i;
    for (i = 0; i < PyTuple_GET_SIZE(uses); i++) {
        PyObject *pair = PyTuple_GET_ITEM(uses, i), *entry, **list;
        long use = PyLong_AsLong(PyTuple_GET_ITEM(pair, 0));
        int failed, is_there = 0;
        if (use < 0 || use >= USES)
            return -1;
        list = &reading->found[use];
        if (*list == NULL && (*list = PyList_New(0)) == NULL)
            return -1;
        if (use == CAUSES) {
            entry = PyTuple_Pack(2, PyTuple_GET_ITEM(pair, 1), key);
            if (entry == NULL)
                return -1;
        } else {
            if (PyList_GET_SIZE(*list) > 0)
                is_there = PySequence_Contains(*list, key);
            if (is_there < 0)
                return -1;
            if (is_there)
                continue;
            entry = Py_NewRef(key);
        }
        failed = PyList_Append(*list, entry);
        Py_DECREF(entry);
        if (failed)
            return -1;
    }
    return 0;
}

/* A plain probe, as `compiled` in app/tracker/links/probes.py makes it. */
typedef struct {
    PyObject *prefix, *conditions, *same_body, *take, *uses;
} Plain;

static int
note_text(Reading *reading, const Plain *plain, const char *text, Py_ssize_t size)
{
    PyObject *key = key_of(plain->prefix, text, size,
                           plain->same_body == Py_True ? reading->body : NULL);
    int failed = key == NULL || note_key(reading, plain->uses, key) < 0;
    Py_XDECREF(key);
    return failed ? -1 : 0;
}

/* What `take` makes of a text; None or nothing says nothing. */
static int
note_taken(Reading *reading, const Plain *plain, PyObject *text)
{
    PyObject *taken = PyObject_CallOneArg(plain->take, text);
    Py_ssize_t size;
    const char *data;
    int failed = taken == NULL;
    if (!failed && taken != Py_None) {
        data = PyUnicode_Check(taken) ? PyUnicode_AsUTF8AndSize(taken, &size) : NULL;
        failed = data == NULL || (size > 0 && note_text(reading, plain, data, size) < 0);
    }
    Py_XDECREF(taken);
    return failed ? -1 : 0;
}

/* Whether a table says something under a name that begins so; what Python takes for false is
 * nothing. */
static int
says(PyObject *table, PyObject *name, PyObject *begins)
{
    PyObject *value = PyDict_GetItemWithError(table, name);
    int is_said;
    if (value == NULL)
        return PyErr_Occurred() ? -1 : 0;
    is_said = PyObject_IsTrue(value);
    if (is_said <= 0 || PyUnicode_GET_LENGTH(begins) == 0)
        return is_said;
    if (!PyUnicode_CheckExact(value))
        return 0;
    return (int)PyUnicode_Tailmatch(value, begins, 0, PY_SSIZE_T_MAX, -1);
}

/* Whether all conditions are met: each ((is of headers, name), …), whether it holds, begins. */
static int
meets(Reading *reading, PyObject *conditions)
{
    Py_ssize_t i, j;
    for (i = 0; i < PyTuple_GET_SIZE(conditions); i++) {
        PyObject *condition = PyTuple_GET_ITEM(conditions, i);
        PyObject *places = PyTuple_GET_ITEM(condition, 0);
        int is_said = 0;
        for (j = 0; !is_said && j < PyTuple_GET_SIZE(places); j++) {
            PyObject *place = PyTuple_GET_ITEM(places, j);
            int is_header = PyTuple_GET_ITEM(place, 0) == Py_True;
            is_said = says(is_header ? reading->headers : reading->properties,
                           PyTuple_GET_ITEM(place, 1), PyTuple_GET_ITEM(condition, 2));
            if (is_said < 0)
                return -1;
        }
        if (is_said != (PyTuple_GET_ITEM(condition, 1) == Py_True))
            return 0;
    }
    return 1;
}

/* The keys that a plain probe makes of a list's texts, which are bytes. */
static int
note_texts(Reading *reading, const Plain *plain, PyObject *texts)
{
    Py_ssize_t i;
    for (i = 0; i < PyList_GET_SIZE(texts); i++) {
        PyObject *text = PyList_GET_ITEM(texts, i);
        const char *data = PyBytes_AsString(text);
        int failed;
        if (data == NULL)
            return -1;
        if (plain->take == Py_None)
            failed = note_text(reading, plain, data, PyBytes_GET_SIZE(text));
        else {
            PyObject *decoded = PyUnicode_DecodeUTF8(data, PyBytes_GET_SIZE(text), "replace");
            failed = decoded == NULL || note_taken(reading, plain, decoded) < 0;
            Py_XDECREF(decoded);
        }
        if (failed)
            return -1;
    }
    return 0;
}

static int
note_other(Reading *reading, PyObject *probe, PyObject *uses)
{
    PyObject *keys = PyObject_CallOneArg(reading->other, probe);
    Py_ssize_t i;
    int failed = keys == NULL || !PyList_Check(keys);
    for (i = 0; !failed && i < PyList_GET_SIZE(keys); i++)
        failed = note_key(reading, uses, PyList_GET_ITEM(keys, i)) < 0;
    Py_XDECREF(keys);
    return failed ? -1 : 0;
}

/* Whether a value is one short text, which is put at `text`; -1 if it cannot be encoded. */
static int
is_short_text(Reading *reading, PyObject *value, const char **text, Py_ssize_t *size)
{
    if (!PyUnicode_CheckExact(value) || PyUnicode_GET_LENGTH(value) > reading->short_text)
        return 0;
    *text = PyUnicode_AsUTF8AndSize(value, size);
    return *text == NULL ? -1 : 1;
}

/* Whether a probe has the parts that it should have. */
static int
is_probe(PyObject *probe)
{
    return PyTuple_Check(probe) && PyTuple_GET_SIZE(probe) == 5 &&
           PyBytes_Check(PyTuple_GET_ITEM(probe, 0)) && PyTuple_Check(PyTuple_GET_ITEM(probe, 1)) &&
           PyTuple_Check(PyTuple_GET_ITEM(probe, 4));
}

static int
is_other(PyObject *probe)
{
    return PyTuple_Check(probe) && PyTuple_GET_SIZE(probe) == 2 &&
           PyTuple_Check(PyTuple_GET_ITEM(probe, 1));
}

/* The keys that the probes of one header or property make of its value. */
static int
note_value(Reading *reading, PyObject *probes, PyObject *value)
{
    const char *text = NULL;
    Py_ssize_t size = 0, i;
    PyObject *texts = NULL;
    int is_short, failed = 0, says_nothing = 0;
    if (value == Py_None)
        return 0;
    if (!PyTuple_Check(probes))
        return -1;
    is_short = is_short_text(reading, value, &text, &size);
    if (is_short < 0)
        return -1;
    if (is_short)
        says_nothing = PySet_Contains(reading->nothing, value);
    for (i = 0; !failed && i < PyTuple_GET_SIZE(probes); i++) {
        PyObject *probe = PyTuple_GET_ITEM(probes, i);
        Plain plain;
        if (is_other(probe)) {
            failed = note_other(reading, PyTuple_GET_ITEM(probe, 0), PyTuple_GET_ITEM(probe, 1));
            continue;
        }
        if (says_nothing || !is_probe(probe)) {
            failed = says_nothing <= 0;
            continue;
        }
        plain.prefix = PyTuple_GET_ITEM(probe, 0);
        plain.conditions = PyTuple_GET_ITEM(probe, 1);
        plain.same_body = PyTuple_GET_ITEM(probe, 2);
        plain.take = PyTuple_GET_ITEM(probe, 3);
        plain.uses = PyTuple_GET_ITEM(probe, 4);
        if (PyTuple_GET_SIZE(plain.conditions) > 0) {
            int meets_all = meets(reading, plain.conditions);
            failed = meets_all < 0;
            if (meets_all <= 0)
                continue;
        }
        if (is_short) {
            failed = plain.take == Py_None ? note_text(reading, &plain, text, size)
                                           : note_taken(reading, &plain, value);
            continue;
        }
        if (texts == NULL)
            texts = PyObject_CallOneArg(reading->values, value);
        failed = texts == NULL || !PyList_Check(texts) || note_texts(reading, &plain, texts) < 0;
    }
    Py_XDECREF(texts);
    return failed ? -1 : 0;
}

/* Goes through a table in its own order; -1, or whether any name in it is looked at. */
static int
note_table(Reading *reading, PyObject *probes, PyObject *table)
{
    PyObject *name, *value;
    Py_ssize_t place = 0;
    int is_any = 0;
    while (PyDict_Next(table, &place, &name, &value)) {
        PyObject *its = PyDict_GetItemWithError(probes, name);
        if (its == NULL) {
            if (PyErr_Occurred())
                return -1;
            continue;
        }
        is_any = 1;
        if (note_value(reading, its, value) < 0)
            return -1;
    }
    return is_any;
}

/* A tuple of what was found; of the causes, which have to be looked at, the list. */
static PyObject *
all_found(Reading *reading)
{
    PyObject *result = PyTuple_New(USES);
    int use;
    for (use = 0; result != NULL && use < USES; use++) {
        PyObject *list = reading->found[use], *part;
        if (use == CAUSES)
            part = list == NULL ? PyList_New(0) : Py_NewRef(list);
        else
            part = list == NULL ? PyTuple_New(0) : PyList_AsTuple(list);
        if (part == NULL)
            Py_CLEAR(result);
        else
            PyTuple_SET_ITEM(result, use, part);
    }
    return result;
}

PyDoc_STRVAR(keys_doc,
             "keys(by_header, by_property, headers, properties, body, nothing, short, values,\n"
             "other): the keys that a message says, a tuple by use, each key once; None if it says\n"
             "none. Causes are a list of (rule's number, key). Probes are tuples, as\n"
             "app.tracker.links.probes makes them.");

static PyObject *
digests_keys(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    Reading reading = {0};
    PyObject *result = NULL;
    int in_headers, in_properties = 0, use;
    if (count != 9 || !PyDict_CheckExact(args[0]) || !PyDict_CheckExact(args[1]) ||
        !PyDict_CheckExact(args[2]) || !PyDict_CheckExact(args[3]) || !PyBytes_CheckExact(args[4]) ||
        !PyAnySet_Check(args[5])) {
        PyErr_SetString(PyExc_TypeError, "keys takes probes, tables, a body and a set");
        return NULL;
    }
    reading.headers = args[2];
    reading.properties = args[3];
    reading.body = args[4];
    reading.nothing = args[5];
    reading.short_text = PyLong_AsSsize_t(args[6]);
    reading.values = args[7];
    reading.other = args[8];
    in_headers = note_table(&reading, args[0], args[2]);
    if (in_headers >= 0)
        in_properties = note_table(&reading, args[1], args[3]);
    if (in_headers >= 0 && in_properties >= 0)
        result = in_headers || in_properties ? all_found(&reading) : Py_NewRef(Py_None);
    for (use = 0; use < USES; use++)
        Py_XDECREF(reading.found[use]);
    if (result == NULL && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "a probe is not what it should be");
    return result;
}

static PyMethodDef methods[] = {
    {"mark", (PyCFunction)(void (*)(void))digests_mark, METH_FASTCALL, mark_doc},
    {"keys", (PyCFunction)(void (*)(void))digests_keys, METH_FASTCALL, keys_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_digests", "What every message is recognised by, compiled.", 0, methods,
};

PyMODINIT_FUNC
PyInit__digests(void)
{
    return PyModuleDef_Init(&definition);
}
