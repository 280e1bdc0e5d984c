/* What every message is recognised by, compiled: the fingerprint of an ordinary one, with the same
 * bytes as in app/tracker/fingerprint.py; and what its headers and properties say (`_keys.h`). What
 * it promises stands in `_digests.pyi`.
 *
 * Whatever is unusual is left to the Python code, by None in place of a fingerprint. Digests are
 * BLAKE2b, RFC 7693, of 16 bytes, by its authors' own code (`blake2/`); values are written as
 * msgspec writes MessagePack with sorted keys.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#include <blake2/blake2b-ref.c>
#include "_keys.h"

enum { DEEPEST = 16, MOST_PAIRS = 64 };

/* MessagePack, into a digest. What returns an int: 0, or -1 for what is left to Python; then an
 * exception may be set, and is to be cleared. */

static inline void
put_number(blake2b_state *blake, unsigned char code, uint64_t value, int size)
{
    unsigned char bytes[9];
    int i;
    bytes[0] = code;
    for (i = size; i > 0; i--, value >>= 8)
        bytes[i] = (unsigned char)value;
    blake2b_update(blake, bytes, (size_t)size + 1);
}

/* A length: of so few that they are in the code itself, or behind the code for one, two, four bytes
 * (0: there is none for one). */
static int
put_length(blake2b_state *blake, Py_ssize_t length, unsigned char fixed, int few, unsigned char one,
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
put_text(blake2b_state *blake, const char *text, Py_ssize_t size)
{
    if (put_length(blake, size, 0xa0, 32, 0xd9, 0xda) < 0)
        return -1;
    blake2b_update(blake, text, (size_t)size);
    return 0;
}

static int
put_string(blake2b_state *blake, PyObject *string)
{
    Py_ssize_t size;
    const char *text;
    if (!PyUnicode_CheckExact(string) || (text = PyUnicode_AsUTF8AndSize(string, &size)) == NULL)
        return -1;
    return put_text(blake, text, size);
}

static int
put_integer(blake2b_state *blake, PyObject *number)
{
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow || (value == -1 && PyErr_Occurred()))
        return -1;
    if (value >= -32 && value < 128)
        put_number(blake, (unsigned char)value, 0, 0);
    else {
        uint64_t needs = value < 0 ? ~(uint64_t)value << 1 : (uint64_t)value; /* with a sign's bit */
        unsigned char code = value < 0 ? 0xd0 : 0xcc;
        int size = 1;
        for (; size < 8 && needs >> (8 * size); size *= 2)
            code++;
        put_number(blake, code, (uint64_t)value, size);
    }
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

static int put_value(blake2b_state *blake, PyObject *value, int depth);

static int
put_pairs(blake2b_state *blake, const Pair *pairs, Py_ssize_t count, int depth)
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
put_table(blake2b_state *blake, PyObject *table, int depth)
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
put_value(blake2b_state *blake, PyObject *value, int depth)
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
put_properties(blake2b_state *blake, PyObject *properties, PyObject *special, int is_publish,
               int is_of_mqtt)
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

static PyObject *
digests_mark(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    blake2b_state blake;
    if (count != 7 || !PyDict_CheckExact(args[2]) || !PyBytes_CheckExact(args[3]) ||
        !PyAnySet_Check(args[4]))
        Py_RETURN_NONE;
    blake2b_init(&blake, DIGEST);
    blake2b_update(&blake, "\x94", 1); /* four values */
    if (put_string(&blake, args[0]) < 0 || put_string(&blake, args[1]) < 0)
        return left_to_python();
    blake2b_update(&blake, "\x90", 1); /* no deaths */
    if (put_properties(&blake, args[2], args[4], args[5] == Py_True, args[6] == Py_True) < 0)
        return left_to_python();
    blake2b_update(&blake, PyBytes_AS_STRING(args[3]), (size_t)PyBytes_GET_SIZE(args[3]));
    return finished(&blake);
}

static PyMethodDef methods[] = {
    {"mark", (PyCFunction)(void (*)(void))digests_mark, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static int
add_types(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &reader_spec, NULL);
    int failed = type == NULL || PyModule_AddObjectRef(module, "Reader", type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_types},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_digests", "What every message is recognised by, compiled.", 0, methods,
    slots,
};

PyMODINIT_FUNC
PyInit__digests(void)
{
    return PyModuleDef_Init(&definition);
}
