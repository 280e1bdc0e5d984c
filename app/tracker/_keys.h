/* What a message says, read with probes that were taken apart once: the compiled part of
 * app/tracker/links/rules.py and probes.py, which are the reference. Included by `_digests.c`,
 * behind `blake2/blake2b-ref.c`.
 *
 * What is unusual is left to the Python code: None in place of a result.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

enum { DIGEST = 16 }; /* bytes */
enum { IDS, CONVERSATIONS, FOUND_BY, CAUSES, CALLED, USES };
enum { MOST_KEYS = 64, MOST_MATCHES = 64 };

/* What a key is for; a cause has its rule's number with it. */
typedef struct {
    int use;
    PyObject *number;
} Use;

/* A probe, taken apart once; objects are those of the tuples that app/tracker/links/probes.py makes
 * of it, which the reader keeps. */
typedef struct {
    PyObject *other; /* what reads it in Python, if it is not plain; then the next four are not set */
    PyObject *prefix, *conditions;
    PyObject *take; /* NULL if the whole text counts */
    int is_of_same_body;
    const Use *uses;
    Py_ssize_t use_count;
} Probe;

/* The probes that one header or property triggers. */
typedef struct {
    const Probe *probes;
    Py_ssize_t count;
    int is_mixed; /* some plain ones are read in Python, which says alike only of ordinary texts */
} Group;

/* The words by which messages and rules are asked. */
enum { PROPERTIES, BODY, HEADERS, TYPE, CONTENT_TYPE, LOOK_INTO, VALUES_OF, SPOKEN, WORDS };
static const char *const SPELLED[WORDS] = {
    "properties", "body", "headers", "type", "content_type", "look_into", "values_of", "spoken",
};

typedef struct {
    PyObject_HEAD
    PyObject *by_header, *by_property; /* from names to tuples of probes, as they were given */
    PyObject *header_groups, *property_groups; /* from names to places among the groups */
    PyObject *by_content_type; /* how bodies begin that are looked into; None if none are */
    PyObject *nothing;         /* texts that say nothing, as a set */
    PyObject *names, *no_names; /* the class of what is read, and what says nothing */
    PyObject *readable, *amqp_1_0; /* what makes an AMQP 1.0 value readable, and how it is known */
    PyObject *words[WORDS];
    Py_ssize_t short_text, most_ids, most_keys;
    Group *groups;
    Probe *probes;
    Use *uses;
} Reader;

/* A looked-at value, which is one short text or is odd. */
typedef struct {
    const Group *group;
    PyObject *value;
    const char *text; /* NULL if it is odd */
    Py_ssize_t size;
} Match;

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
    Match matches[MOST_MATCHES];
    Py_ssize_t match_count;
    Field fields[USES]; /* but causes */
    PyObject *cause;    /* (a rule's number, key); NULL if there is none */
    PyObject *causes;   /* a list of all if there are several */
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
is_same_digest(PyObject *a, PyObject *b)
{
    return memcmp(PyBytes_AS_STRING(a), PyBytes_AS_STRING(b), DIGEST) == 0;
}

static int
is_among(const Field *field, PyObject *key)
{
    Py_ssize_t i;
    for (i = 0; i < field->size; i++)
        if (is_same_digest(field->keys[i], key))
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
    if (cause == NULL)
        return -1;
    if (reading->cause == NULL) {
        reading->cause = cause;
        return 0;
    }
    if (reading->causes == NULL) {
        reading->causes = PyList_New(1);
        if (reading->causes != NULL)
            PyList_SET_ITEM(reading->causes, 0, Py_NewRef(reading->cause));
    }
    failed = reading->causes == NULL || PyList_Append(reading->causes, cause) < 0;
    Py_DECREF(cause);
    return failed ? -1 : 0;
}

