/* The tracker's memories of copies, handovers and names, compiled: a queue of numbered values that
 * can be taken by key or by age. `KeyedFifo` in app/tracker/fifo.py is the reference.
 *
 * No Python code runs while the queue is being changed: keys are bytes, or pairs of a text and
 * bytes, which are compared here, and references are given up last.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

enum { FEWEST = 8 }; /* places of an empty queue's tables, a power of two */

typedef struct Entry {
    PyObject *key, *value;
    Py_hash_t hash; /* the key's */
    long long number;
    struct Entry *older, *newer; /* of all */
    /* Those of one key make a ring: the newest comes before the oldest, which counts them and is
     * the one in the table. */
    struct Entry *older_alike, *newer_alike;
    size_t alike;
    struct Entry *next_by_key, *next_by_number; /* at the same place of a table */
} Entry;

typedef struct {
    PyObject_HEAD
    Entry *oldest, *newest;
    Entry **by_key, **by_number; /* tables of this many places */
    size_t places, count;
} Fifo;

/* Whether two keys of equal hash are equal. */
static int
is_same_key(PyObject *a, PyObject *b)
{
    if (a == b)
        return 1;
    if (PyTuple_Check(a) != PyTuple_Check(b))
        return 0;
    if (PyTuple_Check(a)) {
        PyObject *text = PyTuple_GET_ITEM(a, 0), *other = PyTuple_GET_ITEM(b, 0);
        if (text != other && PyUnicode_Compare(text, other) != 0)
            return 0;
        a = PyTuple_GET_ITEM(a, 1);
        b = PyTuple_GET_ITEM(b, 1);
    }
    return PyBytes_GET_SIZE(a) == PyBytes_GET_SIZE(b)
           && memcmp(PyBytes_AS_STRING(a), PyBytes_AS_STRING(b), PyBytes_GET_SIZE(a)) == 0;
}

/* The hash of a key; -1 with an error if it is none. */
static Py_hash_t
hash_of(PyObject *key)
{
    if (PyBytes_CheckExact(key)
        || (PyTuple_CheckExact(key) && PyTuple_GET_SIZE(key) == 2
            && PyUnicode_CheckExact(PyTuple_GET_ITEM(key, 0))
            && PyBytes_CheckExact(PyTuple_GET_ITEM(key, 1))))
        return PyObject_Hash(key);
    PyErr_SetString(PyExc_TypeError, "a key is bytes, or a text and bytes");
    return -1;
}

static inline Entry **
place_of_key(const Fifo *fifo, Py_hash_t hash)
{
    size_t mixed = (size_t)hash;
    mixed ^= mixed >> 20 ^ mixed >> 40;
    return &fifo->by_key[mixed & (fifo->places - 1)];
}

static inline Entry **
place_of_number(const Fifo *fifo, long long number)
{
    /* Some queues number their values one by one, others in steps of a power of two. */
    unsigned long long mixed = (unsigned long long)number;
    mixed ^= mixed >> 16;
    return &fifo->by_number[mixed & (fifo->places - 1)];
}

/* The oldest value of a key, in the table; NULL if there is none. Where it stands goes to `at`. */
static Entry *
oldest_of(const Fifo *fifo, PyObject *key, Py_hash_t hash, Entry ***at)
{
    Entry **place;
    if (fifo->places == 0)
        return NULL;
    for (place = place_of_key(fifo, hash); *place != NULL; place = &(*place)->next_by_key)
        if ((*place)->hash == hash && is_same_key((*place)->key, key))
            break;
    if (at != NULL)
        *at = place;
    return *place;
}

static Entry *
numbered(const Fifo *fifo, long long number)
{
    Entry *entry = fifo->places == 0 ? NULL : *place_of_number(fifo, number);
    while (entry != NULL && entry->number != number)
        entry = entry->next_by_number;
    return entry;
}

static void
put_in_tables(Fifo *fifo, Entry *entry, int is_first_of_key)
{
    Entry **place = place_of_number(fifo, entry->number);
    entry->next_by_number = *place;
    *place = entry;
    if (is_first_of_key) {
        place = place_of_key(fifo, entry->hash);
        entry->next_by_key = *place;
        *place = entry;
    }
}

/* Give the tables this many places. They stay as they are if there is no memory: -1, no error. */
static int
resize(Fifo *fifo, size_t places)
{
    Entry **by_key = PyMem_Calloc(places, sizeof *by_key);
    Entry **by_number = PyMem_Calloc(places, sizeof *by_number);
    Entry *entry;
    if (by_key == NULL || by_number == NULL) {
        PyMem_Free(by_key);
        PyMem_Free(by_number);
        return -1;
    }
    PyMem_Free(fifo->by_key);
    PyMem_Free(fifo->by_number);
    fifo->by_key = by_key;
    fifo->by_number = by_number;
    fifo->places = places;
    for (entry = fifo->oldest; entry != NULL; entry = entry->newer)
        put_in_tables(fifo, entry, entry->alike > 0);
    return 0;
}

