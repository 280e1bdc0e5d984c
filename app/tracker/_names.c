/* What a message's headers and properties say, by probes: the compiled part of
 * app/tracker/links/probes.py. What it promises stands in `_names.pyi`. Digests are BLAKE2b, RFC 7693,
 * of 16 bytes, by its authors' own code (`blake2/`).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <blake2/blake2b-ref.c>

enum { DIGEST = 16 }; /* bytes */
enum { MOST_KEYS = 64 };
/* What a key is for, in the order of the fields of `Names`; a cause has its rule's number with it. */
enum { IDS, CAUSES, CONVERSATIONS, FOUND_BY, CALLED, USES };

/* The parts of a probe and of its conditions: `Compiled` in app/tracker/links/probes.py. Readers
 * are made of probes that were looked at, and keep them. */
enum { PREFIX, CONDITIONS, OF_SAME_BODY, CALL, ITS_USES };
enum { PLACES, HOLDS, BEGINS };
#define PART(tuple, place) PyTuple_GET_ITEM(tuple, place)

/* The words by which messages and rules are asked. */
enum { PROPERTIES, BODY, HEADERS, LOOK_INTO, VALUES_OF, WORDS };
static const char *const SPELLED[WORDS] = {
    "properties", "body", "headers", "look_into", "values_of",
};

typedef struct {
    PyObject_HEAD
    PyObject *by_header, *by_property; /* from names to tuples of probes */
    PyObject *nothing;                 /* texts that say nothing, as a set */
    PyObject *names, *no_names;        /* the class of what is read, and what says nothing */
    PyObject *words[WORDS];
    Py_ssize_t short_text, most_ids, most_keys;
} Reader;

/* Different keys of one use, up to one more than there may be. */
typedef struct {
    Py_ssize_t size;
    PyObject *keys[MOST_KEYS + 1];
} Field;

/* What one call works with. All is borrowed but what is found, and the message looked into. */
typedef struct {
    const Reader *reader;
    PyObject *rules, *record, *properties, *headers, *body; /* headers: NULL without any */
    PyObject *message; /* for probes that are read in Python; NULL before the first */
    Field fields[USES]; /* but causes */
    PyObject *causes;   /* a list of (a rule's number, key); NULL if there is none */
} Reading;

/* The bodies' parts that tell them from others: `ends` in app/tracker/links/probes.py. */
enum { BODY_END = 512 };

static PyObject *
finished(blake2b_state *blake)
{
    PyObject *digest = PyBytes_FromStringAndSize(NULL, DIGEST);
    if (digest != NULL)
        blake2b_final(blake, PyBytes_AS_STRING(digest), DIGEST);
    return digest;
}

static void
update_framed(blake2b_state *blake, const char *data, size_t size)
{
    unsigned char length[4];
    int i;
    for (i = 0; i < 4; i++)
        length[i] = (unsigned char)(size >> 8 * (3 - i));
    blake2b_update(blake, length, 4);
    blake2b_update(blake, data, size);
}

static void
update_ends(blake2b_state *blake, PyObject *body)
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
    blake2b_state blake;
    blake2b_init(&blake, DIGEST);
    blake2b_update(&blake, PyBytes_AS_STRING(prefix), (size_t)PyBytes_GET_SIZE(prefix));
    if (same_body == NULL)
        blake2b_update(&blake, text, (size_t)size);
    else {
        update_framed(&blake, text, (size_t)size);
        update_ends(&blake, same_body);
    }
    return finished(&blake);
}

/* A tuple that can be in no circle, for what it holds, and that the collector need not know. */
static PyObject *
untracked(PyObject *tuple)
{
    if (tuple != NULL && PyTuple_GET_SIZE(tuple) > 0)
        PyObject_GC_UnTrack(tuple);
    return tuple;
}

static int
is_among(const Field *field, PyObject *key)
{
    Py_ssize_t i;
    for (i = 0; i < field->size; i++)
        if (memcmp(PyBytes_AS_STRING(field->keys[i]), PyBytes_AS_STRING(key), DIGEST) == 0)
            return 1;
    return 0;
}

static Py_ssize_t
most_of(const Reader *reader, int use)
{
    return use == IDS ? reader->most_ids : reader->most_keys;
}

/* Of too many keys, one more than there may be is enough to see it. */
static void
note_once(Field *field, Py_ssize_t most, PyObject *key)
{
    if (field->size <= most && !is_among(field, key))
        field->keys[field->size++] = Py_NewRef(key);
}

