/* The operations of itc/events.py on the packed form of itc/packed.py, compiled: joins, events,
 * comparison, the height at a point, the text, and the bit code. Those modules are the reference;
 * what is here gives the same bytes.
 *
 * Whatever the bytes are, nothing is read or written out of bounds. Those that `pack` never gives,
 * and heights beyond 63 bits, raise OverflowError, or are None as text or code: the callers then
 * turn to Python, which knows what is wrong with them.
 */
#include "_trees.h"

/* The longest that a node adds to a text: two brackets, a comma, a space and 19 digits. */
#define NODE_CHARACTERS 24
/* And to a bit code: five bits in front of a number, which takes 63 + 63 bits. */
#define NODE_BYTES 17
/* Bytes for the nodes of a tree that are to be written at any time. */
#define DUE(tree) (((size_t)(tree)->count / 2 + 2) * sizeof(Due))

static PyObject *id_name, *tree_name, *packed_name, *pack_name; /* attributes of a stamp */

/* ---- one leaf alone --------------------------------------------------------------------------- */

static inline int
bit_of(const unsigned char *bits, size_t place)
{
    return bits[place >> 3] >> (place & 7) & 1;
}

/* How many of the first bits are set. */
static size_t
set_before(const unsigned char *bits, size_t count)
{
    size_t set = 0, group;
    for (group = 0; group < count >> 3; group++)
        set += (size_t)__builtin_popcount(bits[group]);
    if (count & 7)
        set += (size_t)__builtin_popcount(bits[group] & ((1u << (count & 7)) - 1));
    return set;
}

static size_t
set_from(const unsigned char *bits, size_t from, size_t to)
{
    const unsigned char *first = bits + (from >> 3);
    return set_before(first, to - (from & ~(size_t)7)) - set_before(first, from & 7);
}

/* A leaf, by levels among all nodes and among leaves, and how many steps it is below the root. */
typedef struct {
    size_t place, leaf;
    Py_ssize_t depth;
} Leaf;

/* The leaf where a path ends, or the leftmost one below; -1 if the shape is no tree. */
static int
find_leaf(const unsigned char *bits, size_t count, const char *path, Py_ssize_t length, Leaf *leaf)
{
    size_t here = 0, halved = 0; /* nodes before this one that have halves */
    Py_ssize_t depth = 0;
    for (; bit_of(bits, here); depth++) {
        size_t next = 2 * halved + 1 + (depth < length && path[depth] != '0');
        if (next >= count || next <= here)
            return -1;
        halved += set_from(bits, here, next);
        here = next;
    }
    *leaf = (Leaf){here, here - halved, depth};
    return 0;
}

/* How far a leaf is above the least height; -1 if the bytes are not what they should be. */
static int
height_of(Rest rest, size_t leaves, size_t leaf, int width, Height *height)
{
    size_t size = (leaves + 7) / 8;
    int which;
    *height = rest.at[leaf];
    rest.at += leaves;
    for (which = 1; which < width; which++) {
        const unsigned char *marks = rest.at;
        size_t before, all;
        if ((size_t)(rest.end - rest.at) < size || !is_padded(marks, leaves))
            return -1;
        before = set_before(marks, leaf);
        all = set_before(marks, leaves);
        rest.at += size;
        if ((size_t)(rest.end - rest.at) < all)
            return -1;
        if (bit_of(marks, leaf))
            *height |= (Height)rest.at[before] << 8 * which;
        rest.at += all;
    }
    return rest.at == rest.end ? 0 : -1;
}

/* The packed tree after an event, where that changes no more than the lowest byte of one leaf, as it
 * mostly does: the interval and its sibling are leaves, and stay apart. NULL without an exception
 * where it is more, or the bytes are not what they should be. */