/* Notes a key for each of a probe's uses: causes as often as they are named, all others once. */
static int
note_key(Reading *reading, const Probe *probe, PyObject *key)
{
    Py_ssize_t i;
    for (i = 0; i < probe->use_count; i++) {
        int use = probe->uses[i].use;
        if (use != CAUSES)
            note_once(&reading->fields[use], most_of(reading->reader, use), key);
        else if (note_cause(reading, probe->uses[i].number, key) < 0)
            return -1;
    }
    return 0;
}

static int
note_text(Reading *reading, const Probe *probe, const char *text, Py_ssize_t size)
{
    PyObject *key = key_of(probe->prefix, text, size, probe->is_of_same_body ? reading->body : NULL);
    int failed = key == NULL || note_key(reading, probe, key) < 0;
    Py_XDECREF(key);
    return failed ? -1 : 0;
}

/* What `take` makes of a text; None or nothing says nothing. */
static int
note_taken(Reading *reading, const Probe *probe, PyObject *text)
{
    PyObject *taken = PyObject_CallOneArg(probe->take, text);
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
note_texts(Reading *reading, const Probe *probe, PyObject *texts)
{
    Py_ssize_t i;
    for (i = 0; i < PyList_GET_SIZE(texts); i++) {
        PyObject *text = PyList_GET_ITEM(texts, i);
        const char *data = PyBytes_AsString(text);
        int failed;
        if (data == NULL)
            return -1;
        if (probe->take == NULL)
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
note_other(Reading *reading, const Probe *probe)
{
    PyObject *const *words = reading->reader->words, *keys;
    Py_ssize_t i;
    int failed = 0;
    if (reading->message == NULL)
        reading->message = PyObject_CallMethodOneArg(reading->rules, words[LOOK_INTO],
                                                     reading->record);
    if (reading->message == NULL)
        return -1;
    keys = list_of(PyObject_CallMethodOneArg(probe->other, words[SPOKEN], reading->message));
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

/* The keys that a plain probe makes of an odd value. `texts` are for all that take the whole text:
 * what is refused is counted once for these, and once for each of the others. */
static int
note_odd(Reading *reading, const Probe *probe, PyObject *value, PyObject **texts)
{
    PyObject *own = NULL;
    int is_met, failed;
    if (probe->take == NULL && *texts == NULL && (*texts = values_of(reading, value)) == NULL)
        return -1;
    is_met = meets(reading, probe->conditions);
    if (is_met <= 0)
        return is_met;
    if (probe->take == NULL)
        return note_texts(reading, probe, *texts);
    own = values_of(reading, value);
    failed = own == NULL || note_texts(reading, probe, own) < 0;
    Py_XDECREF(own);
    return failed ? -1 : 0;
}

/* The keys that a plain probe makes of one short text. */
static int
note_short(Reading *reading, const Probe *probe, const Match *match)
{
    int is_met = meets(reading, probe->conditions);
    if (is_met <= 0)
        return is_met;
    if (probe->take == NULL)
        return note_text(reading, probe, match->text, match->size);
    return note_taken(reading, probe, match->value);
}

/* The keys that the probes of one header or property make of its value. */
static int
note_match(Reading *reading, const Match *match)
{
    PyObject *texts = NULL;
    Py_ssize_t i;
    int failed = 0, says_nothing = 0;
    if (match->text != NULL) {
        says_nothing = PySet_Contains(reading->reader->nothing, match->value);
        if (says_nothing < 0)
            return -1;
    }
    for (i = 0; !failed && i < match->group->count; i++) {
        const Probe *probe = &match->group->probes[i];
        if (probe->other != NULL)
            failed = note_other(reading, probe) < 0;
        else if (match->text == NULL)
            failed = note_odd(reading, probe, match->value, &texts) < 0;
        else if (!says_nothing)
            failed = note_short(reading, probe, match) < 0;
    }
    Py_XDECREF(texts);
    return failed ? -1 : 0;
}

/* Whether what is to be done can be done here; -1 with an error. */
enum { LEFT_TO_PYTHON, TO_DO };

/* Finds out whether a value is a short text. */
static int
look_at(const Reader *reader, Match *match)
{
    match->text = NULL;
    if (PyUnicode_CheckExact(match->value)
        && PyUnicode_GET_LENGTH(match->value) <= reader->short_text) {
        match->text = PyUnicode_AsUTF8AndSize(match->value, &match->size);
        if (match->text == NULL) { /* half a character */
            PyErr_Clear();
            return LEFT_TO_PYTHON;
        }
    }
    if (match->group->is_mixed) {
        int is_nothing = match->text == NULL || PySet_Contains(reader->nothing, match->value);
        return is_nothing < 0 ? -1 : is_nothing ? LEFT_TO_PYTHON : TO_DO;
    }
    return TO_DO;
}

/* Finds what is looked at in a table, in its order. Nothing is noted yet, so that all can be left
 * to Python still. */
static int
find_matches(Reading *reading, PyObject *places, PyObject *table)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    int can = TO_DO;
    while (can == TO_DO && PyDict_Next(table, &at, &name, &value)) {
        PyObject *place = PyDict_GetItemWithError(places, name);
        if (place == NULL && PyErr_Occurred())
            return -1;
        if (place == NULL || value == Py_None)
            continue;
        if (reading->match_count == MOST_MATCHES)
            return LEFT_TO_PYTHON;
        Match *match = &reading->matches[reading->match_count++];
        match->group = &reading->reader->groups[PyLong_AsSsize_t(place)];
        match->value = value;
        can = look_at(reading->reader, match);
    }
    return can;
}

/* Whether a body begins with one of these; -1 with an error. */
static int
begins_with(PyObject *body, PyObject *begins)
{
    Py_ssize_t i;
    for (i = 0; PyTuple_Check(begins) && i < PyTuple_GET_SIZE(begins); i++) {
        PyObject *begin = PyTuple_GET_ITEM(begins, i);
        char *text;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(begin, &text, &size) < 0)
            return -1;
        if (size <= PyBytes_GET_SIZE(body) && memcmp(PyBytes_AS_STRING(body), text, size) == 0)
            return 1;
    }
    return 0;
}

/* Whether the body is to be looked into: it begins like those of its type that are. */
static int
is_looked_into(const Reading *reading)
{
    const Reader *reader = reading->reader;
    PyObject *type = PyDict_GetItemWithError(reading->properties, reader->words[CONTENT_TYPE]);
    PyObject *known;
    int is_so = -1;
    if (type == NULL && PyErr_Occurred())
        return -1;
    if (type == NULL || !PyUnicode_CheckExact(type)) /* a forged message's may be anything */
        type = Py_None;
    known = PyObject_GetItem(reader->by_content_type, type); /* which remembers what it finds */
    if (known == NULL)
        return -1;
    if (PyTuple_Check(known) && PyTuple_GET_SIZE(known) > 0)
        is_so = begins_with(reading->body, PyTuple_GET_ITEM(known, 0));
    else
        PyErr_SetString(PyExc_TypeError, "a type has a tuple of beginnings");
    Py_DECREF(known);
    return is_so;
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

/* Whether Python has to decide: there are too many keys, or causes that may not be meant. */
static int
is_open(const Reading *reading)
{
    int use;
    for (use = 0; use < USES; use++)
        if (use != CAUSES && reading->fields[use].size > most_of(reading->reader, use))
            return 1;
    return reading->causes != NULL
           || (reading->cause != NULL
               && is_among(&reading->fields[IDS], PyTuple_GET_ITEM(reading->cause, 1)));
}

/* The one cause as a tuple of causes, or all of them as a list, for Python to decide. */
static PyObject *
all_causes(const Reading *reading, int is_for_python)
{
    PyObject *causes;
    if (reading->causes != NULL)
        return Py_NewRef(reading->causes);
    if (is_for_python) {
        causes = PyList_New(reading->cause != NULL);
        if (causes != NULL && reading->cause != NULL)
            PyList_SET_ITEM(causes, 0, Py_NewRef(reading->cause));
        return causes;
    }
    return reading->cause == NULL ? PyTuple_New(0) : untracked(PyTuple_Pack(1, reading->cause));
}

/* The names, or a tuple of their fields where Python has to decide. */
static PyObject *
all_found(const Reading *reading)
{
    static const int ORDER[USES] = {IDS, CAUSES, CONVERSATIONS, FOUND_BY, CALLED};
    PyObject *fields[USES], *result = NULL;
    int is_for_python = is_open(reading), made = 0, i;
    while (made < USES) {
        fields[made] = ORDER[made] == CAUSES ? all_causes(reading, is_for_python)
                                             : tuple_of(&reading->fields[ORDER[made]]);
        if (fields[made] == NULL)
            break;
        made++;
    }
    if (made == USES && is_for_python)
        result = PyTuple_Pack(USES, fields[0], fields[1], fields[2], fields[3], fields[4]);
    else if (made == USES)
        result = PyObject_Vectorcall(reading->reader->names, fields, USES, NULL);
    for (i = 0; i < made; i++)
        Py_DECREF(fields[i]);
    return result;
}

static int
says_anything(const Reading *reading)
{
    int use;
    for (use = 0; use < USES; use++)
        if (use != CAUSES && reading->fields[use].size > 0)
            return 1;
    return reading->cause != NULL;
}

/* What a message of these properties and this body says; None if that is left to Python. */
static PyObject *
names_of(Reading *reading)
{
    const Reader *reader = reading->reader;
    PyObject *result = NULL;
    Py_ssize_t i;
    int use, can, failed = 0;
    if (reader->by_content_type != Py_None && PyBytes_GET_SIZE(reading->body) > 0) {
        int is_so = is_looked_into(reading);
        if (is_so != 0)
            return is_so < 0 ? NULL : Py_NewRef(Py_None);
    }
    can = reading->headers == NULL ? TO_DO
                                   : find_matches(reading, reader->header_groups, reading->headers);
    if (can == TO_DO)
        can = find_matches(reading, reader->property_groups, reading->properties);
    if (can != TO_DO)
        return can == LEFT_TO_PYTHON ? Py_NewRef(Py_None) : NULL;
    if (reading->match_count == 0)
        return Py_NewRef(reader->no_names);
    for (i = 0; !failed && i < reading->match_count; i++)
        failed = note_match(reading, &reading->matches[i]) < 0;
    if (!failed)
        result = says_anything(reading) ? all_found(reading) : Py_NewRef(reader->no_names);
    for (use = 0; use < USES; use++)
        while (reading->fields[use].size > 0)
            Py_DECREF(reading->fields[use].keys[--reading->fields[use].size]);
    Py_XDECREF(reading->cause);
    Py_XDECREF(reading->causes);
    Py_XDECREF(reading->message);
    return result;
}

static PyObject *
headers_of(const Reader *reader, PyObject *properties)
{
    PyObject *headers = PyDict_GetItemWithError(properties, reader->words[HEADERS]);
    return headers != NULL && PyDict_CheckExact(headers) && PyDict_GET_SIZE(headers) > 0 ? headers
                                                                                          : NULL;
}

/* Whether properties are those of an AMQP 1.0 value, whose body is to be made readable first. */
static int
is_amqp_1_0(const Reader *reader, PyObject *properties)
{
    PyObject *type = PyDict_GetItemWithError(properties, reader->words[TYPE]);
    if (type == NULL)
        return PyErr_Occurred() ? -1 : 0;
    return PyUnicode_CheckExact(type) && PyUnicode_Compare(type, reader->amqp_1_0) == 0;
}

/* What a record of these properties says. */
static PyObject *
read_record(const Reader *reader, PyObject *record, PyObject *properties, PyObject *rules)
{
    Reading reading;
    PyObject *result = NULL;
    int use;
    reading.reader = reader;
    reading.record = record;
    reading.rules = rules;
    reading.properties = properties;
    reading.headers = headers_of(reader, properties);
    reading.message = reading.cause = reading.causes = NULL;
    reading.match_count = 0;
    for (use = 0; use < USES; use++)
        reading.fields[use].size = 0;
    reading.body = PyErr_Occurred() ? NULL : PyObject_GetAttr(record, reader->words[BODY]);
    if (reading.body != NULL)
        result = PyBytes_CheckExact(reading.body) ? names_of(&reading) : Py_NewRef(Py_None);
    Py_XDECREF(reading.body);
    return result;
}

PyDoc_STRVAR(read_doc,
             "read(record, rules): the names that a record says; a tuple of their fields, with the\n"
             "causes as a list, where rules have to decide; None where Python has to read it.");

static PyObject *
reader_read(Reader *reader, PyObject *const *args, Py_ssize_t count)
{
    PyObject *record, *properties, *result = NULL;
    int is_of_1_0;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "read takes a record and rules");
        return NULL;
    }
    properties = PyObject_GetAttr(args[0], reader->words[PROPERTIES]);
    if (properties == NULL)
        return NULL;
    if (!PyDict_CheckExact(properties)) {
        Py_DECREF(properties);
        Py_RETURN_NONE;
    }
    is_of_1_0 = is_amqp_1_0(reader, properties);
    if (is_of_1_0 == 0)
        result = read_record(reader, args[0], properties, args[1]);
    else if (is_of_1_0 > 0 && (record = PyObject_CallOneArg(reader->readable, args[0])) != NULL) {
        result = read_record(reader, record, properties, args[1]);
        Py_DECREF(record);
    }
    Py_DECREF(properties);
    return result;
}

/* Making a reader */

static int
is_uses(PyObject *uses)
{
    Py_ssize_t i;
    if (!PyTuple_Check(uses))
        return 0;
    for (i = 0; i < PyTuple_GET_SIZE(uses); i++) {
        PyObject *pair = PyTuple_GET_ITEM(uses, i);
        long use = PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2
                           && PyLong_Check(PyTuple_GET_ITEM(pair, 0))
                       ? PyLong_AsLong(PyTuple_GET_ITEM(pair, 0))
                       : -1;
        if (use < 0 || use >= USES) {
            PyErr_Clear();
            return 0;
        }
    }
    return 1;
}

static int
is_condition(PyObject *condition)
{
    PyObject *places;
    Py_ssize_t i;
    if (!PyTuple_Check(condition) || PyTuple_GET_SIZE(condition) != 3
        || !PyUnicode_Check(PyTuple_GET_ITEM(condition, 2)))
        return 0;
    places = PyTuple_GET_ITEM(condition, 0);
    for (i = 0; PyTuple_Check(places) && i < PyTuple_GET_SIZE(places); i++) {
        PyObject *place = PyTuple_GET_ITEM(places, i);
        if (!PyTuple_Check(place) || PyTuple_GET_SIZE(place) != 2)
            return 0;
    }
    return PyTuple_Check(places);
}

static int
is_conditions(PyObject *conditions)
{
    Py_ssize_t i;
    for (i = 0; PyTuple_Check(conditions) && i < PyTuple_GET_SIZE(conditions); i++)
        if (!is_condition(PyTuple_GET_ITEM(conditions, i)))
            return 0;
    return PyTuple_Check(conditions);
}

/* Takes a probe's tuple apart, (prefix, conditions, same body, take, uses) or (probe, uses, whether
 * it is plain); returns how many uses it has, -1 if it is no probe. */
static Py_ssize_t
take_apart(PyObject *tuple, Probe *probe, Use *uses)
{
    Py_ssize_t size = PyTuple_Check(tuple) ? PyTuple_GET_SIZE(tuple) : 0, i;
    PyObject *pairs = size == 5 ? PyTuple_GET_ITEM(tuple, 4) : size == 3 ? PyTuple_GET_ITEM(tuple, 1)
                                                                         : NULL;
    if (pairs == NULL || !is_uses(pairs))
        return -1;
    memset(probe, 0, sizeof *probe);
    if (size == 3)
        probe->other = PyTuple_GET_ITEM(tuple, 0);
    else {
        probe->prefix = PyTuple_GET_ITEM(tuple, 0);
        probe->conditions = PyTuple_GET_ITEM(tuple, 1);
        probe->is_of_same_body = PyTuple_GET_ITEM(tuple, 2) == Py_True;
        if (PyTuple_GET_ITEM(tuple, 3) != Py_None)
            probe->take = PyTuple_GET_ITEM(tuple, 3);
        if (!PyBytes_Check(probe->prefix) || !is_conditions(probe->conditions))
            return -1;
    }
    probe->uses = uses;
    probe->use_count = PyTuple_GET_SIZE(pairs);
    for (i = 0; uses != NULL && i < probe->use_count; i++) {
        uses[i].use = (int)PyLong_AsLong(PyTuple_GET_ITEM(PyTuple_GET_ITEM(pairs, i), 0));
        uses[i].number = PyTuple_GET_ITEM(PyTuple_GET_ITEM(pairs, i), 1);
    }
    return probe->use_count;
}

/* How many probes and uses there are in a table of tuples of probes; -1 with an error. */
static int
count_probes(PyObject *table, Py_ssize_t *probes, Py_ssize_t *uses)
{
    PyObject *name, *tuple;
    Py_ssize_t at = 0, i;
    Probe probe;
    while (PyDict_Next(table, &at, &name, &tuple))
        for (i = 0; i == 0 || i < PyTuple_GET_SIZE(tuple); i++) {
            Py_ssize_t more = PyTuple_Check(tuple) && PyTuple_GET_SIZE(tuple) > 0
                                  ? take_apart(PyTuple_GET_ITEM(tuple, i), &probe, NULL)
                                  : -1;
            if (more < 0) {
                PyErr_SetString(PyExc_TypeError, "a probe is not what it should be");
                return -1;
            }
            *probes += 1;
            *uses += more;
        }
    return 0;
}

/* Where the next group, probe and use go. */
typedef struct {
    Group *group;
    Probe *probe;
    Use *use;
} Room;

/* Makes a group of each tuple of a table. Returns a table from the names to the groups' places. */
static PyObject *
take_groups(const Reader *reader, PyObject *table, Room *room)
{
    PyObject *places = PyDict_New(), *name, *tuple;
    Py_ssize_t at = 0, i;
    while (places != NULL && PyDict_Next(table, &at, &name, &tuple)) {
        PyObject *place = PyLong_FromSsize_t(room->group - reader->groups);
        Group *group = room->group++;
        if (place == NULL || PyDict_SetItem(places, name, place) < 0)
            Py_CLEAR(places);
        Py_XDECREF(place);
        group->probes = room->probe;
        group->count = PyTuple_GET_SIZE(tuple);
        group->is_mixed = 0;
        for (i = 0; i < group->count; i++) {
            PyObject *parts = PyTuple_GET_ITEM(tuple, i);
            group->is_mixed |= PyTuple_GET_SIZE(parts) == 3 && PyTuple_GET_ITEM(parts, 2) == Py_True;
            room->use += take_apart(parts, room->probe++, room->use);
        }
    }
    return places;
}

static int
take_probes(Reader *reader)
{
    Py_ssize_t probes = 0, uses = 0;
    Py_ssize_t groups = PyDict_GET_SIZE(reader->by_header) + PyDict_GET_SIZE(reader->by_property);
    Room room;
    if (count_probes(reader->by_header, &probes, &uses) < 0
        || count_probes(reader->by_property, &probes, &uses) < 0)
        return -1;
    room.group = reader->groups = PyMem_Calloc(groups + 1, sizeof(Group));
    room.probe = reader->probes = PyMem_Calloc(probes + 1, sizeof(Probe));
    room.use = reader->uses = PyMem_Calloc(uses + 1, sizeof(Use));
    if (reader->groups == NULL || reader->probes == NULL || reader->uses == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    reader->header_groups = take_groups(reader, reader->by_header, &room);
    if (reader->header_groups != NULL)
        reader->property_groups = take_groups(reader, reader->by_property, &room);
    return reader->property_groups == NULL ? -1 : 0;
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

PyDoc_STRVAR(reader_doc,
             "Reader(by_header, by_property, by_content_type, nothing, short, readable, amqp_1_0,\n"
             "names, no_names, most_ids, most_keys): reads what messages say, as Rules.read does.\n"
             "Probes are tuples, as app.tracker.links.probes makes them.");

static PyObject *
reader_new(PyTypeObject *type, PyObject *args, PyObject *unused)
{
    PyObject *headers, *properties, *types, *nothing, *readable, *amqp_1_0, *names, *no_names;
    Py_ssize_t short_text, most_ids, most_keys;
    Reader *reader;
    if (!PyArg_ParseTuple(args, "O!O!OO!nOUOOnn", &PyDict_Type, &headers, &PyDict_Type, &properties,
                          &types, &PyFrozenSet_Type, &nothing, &short_text, &readable, &amqp_1_0,
                          &names, &no_names, &most_ids, &most_keys))
        return NULL;
    if (most_ids < 0 || most_ids > MOST_KEYS || most_keys < 0 || most_keys > MOST_KEYS) {
        PyErr_SetString(PyExc_ValueError, "there is no room for that many keys");
        return NULL;
    }
    reader = (Reader *)type->tp_alloc(type, 0);
    if (reader == NULL)
        return NULL;
    reader->by_content_type = Py_NewRef(types);
    reader->nothing = Py_NewRef(nothing);
    reader->readable = Py_NewRef(readable);
    reader->amqp_1_0 = Py_NewRef(amqp_1_0);
    reader->names = Py_NewRef(names);
    reader->no_names = Py_NewRef(no_names);
    reader->short_text = short_text;
    reader->most_ids = most_ids;
    reader->most_keys = most_keys;
    reader->by_header = PyDict_Copy(headers); /* which nobody else can change */
    reader->by_property = PyDict_Copy(properties);
    if (reader->by_header == NULL || reader->by_property == NULL || spell_words(reader) < 0
        || take_probes(reader) < 0)
        Py_CLEAR(reader);
    return (PyObject *)reader;
}

static int
reader_traverse(Reader *reader, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(reader));
    Py_VISIT(reader->by_header);
    Py_VISIT(reader->by_property);
    Py_VISIT(reader->by_content_type);
    Py_VISIT(reader->readable);
    Py_VISIT(reader->names);
    Py_VISIT(reader->no_names);
    return 0;
}

/* Breaks circles. A reader in one is read with no more: the probes are there until it goes. */
static int
reader_clear(Reader *reader)
{
    Py_CLEAR(reader->by_content_type);
    return 0;
}

static void
reader_dealloc(Reader *reader)
{
    PyTypeObject *type = Py_TYPE(reader);
    int i;
    PyObject_GC_UnTrack(reader);
    PyMem_Free(reader->groups);
    PyMem_Free(reader->probes);
    PyMem_Free(reader->uses);
    Py_XDECREF(reader->by_header);
    Py_XDECREF(reader->by_property);
    Py_XDECREF(reader->header_groups);
    Py_XDECREF(reader->property_groups);
    Py_XDECREF(reader->by_content_type);
    Py_XDECREF(reader->nothing);
    Py_XDECREF(reader->readable);
    Py_XDECREF(reader->amqp_1_0);
    Py_XDECREF(reader->names);
    Py_XDECREF(reader->no_names);
    for (i = 0; i < WORDS; i++)
        Py_XDECREF(reader->words[i]);
    type->tp_free(reader);
    Py_DECREF(type);
}

static PyMethodDef reader_methods[] = {
    {"read", (PyCFunction)(void (*)(void))reader_read, METH_FASTCALL, read_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_doc, (void *)reader_doc},
    {Py_tp_new, reader_new},
    {Py_tp_methods, reader_methods},
    {Py_tp_traverse, reader_traverse},
    {Py_tp_clear, reader_clear},
    {Py_tp_dealloc, reader_dealloc},
    {0, NULL},
};

static PyType_Spec reader_spec = {
    "app.tracker._digests.Reader", sizeof(Reader), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, reader_slots,
};
