/* The tracker's memories of copies, handovers and names, compiled: a queue of numbered values that
 * can be taken by key or by age. What it promises stands in `_memories.pyi`.
 *
 * No Python code runs while the queue is being changed: keys are bytes, or pairs of a text and
 * bytes, which are compared here, and references are given up last.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

enum { FEWEST = 8 }; /* places of an empty queue's tables, a power of two */

/* A key of an entry. Those of equal keys make a ring: the newest comes before the oldest, which
 * counts them and is the one in the table; the others count none. */
typedef struct Link {
    PyObject *key;
    Py_hash_t hash; /* the key's */
    struct Entry *entry;
    struct Link *older_alike, *newer_alike;
    size_t alike;
    struct Link *next_by_key; /* at the same place of the table */
} Link;

typedef struct Entry {
    PyObject *value;
    long long number;
    struct Entry *older, *newer;
    struct Entry *next_by_number; /* at the same place of the table */
    Py_ssize_t size;
    Link links[];
} Entry;

typedef struct {
    PyObject_HEAD
    Entry *oldest, *newest;
    size_t count, links;
    size_t places;  /* of each table */
    Link **by_key;
    Entry **by_number;
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

static inline Link **
place_of_key(const Fifo *fifo, Py_hash_t hash)
{
    size_t mixed = (size_t)hash;
    mixed ^= mixed >> 20 ^ mixed >> 40;
    return &fifo->by_key[mixed & (fifo->places - 1)];
}

static inline Entry **
place_of_number(const Fifo *fifo, long long number)
{
    return &fifo->by_number[(unsigned long long)number & (fifo->places - 1)]; /* they run on */
}

/* The oldest of a key; NULL if there is none. */
static Link *
oldest_of(const Fifo *fifo, PyObject *key, Py_hash_t hash)
{
    Link *link = fifo->places == 0 ? NULL : *place_of_key(fifo, hash);
    while (link != NULL && !(link->hash == hash && is_same_key(link->key, key)))
        link = link->next_by_key;
    return link;
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
put_by_key(Fifo *fifo, Link *link)
{
    Link **place = place_of_key(fifo, link->hash);
    link->next_by_key = *place;
    *place = link;
}

static void
put_by_number(Fifo *fifo, Entry *entry)
{
    Entry **place = place_of_number(fifo, entry->number);
    entry->next_by_number = *place;
    *place = entry;
}

/* Give the tables this many places. If there is no memory they stay as they are: -1, no error. */
static int
resize(Fifo *fifo, size_t places)
{
    Link **by_key = PyMem_Calloc(places, sizeof *by_key);
    Entry **by_number = PyMem_Calloc(places, sizeof *by_number), *entry;
    Py_ssize_t i;
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
    for (entry = fifo->oldest; entry != NULL; entry = entry->newer) {
        put_by_number(fifo, entry);
        for (i = 0; i < entry->size; i++)
            if (entry->links[i].alike > 0)
                put_by_key(fifo, &entry->links[i]);
    }
    return 0;
}

/* Find room for this many keys more; -1 with an error. */
static int
make_room(Fifo *fifo, size_t more)
{
    size_t places = fifo->places == 0 ? FEWEST : fifo->places;
    while (places < fifo->links + more)
        places *= 2;
    if (places != fifo->places && resize(fifo, places) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* Returns how many have an equal key now. */
static size_t
link_up(Fifo *fifo, Link *link)
{
    Link *first = oldest_of(fifo, link->key, link->hash);
    link->alike = 0;
    if (first == NULL) {
        first = link->older_alike = link->newer_alike = link;
        put_by_key(fifo, link);
    } else {
        link->newer_alike = first;
        link->older_alike = first->older_alike;
        first->older_alike->newer_alike = link;
        first->older_alike = link;
    }
    return ++first->alike;
}

static void
unlink_key(Fifo *fifo, Link *link)
{
    Link *next = link->newer_alike;
    if (link->alike == 0)
        oldest_of(fifo, link->key, link->hash)->alike--;
    else {
        Link **place = place_of_key(fifo, link->hash);
        while (*place != link)
            place = &(*place)->next_by_key;
        *place = link->next_by_key;
        if (next != link) {
            next->alike = link->alike - 1;
            put_by_key(fifo, next);
        }
    }
    link->older_alike->newer_alike = next;
    next->older_alike = link->older_alike;
}

/* A new entry with these keys, nowhere yet; NULL with an error. */
static Entry *
new_entry(long long number, PyObject *const *keys, Py_ssize_t size, PyObject *value)
{
    Entry *entry = PyMem_Malloc(sizeof *entry + size * sizeof *entry->links);
    Py_ssize_t i;
    if (entry == NULL)
        return (Entry *)PyErr_NoMemory();
    entry->number = number;
    for (i = 0; i < size; i++) {
        entry->links[i].hash = hash_of(keys[i]);
        if (entry->links[i].hash == -1) {
            PyMem_Free(entry);
            return NULL;
        }
    }
    for (i = 0; i < size; i++) {
        entry->links[i].key = Py_NewRef(keys[i]);
        entry->links[i].entry = entry;
    }
    entry->value = Py_NewRef(value);
    entry->size = size;
    return entry;
}

/* Append a value with these keys. Returns how many the key has now that most have. */
static PyObject *
append(Fifo *fifo, PyObject *numeral, PyObject *const *keys, Py_ssize_t size, PyObject *value)
{
    long long number = PyLong_AsLongLong(numeral);
    Entry *entry;
    Py_ssize_t i;
    size_t most = 0;
    if (number == -1 && PyErr_Occurred())
        return NULL;
    if (size == 0) {
        PyErr_SetString(PyExc_ValueError, "a value needs a key");
        return NULL;
    }
    if (make_room(fifo, size) < 0 || (entry = new_entry(number, keys, size, value)) == NULL)
        return NULL;
    entry->newer = NULL;
    entry->older = fifo->newest;
    *(fifo->newest == NULL ? &fifo->oldest : &fifo->newest->newer) = entry;
    fifo->newest = entry;
    fifo->count++;
    fifo->links += size;
    put_by_number(fifo, entry);
    for (i = 0; i < size; i++) {
        size_t alike = link_up(fifo, &entry->links[i]);
        most = alike > most ? alike : most;
    }
    return PyLong_FromSize_t(most);
}

static PyObject *
fifo_add(Fifo *fifo, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "add takes a number, a key and a value");
        return NULL;
    }
    return append(fifo, args[0], &args[1], 1, args[2]);
}

static PyObject *
fifo_add_under(Fifo *fifo, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyTuple_CheckExact(args[1])) {
        PyErr_SetString(PyExc_TypeError, "add_under takes a number, a tuple of keys and a value");
        return NULL;
    }
    return append(fifo, args[0], &PyTuple_GET_ITEM(args[1], 0), PyTuple_GET_SIZE(args[1]), args[2]);
}

/* Remove an entry; returns its value's reference. */
static PyObject *
taken(Fifo *fifo, Entry *entry)
{
    PyObject *value = entry->value;
    Entry **place = place_of_number(fifo, entry->number);
    Py_ssize_t i;
    for (i = 0; i < entry->size; i++)
        unlink_key(fifo, &entry->links[i]);
    while (*place != entry)
        place = &(*place)->next_by_number;
    *place = entry->next_by_number;
    *(entry->older == NULL ? &fifo->oldest : &entry->older->newer) = entry->newer;
    *(entry->newer == NULL ? &fifo->newest : &entry->newer->older) = entry->older;
    fifo->count--;
    fifo->links -= entry->size;
    if (fifo->places > FEWEST && fifo->links < fifo->places / 8)
        resize(fifo, fifo->places / 4); /* which is only a matter of memory */
    for (i = 0; i < entry->size; i++)
        Py_DECREF(entry->links[i].key);
    PyMem_Free(entry);
    return value;
}

static PyObject *
fifo_take(Fifo *fifo, PyObject *key)
{
    Py_hash_t hash = hash_of(key);
    Link *first = hash == -1 ? NULL : oldest_of(fifo, key, hash);
    if (hash == -1)
        return NULL;
    return first == NULL ? Py_NewRef(Py_None) : taken(fifo, first->entry);
}

static PyObject *
fifo_take_oldest(Fifo *fifo, PyObject *unused)
{
    return fifo->oldest == NULL ? Py_NewRef(Py_None) : taken(fifo, fifo->oldest);
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
    Link *first = hash == -1 ? NULL : oldest_of(fifo, key, hash);
    if (hash == -1)
        return NULL;
    if (first == NULL)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(first->entry->number);
}

static PyObject *
fifo_count(Fifo *fifo, PyObject *key)
{
    Py_hash_t hash = hash_of(key);
    Link *first = hash == -1 ? NULL : oldest_of(fifo, key, hash);
    return hash == -1 ? NULL : PyLong_FromSize_t(first == NULL ? 0 : first->alike);
}

/* Lists are made before anything is looked at, as the collector may run then. */

static PyObject *
fifo_newest(Fifo *fifo, PyObject *const *args, Py_ssize_t count)
{
    PyObject *found;
    Link *first, *link;
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
    first = oldest_of(fifo, args[0], hash);
    if (first == NULL || most <= 0)
        return found;
    link = first;
    do {
        link = link->older_alike;
        if (PyList_Append(found, link->entry->value) < 0) {
            Py_DECREF(found);
            return NULL;
        }
    } while (link != first && --most > 0);
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
        if (PyList_Append(found, are_keys ? entry->links[0].key : entry->value) < 0)
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
    return hash == -1 ? -1 : oldest_of(fifo, key, hash) != NULL;
}

static int
fifo_traverse(Fifo *fifo, visitproc visit, void *arg)
{
    Entry *entry;
    Py_VISIT(Py_TYPE(fifo));
    for (entry = fifo->oldest; entry != NULL; entry = entry->newer)
        Py_VISIT(entry->value); /* keys refer to nothing that could refer back */
    return 0;
}

static int
fifo_clear(Fifo *fifo)
{
    Entry *entry = fifo->oldest;
    PyMem_Free(fifo->by_key);
    PyMem_Free(fifo->by_number);
    fifo->by_key = NULL;
    fifo->by_number = NULL;
    fifo->oldest = fifo->newest = NULL;
    fifo->places = fifo->count = fifo->links = 0;
    while (entry != NULL) {
        Entry *next = entry->newer;
        Py_ssize_t i;
        for (i = 0; i < entry->size; i++)
            Py_DECREF(entry->links[i].key);
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
    {"add_under", (PyCFunction)(void (*)(void))fifo_add_under, METH_FASTCALL, NULL},
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
    {Py_tp_doc, "A queue by key and by age; keys are bytes, or a text and bytes."},
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