static PyObject *
with_one_higher(PyObject *data, Event *event)
{
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(data), *bits;
    Rest rest = {bytes, bytes + PyBytes_GET_SIZE(data)};
    Head head;
    Leaf here;
    size_t shape, other;
    Height height, sibling, after;
    PyObject *made;
    if (read_head(&rest, &head) < 0 || head.width == 0 || event->length == 0)
        return NULL;
    bits = rest.at;
    shape = (head.count + 7) / 8;
    if ((size_t)(rest.end - rest.at) < shape + head.leaves ||
        find_leaf(bits, head.count, event->path, event->length, &here) < 0 ||
        here.depth != event->length)
        return NULL;
    other = event->path[event->length - 1] == '0' ? here.place + 1 : here.place - 1;
    if (other >= head.count || bit_of(bits, other))
        return NULL;
    rest.at += shape;
    other = here.leaf + other - here.place; /* among leaves: siblings follow each other */
    if (here.leaf >= head.leaves || other >= head.leaves ||
        height_of(rest, head.leaves, here.leaf, head.width, &height) < 0 ||
        height_of(rest, head.leaves, other, head.width, &sibling) < 0)
        return NULL;
    after = height + 1;
    if (sibling >= height || after >> 8 != height >> 8 || after > MOST_HEIGHT - head.least)
        return NULL; /* else there is a leaf below it still: the least height stays */
    made = PyBytes_FromStringAndSize((const char *)bytes, PyBytes_GET_SIZE(data));
    if (made != NULL)
        PyBytes_AS_STRING(made)[(rest.at - bytes) + (Py_ssize_t)here.leaf] = (char)after;
    event->height = head.least + after;
    return made;
}

/* ---- what Python calls ------------------------------------------------------------------------ */

/* The same object where bytes are equal, so that what does not change is held once. */
static PyObject *
shared(PyObject *made, PyObject *before)
{
    if (made != NULL && PyBytes_GET_SIZE(made) == PyBytes_GET_SIZE(before) &&
        memcmp(PyBytes_AS_STRING(made), PyBytes_AS_STRING(before),
               (size_t)PyBytes_GET_SIZE(made)) == 0) {
        Py_DECREF(made);
        return Py_NewRef(before);
    }
    return made;
}

static PyObject *
join_bytes(PyObject *one, PyObject *other)
{
    Tree a, b;
    PyObject *made;
    if (one == other)
        return Py_NewRef(one);
    if (read_tree(one, 0, &a) < 0)
        return NULL;
    if (read_tree(other, 0, &b) < 0) {
        forget(&a);
        return NULL;
    }
    made = joined(&a, &b, NULL);
    forget(&a);
    forget(&b);
    made = shared(made, one);
    return made == one ? made : shared(made, other);
}

static PyObject *
core_join(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyBytes_Check(args[0]) || !PyBytes_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "join takes two packed trees");
        return NULL;
    }
    return join_bytes(args[0], args[1]);
}

/* A stamp's packed event component, made first where it is held as a tree; or that itself. */
static PyObject *
packed_of(PyObject *stamp)
{
    PyObject *data;
    if (PyBytes_CheckExact(stamp))
        return Py_NewRef(stamp);
    data = PyObject_GetAttr(stamp, packed_name);
    if (data == Py_None) {
        Py_DECREF(data);
        data = PyObject_GetAttr(stamp, pack_name);
    }
    return data;
}

/* A stamp like this one with another event component. */
static PyObject *
stamp_with(PyObject *stamp, PyObject *path, PyObject *packed)
{
    PyObject *nothing = PyTuple_New(0), *made;
    if (nothing == NULL)
        return NULL;
    made = PyBaseObject_Type.tp_new(Py_TYPE(stamp), nothing, NULL);
    Py_DECREF(nothing);
    if (made != NULL && (PyObject_SetAttr(made, id_name, path) < 0 ||
                         PyObject_SetAttr(made, tree_name, Py_None) < 0 ||
                         PyObject_SetAttr(made, packed_name, packed) < 0))
        Py_CLEAR(made);
    return made;
}