static PyObject *
fifo_add(Fifo *fifo, PyObject *const *args, Py_ssize_t count)
{
    Entry *entry, *first;
    Py_hash_t hash;
    long long number;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "add takes a number, a key and a value");
        return NULL;
    }
    number = PyLong_AsLongLong(args[0]);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    hash = hash_of(args[1]);
    if (hash == -1)
        return NULL;
    if (fifo->count >= fifo->places
        && resize(fifo, fifo->places == 0 ? FEWEST : 2 * fifo->places) < 0)
        return PyErr_NoMemory();
    entry = PyMem_Malloc(sizeof *entry);
    if (entry == NULL)
        return PyErr_NoMemory();
    entry->key = Py_NewRef(args[1]);
    entry->value = Py_NewRef(args[2]);
    entry->hash = hash;
    entry->number = number;
    entry->newer = NULL;
    entry->older = fifo->newest;
    if (fifo->newest == NULL)
        fifo->oldest = entry;
    else
        fifo->newest->newer = entry;
    fifo->newest = entry;
    first = oldest_of(fifo, entry->key, hash, NULL);
    if (first == NULL) {
        first = entry->older_alike = entry->newer_alike = entry;
        first->alike = 0;
    } else {
        entry->alike = 0;
        entry->newer_alike = first;
        entry->older_alike = first->older_alike;
        first->older_alike->newer_alike = entry;
        first->older_alike = entry;
    }
    first->alike++;
    fifo->count++;
    put_in_tables(fifo, entry, first == entry);
    return PyLong_FromSize_t(first->alike);
}

/* Remove the oldest entry of a key, which stands there in the table. Returns its value's reference.
 */
static PyObject *
taken(Fifo *fifo, Entry **at)
{
    Entry *entry = *at, *next = entry->newer_alike, **place;
    PyObject *key = entry->key, *value = entry->value;
    *at = entry->next_by_key;
    if (next != entry) {
        next->alike = entry->alike - 1;
        next->older_alike = entry->older_alike;
        entry->older_alike->newer_alike = next;
        next->next_by_key = *at;
        *at = next;
    }
    place = place_of_number(fifo, entry->number);
    while (*place != entry)
        place = &(*place)->next_by_number;
    *place = entry->next_by_number;
    *(entry->older == NULL ? &fifo->oldest : &entry->older->newer) = entry->newer;
    *(entry->newer == NULL ? &fifo->newest : &entry->newer->older) = entry->older;
    PyMem_Free(entry);
    fifo->count--;
    if (fifo->places > FEWEST && fifo->count < fifo->places / 8)
        resize(fifo, fifo->places / 4); /* which is only a matter of memory */
    Py_DECREF(key);
    return value;
}

static PyObject *
fifo_take(Fifo *fifo, PyObject *key)
{
    Entry **at;
    Py_hash_t hash = hash_of(key);
    if (hash == -1)
        return NULL;
    if (oldest_of(fifo, key, hash, &at) == NULL)
        Py_RETURN_NONE;
    return taken(fifo, at);
}

static PyObject *
fifo_take_oldest(Fifo *fifo, PyObject *unused)
{
    Entry **at;
    if (fifo->oldest == NULL)
        Py_RETURN_NONE;
    at = place_of_key(fifo, fifo->oldest->hash);
    while (*at != fifo->oldest)
        at = &(*at)->next_by_key;
    return taken(fifo, at);
}

static PyObject *
value_of(const Entry *entry)
{
    return Py_NewRef(entry == NULL ? Py_None : entry->value);
}

static PyObject *
fifo_oldest(Fifo *fifo, PyObject *unused)
{
    return value_of(fifo->oldest);
}

static PyObject *
fifo_get(Fifo *fifo, PyObject *argument)
{
    long long number = PyLong_AsLongLong(argument);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    return value_of(numbered(fifo, number));
}

static PyObject *
fifo_first(Fifo *fifo, PyObject *key)
{
    Py_hash_t hash = hash_of(key);
    Entry *first = hash == -1 ? NULL : oldest_of(fifo, key, hash, NULL);
    if (hash == -1)
        return NULL;
    if (first == NULL)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(first->number);
}

static PyObject *
fifo_count(Fifo *fifo, PyObject *key)
{
    Py_hash_t hash = hash_of(key);
    Entry *first = hash == -1 ? NULL : oldest_of(fifo, key, hash, NULL);
    return hash == -1 ? NULL : PyLong_FromSize_t(first == NULL ? 0 : first->alike);
}

/* Lists are made before anything is looked at, as the collector may run then. */

static PyObject *
fifo_newest(Fifo *fifo, PyObject *const *args, Py_ssize_t count)
{
    PyObject *found;
    Entry *first, *entry;
    Py_hash_t hash;
    Py_ssize_t most;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "newest takes a key and a number");
        return NULL;
    }
    hash = hash_of(args[0]);
    if (hash == -1)
        return NULL;
    most = PyLong_AsSsize_t(args[1]);
    if ((most == -1 && PyErr_Occurred()) || (found = PyList_New(0)) == NULL)
        return NULL;
    first = oldest_of(fifo, args[0], hash, NULL);
    if (first == NULL || most <= 0)
        return found;
    entry = first;
    do {
        entry = entry->older_alike;
        if (PyList_Append(found, entry->value) < 0) {
            Py_DECREF(found);
            return NULL;
        }
    } while (entry != first && --most > 0);
    return found;
}