static int
note_cause(Reading *reading, PyObject *number, PyObject *key)
{
    PyObject *cause = untracked(PyTuple_Pack(2, number, key));
    int failed;
    if (reading->causes == NULL)
        reading->causes = PyList_New(0);
    failed = cause == NULL || reading->causes == NULL || PyList_Append(reading->causes, cause) < 0;
    Py_XDECREF(cause);
    return failed ? -1 : 0;
}

/* Notes a key for each of a probe's uses: causes as often as they are named, all others once. */
static int
note_key(Reading *reading, PyObject *probe, PyObject *key)
{
    PyObject *uses = PART(probe, ITS_USES);
    Py_ssize_t i;
    for (i = 0; i < PyTuple_GET_SIZE(uses); i++) {
        PyObject *pair = PART(uses, i);
        long use = PyLong_AsLong(PART(pair, 0));
        if (use != CAUSES)
            note_once(&reading->fields[use], most_of(reading->reader, use), key);
        else if (note_cause(reading, PART(pair, 1), key) < 0)
            return -1;
    }
    return 0;
}

static int
note_text(Reading *reading, PyObject *probe, const char *text, Py_ssize_t size)
{
    int is_of_same_body = PART(probe, OF_SAME_BODY) == Py_True;
    PyObject *key = key_of(PART(probe, PREFIX), text, size, is_of_same_body ? reading->body : NULL);
    int failed = key == NULL || note_key(reading, probe, key) < 0;
    Py_XDECREF(key);
    return failed ? -1 : 0;
}

/* What a probe takes out of a text; None or nothing says nothing. */
static int
note_taken(Reading *reading, PyObject *probe, PyObject *text)
{
    PyObject *taken = PyObject_CallOneArg(PART(probe, CALL), text);
    Py_ssize_t size;
    const char *data;
    int failed = taken == NULL;
    if (!failed && taken != Py_None) {
        data = PyUnicode_AsUTF8AndSize(taken, &size);
        failed = data == NULL || (size > 0 && note_text(reading, probe, data, size) < 0);
    }
    Py_XDECREF(taken);
    return failed ? -1 : 0;
}

/* Whether a table says something under a name that begins so; what Python takes for false is
 * nothing. */