/* What is known after all but the last of the others; takes over the reference to `known`. */
static PyObject *
heard(PyObject *known, PyObject *const *others, Py_ssize_t count)
{
    for (; count > 1 && known != NULL; count--) {
        PyObject *other = packed_of(*others++), *before = known;
        if (other == NULL || !PyBytes_Check(other)) {
            if (other != NULL)
                PyErr_SetString(PyExc_TypeError, "a packed tree is bytes");
            known = NULL;
        } else
            known = join_bytes(before, other);
        Py_DECREF(before);
        Py_XDECREF(other);
    }
    return known;
}

/* The packed tree after an event that follows from another one, NULL for none. */
static PyObject *
after_event(PyObject *known, PyObject *other, Event *event)
{
    Tree a, b;
    PyObject *made = other == NULL ? with_one_higher(known, event) : NULL;
    size_t more = other == NULL ? (size_t)event->length : 0;
    if (made != NULL || PyErr_Occurred() || read_tree(known, more, &a) < 0)
        return made;
    if (other == NULL) {
        made = with_event(&a, event);
        forget(&a);
        return made;
    }
    if (read_tree(other, 0, &b) < 0) {
        forget(&a);
        return NULL;
    }
    made = joined(&a, &b, event);
    forget(&a);
    forget(&b);
    return made;
}

/* The stamp, the height and the packed form after the event. */
static PyObject *
received(PyObject *stamp, PyObject *path, PyObject *known, PyObject *last)
{
    PyObject *packed, *after, *height, *result = NULL;
    Event event = {0};
    if (!PyUnicode_Check(path)) {
        PyErr_SetString(PyExc_TypeError, "only the owner of exactly one interval receives");
        return NULL;
    }
    event.path = PyUnicode_AsUTF8AndSize(path, &event.length);
    if (event.path == NULL || (packed = after_event(known, last, &event)) == NULL)
        return NULL;
    after = stamp_with(stamp, path, packed);
    height = PyLong_FromUnsignedLongLong(event.height);
    if (after != NULL && height != NULL)
        result = PyTuple_Pack(3, after, height, packed);
    Py_XDECREF(after);
    Py_XDECREF(height);
    Py_DECREF(packed);
    return result;
}

static PyObject *
core_receive(PyObject *module, PyObject *const *stamps, Py_ssize_t count)
{
    PyObject *path, *known, *last = NULL, *result = NULL;
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "receive takes at least one stamp");
        return NULL;
    }
    path = PyObject_GetAttr(stamps[0], id_name);
    known = path == NULL ? NULL : packed_of(stamps[0]);
    if (known != NULL && !PyBytes_Check(known)) {
        PyErr_SetString(PyExc_TypeError, "a packed tree is bytes");
        Py_CLEAR(known);
    }
    if (known != NULL)
        known = heard(known, stamps + 1, count - 1);
    if (known != NULL && (count == 1 || (last = packed_of(stamps[count - 1])) != NULL))
        result = received(stamps[0], path, known, last);
    Py_XDECREF(path);
    Py_XDECREF(known);
    Py_XDECREF(last);
    return result;
}

static int
find_height(const void *data, Py_ssize_t size, const char *path, Py_ssize_t length, Height *height)
{
    Rest rest = {data, (const unsigned char *)data + size};
    Head head;
    Leaf leaf;
    size_t shape;
    if (read_head(&rest, &head) < 0)
        return -1;
    *height = head.least;
    if (head.width == 0)
        return 0;
    shape = (head.count + 7) / 8;
    if ((size_t)(rest.end - rest.at) < shape + head.leaves)
        return -1;
    if (find_leaf(rest.at, head.count, path, length, &leaf) < 0 || leaf.leaf >= head.leaves)
        return -1;
    rest.at += shape;
    if (height_of(rest, head.leaves, leaf.leaf, head.width, height) < 0 ||
        *height > MOST_HEIGHT - head.least)
        return -1;
    *height += head.least;
    return 0;
}