static PyObject *
fifo_since(Fifo *fifo, PyObject *argument)
{
    Entry *entry;
    PyObject *found;
    long long number = PyLong_AsLongLong(argument);
    if ((number == -1 && PyErr_Occurred()) || (found = PyList_New(0)) == NULL)
        return NULL;
    for (entry = fifo->newest; entry != NULL && entry->number >= number; entry = entry->older)
        if (PyList_Append(found, entry->value) < 0) {
            Py_DECREF(found);
            return NULL;
        }
    if (PyList_Reverse(found) < 0)
        Py_CLEAR(found);
    return found;
}

static PyObject *
all_of(const Fifo *fifo, int are_keys)
{
    PyObject *found = PyList_New(0);
    Entry *entry;
    for (entry = fifo->oldest; found != NULL && entry != NULL; entry = entry->newer)
        if (PyList_Append(found, are_keys ? entry->key : entry->value) < 0)
            Py_CLEAR(found);
    return found;
}

static PyObject *
fifo_keys(Fifo *fifo, PyObject *unused)
{
    return all_of(fifo, 1);
}

static PyObject *
fifo_values(Fifo *fifo, PyObject *unused)
{
    return all_of(fifo, 0);
}

static Py_ssize_t
fifo_length(Fifo *fifo)
{
    return (Py_ssize_t)fifo->count;
}

static int
fifo_contains(Fifo *fifo, PyObject *key)
{
    Py_hash_t hash = hash_of(key);
    return hash == -1 ? -1 : oldest_of(fifo, key, hash, NULL) != NULL;
}

static int
fifo_traverse(Fifo *fifo, visitproc visit, void *arg)
{
    Entry *entry;
    Py_VISIT(Py_TYPE(fifo));
    for (entry = fifo->oldest; entry != NULL; entry = entry->newer) {
        Py_VISIT(entry->key);
        Py_VISIT(entry->value);
    }
    return 0;
}

static int
fifo_clear(Fifo *fifo)
{
    Entry *entry = fifo->oldest;
    PyMem_Free(fifo->by_key);
    PyMem_Free(fifo->by_number);
    fifo->by_key = fifo->by_number = NULL;
    fifo->oldest = fifo->newest = NULL;
    fifo->places = fifo->count = 0;
    while (entry != NULL) {
        Entry *next = entry->newer;
        Py_DECREF(entry->key);
        Py_DECREF(entry->value);
        PyMem_Free(entry);
        entry = next;
    }
    return 0;
}

static void
fifo_dealloc(Fifo *fifo)
{
    PyTypeObject *type = Py_TYPE(fifo);
    PyObject_GC_UnTrack(fifo);
    fifo_clear(fifo);
    type->tp_free(fifo);
    Py_DECREF(type);
}

static PyMethodDef fifo_methods[] = {
    {"add", (PyCFunction)(void (*)(void))fifo_add, METH_FASTCALL, NULL},
    {"take", (PyCFunction)fifo_take, METH_O, NULL},
    {"first", (PyCFunction)fifo_first, METH_O, NULL},
    {"count", (PyCFunction)fifo_count, METH_O, NULL},
    {"get", (PyCFunction)fifo_get, METH_O, NULL},
    {"oldest", (PyCFunction)fifo_oldest, METH_NOARGS, NULL},
    {"take_oldest", (PyCFunction)fifo_take_oldest, METH_NOARGS, NULL},
    {"newest", (PyCFunction)(void (*)(void))fifo_newest, METH_FASTCALL, NULL},
    {"since", (PyCFunction)fifo_since, METH_O, NULL},
    {"keys", (PyCFunction)fifo_keys, METH_NOARGS, NULL},
    {"values", (PyCFunction)fifo_values, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot fifo_slots[] = {
    {Py_tp_doc, "What app.tracker.fifo.KeyedFifo is, for keys of bytes, or of a text and bytes."},
    {Py_tp_methods, fifo_methods},
    {Py_tp_traverse, fifo_traverse},
    {Py_tp_clear, fifo_clear},
    {Py_tp_dealloc, fifo_dealloc},
    {Py_sq_length, fifo_length},
    {Py_sq_contains, fifo_contains},
    {0, NULL},
};

static PyType_Spec fifo_spec = {
    "app.tracker._memories.KeyedFifo", sizeof(Fifo), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, fifo_slots,
};

static int
add_types(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &fifo_spec, NULL);
    int failed = type == NULL || PyModule_AddObjectRef(module, "KeyedFifo", type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_types},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_memories", "The tracker's memories, compiled.", 0, NULL, slots,
};

PyMODINIT_FUNC
PyInit__memories(void)
{
    return PyModuleDef_Init(&definition);
}