static int
says(PyObject *table, PyObject *name, PyObject *begins)
{
    PyObject *value = table == NULL ? NULL : PyDict_GetItemWithError(table, name);
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
meets(const Reading *reading, PyObject *conditions)
{
    Py_ssize_t i, j;
    for (i = 0; i < PyTuple_GET_SIZE(conditions); i++) {
        PyObject *condition = PART(conditions, i), *places = PART(condition, PLACES);
        int is_said = 0;
        for (j = 0; !is_said && j < PyTuple_GET_SIZE(places); j++) {
            PyObject *place = PART(places, j);
            is_said = says(PART(place, 0) == Py_True ? reading->headers : reading->properties,
                           PART(place, 1), PART(condition, BEGINS));
            if (is_said < 0)
                return -1;
        }
        if (is_said != (PART(condition, HOLDS) == Py_True))
            return 0;
    }
    return 1;
}

/* The keys that a probe makes of a list's texts, which are bytes. */
static int
note_texts(Reading *reading, PyObject *probe, PyObject *texts)
{
    Py_ssize_t i;
    for (i = 0; i < PyList_GET_SIZE(texts); i++) {
        PyObject *text = PyList_GET_ITEM(texts, i);
        const char *data = PyBytes_AsString(text);
        int failed;
        if (data == NULL)
            return -1;
        if (PART(probe, CALL) == Py_None)
            failed = note_text(reading, probe, data, PyBytes_GET_SIZE(text));
        else {
            PyObject *decoded = PyUnicode_DecodeUTF8(data, PyBytes_GET_SIZE(text), "replace");
            failed = decoded == NULL || note_taken(reading, probe, decoded) < 0;
            Py_XDECREF(decoded);
        }
        if (failed)
            return -1;
    }
    return 0;
}

/* The result if it is a list; else NULL with an error. */
static PyObject *
list_of(PyObject *result)
{
    if (result != NULL && !PyList_Check(result)) {
        PyErr_SetString(PyExc_TypeError, "keys and values come as lists");
        Py_CLEAR(result);
    }
    return result;
}

/* The keys of a probe that Python reads. */
static int
note_other(Reading *reading, PyObject *probe)
{
    PyObject *keys;
    Py_ssize_t i;
    int failed = 0;
    if (reading->message == NULL)
        reading->message = PyObject_CallMethodOneArg(
            reading->rules, reading->reader->words[LOOK_INTO], reading->record);
    if (reading->message == NULL)
        return -1;
    keys = list_of(PyObject_CallOneArg(PART(probe, CALL), reading->message));
    if (keys == NULL)
        return -1;
    for (i = 0; !failed && i < PyList_GET_SIZE(keys); i++) {
        PyObject *key = PyList_GET_ITEM(keys, i);
        if (!PyBytes_CheckExact(key) || PyBytes_GET_SIZE(key) != DIGEST) {
            PyErr_SetString(PyExc_TypeError, "a key is a digest");
            failed = 1;
        } else
            failed = note_key(reading, probe, key) < 0;
    }
    Py_DECREF(keys);
    return failed ? -1 : 0;
}

static PyObject *
values_of(Reading *reading, PyObject *value)
{
    return list_of(
        PyObject_CallMethodOneArg(reading->rules, reading->reader->words[VALUES_OF], value));
}

/* The keys that a probe makes of a value: of its texts, or where there are none of the one that it
 * is, which has this size. */
static int
note_plain(Reading *reading, PyObject *probe, PyObject *texts, PyObject *value, const char *text,
           Py_ssize_t size)
{
    int is_met = meets(reading, PART(probe, CONDITIONS));
    if (is_met <= 0)
        return is_met;
    if (texts != NULL)
        return note_texts(reading, probe, texts);
    if (PART(probe, CALL) == Py_None)
        return note_text(reading, probe, text, size);
    return note_taken(reading, probe, value);
}

/* The keys that the probes of one header or property make of its value. */
static int
note_value(Reading *reading, PyObject *probes, PyObject *value)
{
    const Reader *reader = reading->reader;
    PyObject *texts = NULL;
    const char *text = NULL; /* NULL where the value is odd */
    Py_ssize_t size = 0, i;
    int failed = 0, says_nothing = 0;
    if (PyUnicode_CheckExact(value) && PyUnicode_GET_LENGTH(value) <= reader->short_text) {
        text = PyUnicode_AsUTF8AndSize(value, &size);
        if (text == NULL) /* half a character */
            PyErr_Clear();
        else if ((says_nothing = PySet_Contains(reader->nothing, value)) < 0)
            return -1;
    }
    for (i = 0; !failed && i < PyTuple_GET_SIZE(probes); i++) {
        PyObject *probe = PART(probes, i);
        if (PART(probe, PREFIX) == Py_None)
            failed = note_other(reading, probe) < 0;
        else if (text == NULL && texts == NULL && (texts = values_of(reading, value)) == NULL)
            failed = 1;
        else if (!says_nothing)
            failed = note_plain(reading, probe, texts, value, text, size) < 0;
    }
    Py_XDECREF(texts);
    return failed ? -1 : 0;
}

/* Notes what a table says, in its order. */
static int
note_table(Reading *reading, PyObject *by_name, PyObject *table)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(table, &at, &name, &value)) {
        PyObject *probes = PyDict_GetItemWithError(by_name, name);
        if (probes == NULL ? PyErr_Occurred() != NULL
                           : value != Py_None && note_value(reading, probes, value) < 0)
            return -1;
    }
    return 0;
}

static PyObject *
tuple_of(const Field *field)
{
    PyObject *tuple = PyTuple_New(field->size);
    Py_ssize_t i;
    for (i = 0; tuple != NULL && i < field->size; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(field->keys[i]));
    return untracked(tuple);
}

/* Whether rules have to decide: there are too many keys, or causes that may not be meant. */
static int
is_open(const Reading *reading)
{
    int use;
    for (use = 0; use < USES; use++)
        if (use != CAUSES && reading->fields[use].size > most_of(reading->reader, use))
            return 1;
    return reading->causes != NULL
           && (PyList_GET_SIZE(reading->causes) > 1
               || is_among(&reading->fields[IDS], PART(PyList_GET_ITEM(reading->causes, 0), 1)));
}

/* The names, or a tuple of their fields where rules have to decide. */
static PyObject *
all_found(const Reading *reading)
{
    PyObject *fields[USES], *result = NULL;
    int made = 0, is_anything = 0, i;
    while (made < USES) {
        if (made == CAUSES)
            fields[made] = reading->causes == NULL ? PyTuple_New(0)
                                                   : untracked(PyList_AsTuple(reading->causes));
        else
            fields[made] = tuple_of(&reading->fields[made]);
        if (fields[made] == NULL)
            break;
        is_anything |= PyTuple_GET_SIZE(fields[made++]) > 0;
    }
    if (made == USES && !is_anything)
        result = Py_NewRef(reading->reader->no_names);
    else if (made == USES && is_open(reading))
        result = PyTuple_Pack(USES, fields[0], fields[1], fields[2], fields[3], fields[4]);
    else if (made == USES)
        result = PyObject_Vectorcall(reading->reader->names, fields, USES, NULL);
    for (i = 0; i < made; i++)
        Py_DECREF(fields[i]);
    return result;
}