static PyObject *
core_height_at(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    Py_buffer view;
    Py_ssize_t length;
    const char *path;
    Height height;
    int failed;
    if (count != 2 || !PyUnicode_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "height_at takes a packed tree and a path");
        return NULL;
    }
    path = PyUnicode_AsUTF8AndSize(args[1], &length);
    if (path == NULL || PyObject_GetBuffer(args[0], &view, PyBUF_SIMPLE) < 0)
        return NULL;
    failed = find_height(view.buf, view.len, path, length, &height);
    PyBuffer_Release(&view);
    return failed ? (left_to_python(), NULL) : PyLong_FromUnsignedLongLong(height);
}

/* ---- node by node ----------------------------------------------------------------------------- */

typedef unsigned int Place; /* of a node, by levels */

/* How high a leaf is, and the place of a node's left half, which the right one follows; 0 where it
 * has none. */
typedef struct {
    Height low;
    Place left;
} Node;

typedef struct {
    Node *nodes;
    size_t count;
    Head head;
} Nodes;

/* The caller forgets the nodes, unless this fails. */
static int
read_nodes(const void *data, Py_ssize_t size, Nodes *nodes)
{
    Tree tree;
    const Height *height;
    Place place, halved = 0;
    if (read_bytes(data, size, 0, &nodes->head, &tree) < 0)
        return -1;
    nodes->count = tree.count;
    nodes->nodes = PyMem_Malloc(tree.count * sizeof(Node));
    if (nodes->nodes == NULL)
        PyErr_NoMemory();
    else
        for (place = 0, height = tree.heights; place < tree.count; place++)
            nodes->nodes[place] = bits_at(tree.bits, place) & 1 ? (Node){0, 2 * halved++ + 1}
                                                                : (Node){*height++, 0};
    forget(&tree);
    return nodes->nodes == NULL ? -1 : 0;
}

static void
forget_nodes(Nodes *nodes)
{
    PyMem_Free(nodes->nodes);
}

/* Whether one tree is nowhere higher than the other: -1, or that. */
static int
is_covered(const Nodes *a, const Nodes *b)
{
    typedef struct {
        Place a, b;
    } Pair;
    size_t there = 1, next;
    int is_below = 1;
    Pair *pairs = PyMem_Malloc((a->count + b->count) * sizeof(Pair));
    if (pairs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    pairs[0] = (Pair){0, 0};
    for (next = 0; next < there && is_below; next++) {
        Pair here = pairs[next];
        Node one = a->nodes[here.a], other = b->nodes[here.b];
        if (!one.left && !other.left) {
            is_below = one.low <= other.low;
            continue;
        }
        pairs[there++] = (Pair){one.left ? one.left : here.a, other.left ? other.left : here.b};
        pairs[there++] =
            (Pair){one.left ? one.left + 1 : here.a, other.left ? other.left + 1 : here.b};
    }
    PyMem_Free(pairs);
    return is_below;
}

static PyObject *
core_leq(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    Nodes a, b;
    int is_below;
    if (count != 2 || !PyBytes_Check(args[0]) || !PyBytes_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "leq takes two packed trees");
        return NULL;
    }
    if (args[0] == args[1])
        Py_RETURN_TRUE;
    if (read_nodes(PyBytes_AS_STRING(args[0]), PyBytes_GET_SIZE(args[0]), &a) < 0)
        return NULL;
    if (read_nodes(PyBytes_AS_STRING(args[1]), PyBytes_GET_SIZE(args[1]), &b) < 0) {
        forget_nodes(&a);
        return NULL;
    }
    is_below = is_covered(&a, &b);
    forget_nodes(&a);
    forget_nodes(&b);
    return is_below < 0 ? NULL : PyBool_FromLong(is_below);
}

/* Find each node's least height, from the last one on; -1 if the tree is not in normal form. */
static int
find_lows(Nodes *tree)
{
    Height lowest = MOST_HEIGHT, highest = 0;
    size_t place = tree->count;
    if (tree->head.width == 0)
        return 0;
    while (place--) {
        Node *node = tree->nodes + place, *left = tree->nodes + node->left, *right = left + 1;
        if (node->left) {
            if (left->low == right->low && !left->left && !right->left)
                return -1;
            node->low = left->low < right->low ? left->low : right->low;
            continue;
        }
        lowest = node->low < lowest ? node->low : lowest;
        highest = node->low > highest ? node->low : highest;
    }
    return lowest == tree->head.least && (highest - lowest) >> 8 * (tree->head.width - 1) ? 0 : -1;
}

static PyObject *
core_is_packed(PyObject *module, PyObject *data)
{
    Nodes tree;
    int is_normal;
    if (check_bytes(data) < 0)
        return NULL;
    if (read_nodes(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), &tree) < 0) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return NULL;
        PyErr_Clear();
        Py_RETURN_FALSE;
    }
    is_normal = find_lows(&tree) == 0;
    forget_nodes(&tree);
    return PyBool_FromLong(is_normal);
}

/* ---- text ------------------------------------------------------------------------------------- */

/* A node that is to be written: under which height, and how many brackets close after it. */
typedef struct {
    Place place, closing;
    Height base;
} Due;

static char *
put_height(char *at, Height height)
{
    char digits[20];
    int count = 0;
    do {
        digits[count++] = (char)('0' + height % 10);
    } while (height /= 10);
    while (count)
        *at++ = digits[--count];
    return at;
}

/* A node, its left half, its right half; `due` has room for DUE of a tree. */
static char *
put_tree(char *at, const Node *nodes, Due *due)
{
    Due *next = due, here;
    *next++ = (Due){0, 0, 0};
    while (next > due) {
        const Node *node;
        here = *--next;
        node = nodes + here.place;
        if (here.place) {
            *at++ = ',';
            *at++ = ' ';
        }
        if (node->left) {
            *at++ = '(';
            at = put_height(at, node->low - here.base);
            *next++ = (Due){node->left + 1, here.closing + 1, node->low};
            *next++ = (Due){node->left, 0, node->low};
        } else {
            at = put_height(at, node->low - here.base);
            memset(at, ')', here.closing);
            at += here.closing;
        }
    }
    return at;
}

/* Read a tree with all its heights: 1, or 0 if it is left to Python, or -1 for an error. */
static int
read_to_write(PyObject *data, Nodes *tree)
{
    Py_buffer view;
    int failed;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return -1;
    failed = read_nodes(view.buf, view.len, tree);
    PyBuffer_Release(&view);
    if (failed) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return -1;
        PyErr_Clear();
        return 0;
    }
    if (find_lows(tree) == 0)
        return 1;
    forget_nodes(tree);
    return 0;
}

static PyObject *
text_of(const Nodes *tree)
{
    PyObject *text;
    char *out, *end;
    Due *due = PyMem_Malloc(DUE(tree) + (size_t)tree->count * NODE_CHARACTERS);
    if (due == NULL)
        return PyErr_NoMemory();
    out = (char *)due + DUE(tree);
    end = put_tree(out, tree->nodes, due);
    text = PyUnicode_FromStringAndSize(out, end - out);
    PyMem_Free(due);
    return text;
}

static PyObject *
core_text(PyObject *module, PyObject *data)
{
    PyObject *text;
    Nodes tree;
    int is_read = read_to_write(data, &tree);
    if (is_read < 0)
        return NULL;
    if (!is_read)
        Py_RETURN_NONE;
    text = text_of(&tree);
    forget_nodes(&tree);
    return text;
}

/* ---- bit code --------------------------------------------------------------------------------- */

/* Bits from the first of a byte on; what is not written yet is 0. */
typedef struct {
    unsigned char *bytes;
    size_t count;
} Bits;

/* The last `width` bits of a number, the highest first. */
static void
put_bits(Bits *bits, Height number, int width)
{
    while (width--) {
        if (number >> width & 1)
            bits->bytes[bits->count >> 3] |= (unsigned char)(0x80 >> (bits->count & 7));
        bits->count++;
    }
}

/* As many ones as its size class has, a zero, its place in the class. */
static void
put_number(Bits *bits, Height number)
{
    int width = 2;
    number += 4;
    while (number >> width > 1)
        width++;
    put_bits(bits, ~(Height)0 << 1, width);
    put_bits(bits, number, width);
}