static PyObject *
headers_of(const Reader *reader, PyObject *properties)
{
    PyObject *headers = PyDict_GetItemWithError(properties, reader->words[HEADERS]);
    return headers != NULL && PyDict_CheckExact(headers) && PyDict_GET_SIZE(headers) > 0 ? headers
                                                                                          : NULL;
}

/* What a record of these properties and this body says. */
static PyObject *
names_of(const Reader *reader, PyObject *record, PyObject *properties, PyObject *body,
         PyObject *rules)
{
    Reading reading;
    PyObject *result = NULL;
    int use;
    reading.reader = reader;
    reading.record = record;
    reading.rules = rules;
    reading.properties = properties;
    reading.headers = headers_of(reader, properties);
    reading.body = body;
    reading.message = reading.causes = NULL;
    for (use = 0; use < USES; use++)
        reading.fields[use].size = 0;
    if (!PyErr_Occurred()
        && (reading.headers == NULL
            || note_table(&reading, reader->by_header, reading.headers) == 0)
        && note_table(&reading, reader->by_property, properties) == 0)
        result = all_found(&reading);
    for (use = 0; use < USES; use++)
        while (reading.fields[use].size > 0)
            Py_DECREF(reading.fields[use].keys[--reading.fields[use].size]);
    Py_XDECREF(reading.causes);
    Py_XDECREF(reading.message);
    return result;
}

static PyObject *
reader_read(Reader *reader, PyObject *const *args, Py_ssize_t count)
{
    PyObject *properties, *body, *result = NULL;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "read takes a record and rules");
        return NULL;
    }
    properties = PyObject_GetAttr(args[0], reader->words[PROPERTIES]);
    body = properties == NULL ? NULL : PyObject_GetAttr(args[0], reader->words[BODY]);
    if (body != NULL && PyDict_CheckExact(properties) && PyBytes_CheckExact(body))
        result = names_of(reader, args[0], properties, body, args[1]);
    else if (body != NULL)
        PyErr_SetString(PyExc_TypeError, "properties are a dict, and a body is bytes");
    Py_XDECREF(properties);
    Py_XDECREF(body);
    return result;
}

/* Whether neither the broker nor a stream changes anything in a table, as far as its look tells: no
 * name is telling, and nothing consists of several but the headers among the properties. */
static int
is_steady(PyObject *table, PyObject *telling, int is_properties)
{
    static const char UUID[] = "urn:uuid:"; /* which streams write in small letters */
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(table, &at, &name, &value)) {
        if (PySet_Contains(telling, name) != 0 || PyList_Check(value))
            return 0;
        if (PyDict_Check(value)) { /* an empty one is as none */
            if (!is_properties || PyDict_GET_SIZE(value) == 0 || !is_steady(value, telling, 0))
                return 0;
        } else if (is_properties && PyUnicode_Check(value)) {
            const char *text = PyUnicode_AsUTF8(value);
            if (text == NULL || strncmp(text, UUID, sizeof UUID - 1) == 0)
                return 0;
        }
    }
    return 1;
}

static PyObject *
names_mark(PyObject *module, PyObject *args)
{
    PyObject *head, *body, *properties, *telling;
    blake2b_state blake;
    if (!PyArg_ParseTuple(args, "SSO!O!", &head, &body, &PyDict_Type, &properties,
                          &PyFrozenSet_Type, &telling))
        return NULL;
    if (!is_steady(properties, telling, 1)) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    blake2b_init(&blake, DIGEST);
    blake2b_update(&blake, PyBytes_AS_STRING(head), (size_t)PyBytes_GET_SIZE(head));
    blake2b_update(&blake, PyBytes_AS_STRING(body), (size_t)PyBytes_GET_SIZE(body));
    return finished(&blake);
}

/* Making a reader */

/* Whether all in a tuple are tuples of such parts; else with an error. */
static int
are_all(PyObject *tuple, int (*is_one)(PyObject *))
{
    Py_ssize_t i;
    for (i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        if (!PyTuple_Check(PART(tuple, i)))
            PyErr_SetString(PyExc_TypeError, "a probe consists of tuples");
        if (PyErr_Occurred() || !is_one(PART(tuple, i)))
            return 0;
    }
    return 1;
}

static int
is_use(PyObject *use)
{
    PyObject *number;
    int of;
    if (!PyArg_ParseTuple(use, "iO", &of, &number))
        return 0;
    if (of < 0 || of >= USES)
        PyErr_SetString(PyExc_TypeError, "there is no such use");
    return !PyErr_Occurred();
}