/* As `put_tree`, in the order and the words of `_event_bits`. */
static void
put_code(Bits *bits, const Node *nodes, Due *due)
{
    Due *next = due;
    *next++ = (Due){0, 0, 0};
    while (next > due) {
        Due here = *--next;
        const Node *node = nodes + here.place, *left = nodes + node->left, *right = left + 1;
        Height lift = node->low - here.base;
        int has_left, has_right;
        if (!node->left) {
            put_number(bits, lift);
            continue;
        }
        has_left = left->left || left->low != node->low;
        has_right = !has_left || right->left || right->low != node->low;
        if (has_left && has_right)
            put_bits(bits, lift ? 7 : 2, lift ? 4 : 3);
        else
            put_bits(bits, (lift ? 12 : 0) + has_left, lift ? 5 : 3);
        if (lift)
            put_number(bits, lift);
        if (has_right)
            *next++ = (Due){node->left + 1, 0, node->low};
        if (has_left)
            *next++ = (Due){node->left, 0, node->low};
    }
}

static PyObject *
code_of(const char *owned, Py_ssize_t length, const Nodes *tree)
{
    PyObject *code;
    Bits bits = {NULL, 0};
    Due *due = PyMem_Calloc(1, DUE(tree) + (size_t)length + (size_t)tree->count * NODE_BYTES);
    if (due == NULL)
        return PyErr_NoMemory();
    bits.bytes = (unsigned char *)due + DUE(tree);
    while (length--)
        put_bits(&bits, *owned++ == '1', 1);
    put_code(&bits, tree->nodes, due);
    code = PyBytes_FromStringAndSize((char *)bits.bytes, (Py_ssize_t)((bits.count + 7) / 8));
    PyMem_Free(due);
    return code;
}

static PyObject *
core_code(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    PyObject *code;
    Py_ssize_t length;
    const char *owned;
    Nodes tree;
    int is_read;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "code(owned, data)");
        return NULL;
    }
    if ((owned = PyUnicode_AsUTF8AndSize(args[0], &length)) == NULL)
        return NULL;
    if ((is_read = read_to_write(args[1], &tree)) < 0)
        return NULL;
    if (!is_read)
        Py_RETURN_NONE;
    code = code_of(owned, length, &tree);
    forget_nodes(&tree);
    return code;
}

static PyMethodDef methods[] = {
    {"join", (PyCFunction)(void (*)(void))core_join, METH_FASTCALL,
     "join(a, b): what itc.events.join gives, of packed trees."},
    {"leq", (PyCFunction)(void (*)(void))core_leq, METH_FASTCALL,
     "leq(a, b): what itc.events.leq gives, of packed trees."},
    {"receive", (PyCFunction)(void (*)(void))core_receive, METH_FASTCALL,
     "receive(stamp, *others): what itc.stamp.receive gives."},
    {"height_at", (PyCFunction)(void (*)(void))core_height_at, METH_FASTCALL,
     "height_at(data, path): what itc.packed.packed_height_at gives."},
    {"is_packed", core_is_packed, METH_O,
     "is_packed(data): whether bytes are a packed tree in normal form, of heights below 2**63."},
    {"text", core_text, METH_O,
     "text(data): a packed tree in the paper's notation, or None."},
    {"code", (PyCFunction)(void (*)(void))core_code, METH_FASTCALL,
     "code(owned, data): the bit code of an id's bits and a packed tree, or None."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_core", "Operations on packed trees, compiled.", 0, methods,
};

PyMODINIT_FUNC
PyInit__core(void)
{
    if ((id_name = PyUnicode_InternFromString("_id")) == NULL ||
        (tree_name = PyUnicode_InternFromString("_tree")) == NULL ||
        (packed_name = PyUnicode_InternFromString("_packed")) == NULL ||
        (pack_name = PyUnicode_InternFromString("packed")) == NULL)
        return NULL;
    return PyModuleDef_Init(&definition);
}