static int
is_place(PyObject *place)
{
    PyObject *is_header, *name;
    return PyArg_ParseTuple(place, "O!U", &PyBool_Type, &is_header, &name);
}

static int
is_condition(PyObject *condition)
{
    PyObject *places, *holds, *begins;
    return PyArg_ParseTuple(condition, "O!O!U", &PyTuple_Type, &places, &PyBool_Type, &holds,
                            &begins)
           && are_all(places, is_place);
}

static int
is_probe(PyObject *probe)
{
    PyObject *prefix, *conditions, *is_of_same_body, *call, *uses;
    if (!PyArg_ParseTuple(probe, "OO!O!OO!", &prefix, &PyTuple_Type, &conditions, &PyBool_Type,
                          &is_of_same_body, &call, &PyTuple_Type, &uses))
        return 0;
    if (prefix != Py_None && !PyBytes_Check(prefix))
        PyErr_SetString(PyExc_TypeError, "a probe's digests begin with bytes");
    return !PyErr_Occurred() && are_all(conditions, is_condition) && are_all(uses, is_use);
}

/* A table from names to tuples of probes, which nobody else can change; NULL with an error. */
static PyObject *
table_of(PyObject *given)
{
    PyObject *table = PyDict_Copy(given), *name, *probes;
    Py_ssize_t at = 0;
    while (table != NULL && PyDict_Next(table, &at, &name, &probes)) {
        if (!PyTuple_Check(probes))
            PyErr_SetString(PyExc_TypeError, "probes are a tuple");
        if (PyErr_Occurred() || !are_all(probes, is_probe))
            Py_CLEAR(table);
    }
    return table;
}

static int
spell_words(Reader *reader)
{
    int i;
    for (i = 0; i < WORDS; i++)
        if ((reader->words[i] = PyUnicode_InternFromString(SPELLED[i])) == NULL)
            return -1;
    return 0;
}

static PyObject *
reader_new(PyTypeObject *type, PyObject *args, PyObject *unused)
{
    PyObject *headers, *properties, *nothing, *names, *no_names;
    Py_ssize_t short_text, most_ids, most_keys;
    Reader *reader;
    if (!PyArg_ParseTuple(args, "O!O!O!nOOnn", &PyDict_Type, &headers, &PyDict_Type, &properties,
                          &PyFrozenSet_Type, &nothing, &short_text, &names, &no_names, &most_ids,
                          &most_keys))
        return NULL;
    if (most_ids < 0 || most_ids > MOST_KEYS || most_keys < 0 || most_keys > MOST_KEYS) {
        PyErr_SetString(PyExc_ValueError, "there is no room for that many keys");
        return NULL;
    }
    reader = (Reader *)type->tp_alloc(type, 0);
    if (reader == NULL)
        return NULL;
    reader->nothing = Py_NewRef(nothing);
    reader->names = Py_NewRef(names);
    reader->no_names = Py_NewRef(no_names);
    reader->short_text = short_text;
    reader->most_ids = most_ids;
    reader->most_keys = most_keys;
    if ((reader->by_header = table_of(headers)) == NULL
        || (reader->by_property = table_of(properties)) == NULL || spell_words(reader) < 0)
        Py_CLEAR(reader);
    return (PyObject *)reader;
}

static void
reader_dealloc(Reader *reader)
{
    PyTypeObject *type = Py_TYPE(reader);
    int i;
    Py_XDECREF(reader->by_header);
    Py_XDECREF(reader->by_property);
    Py_XDECREF(reader->nothing);
    Py_XDECREF(reader->names);
    Py_XDECREF(reader->no_names);
    for (i = 0; i < WORDS; i++)
        Py_XDECREF(reader->words[i]);
    type->tp_free(reader);
    Py_DECREF(type);
}

static PyMethodDef reader_methods[] = {
    {"read", (PyCFunction)(void (*)(void))reader_read, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_new, reader_new},
    {Py_tp_methods, reader_methods},
    {Py_tp_dealloc, reader_dealloc},
    {0, NULL},
};

static PyType_Spec reader_spec = {
    "app.tracker._names.Reader", sizeof(Reader), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    reader_slots,
};

static int
add_types(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &reader_spec, NULL);
    int failed = type == NULL || PyModule_AddObjectRef(module, "Reader", type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyMethodDef methods[] = {
    {"mark", names_mark, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_types},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_names", "What a message's headers and properties say, compiled.", 0,
    methods, slots,
};

PyMODINIT_FUNC
PyInit__names(void)
{
    return PyModuleDef_Init(&definition);
}
