/* The operations that every event takes, compiled: join and raise_interval of itc/events.py, the
 * packing of itc/packed.py, and all three in one, receive of itc/messages.py. Those are the
 * reference; what is here gives the same trees (the very same objects where nothing changes, but for
 * the leaves that receive raises) and the same bytes.
 *
 * A tree is a tuple (lowest, highest, left, right) as itc/nodes.py has it. Heights beyond 63 bits
 * raise OverflowError, trees of too many levels RecursionError: the callers then turn to Python.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>
#include <string.h>

/* How deep a tree may be. A frame takes 300 bytes, and some threads' stacks are small. */
#define MOST_LEVELS 500
#define FEW_NODES 256
#define FEW_OTHERS 8

static PyObject *id_name, *event_name; /* the attributes of a stamp */

/* A tree with its heights as numbers, so that none is read twice. */
typedef struct {
    long long low, high;
    PyObject *tree;
    int is_new; /* the reference is ours; else the tree is a part of one that the caller holds */
} Node;

/* A height, or -1 with an exception. Most have one digit, which is there without a call. */
static inline long long
height_of(PyObject *number)
{
#if PY_VERSION_HEX >= 0x030C0000
    if (PyLong_CheckExact(number) && PyUnstable_Long_IsCompact((PyLongObject *)number))
        return PyUnstable_Long_CompactValue((PyLongObject *)number);
#else
    if (PyLong_CheckExact(number)) {
        if (Py_SIZE(number) == 1)
            return ((PyLongObject *)number)->ob_digit[0];
        if (Py_SIZE(number) == 0)
            return 0;
    }
#endif
    return PyLong_AsLongLong(number);
}

static inline int
read_node(PyObject *tree, Node *node)
{
    if (!PyTuple_CheckExact(tree) || PyTuple_GET_SIZE(tree) != 4) {
        PyErr_SetString(PyExc_TypeError, "not an event tree");
        return -1;
    }
    node->tree = tree;
    node->is_new = 0;
    node->low = height_of(PyTuple_GET_ITEM(tree, 0));
    node->high = height_of(PyTuple_GET_ITEM(tree, 1));
    if ((node->low == -1 || node->high == -1) && PyErr_Occurred())
        return -1;
    return 0;
}

/* Those of a leaf are as level as itself. Their trees are not ours, whoever's the node's is. */
static inline int
read_halves(const Node *node, Node *left, Node *right)
{
    if (node->low == node->high) {
        *left = *node;
        left->is_new = 0;
        *right = *left;
        return 0;
    }
    if (read_node(PyTuple_GET_ITEM(node->tree, 2), left) < 0)
        return -1;
    return read_node(PyTuple_GET_ITEM(node->tree, 3), right);
}

/* The tree as a reference of its own; the node must not be used any more. */
static inline PyObject *
taken(const Node *node)
{
    return node->is_new ? node->tree : Py_NewRef(node->tree);
}

static inline void
drop(const Node *node)
{
    if (node->is_new)
        Py_DECREF(node->tree);
}

/* Takes over the references to the halves. */
static inline PyObject *
new_tree(PyObject *low, PyObject *high, PyObject *left, PyObject *right)
{
    PyObject *tree = PyTuple_New(4);
    if (tree == NULL) {
        Py_DECREF(left);
        Py_DECREF(right);
        return NULL;
    }
    PyTuple_SET_ITEM(tree, 0, Py_NewRef(low));
    PyTuple_SET_ITEM(tree, 1, Py_NewRef(high));
    PyTuple_SET_ITEM(tree, 2, left);
    PyTuple_SET_ITEM(tree, 3, right);
    PyObject_GC_UnTrack(tree); /* trees have no cycles, and there are very many */
    return tree;
}

/* The tree over two halves, in normal form. Drops them. */
static int
over(const Node *left, const Node *right, Node *out)
{
    PyObject *low = PyTuple_GET_ITEM((left->low < right->low ? left : right)->tree, 0);
    PyObject *high = PyTuple_GET_ITEM((left->high > right->high ? left : right)->tree, 1);
    if (left->low == right->high && right->low == left->high) { /* level, at one height */
        *out = *left;
        drop(right);
        return 0;
    }
    out->low = left->low < right->low ? left->low : right->low;
    out->high = left->high > right->high ? left->high : right->high;
    out->is_new = 1;
    out->tree = new_tree(low, high, taken(left), taken(right));
    return out->tree == NULL ? -1 : 0;
}

static int
too_deep(void)
{
    PyErr_SetString(PyExc_RecursionError, "an event tree of too many levels");
    return -1;
}

static int join_below(const Node *a, const Node *b, int levels, Node *out);

static inline int
join_nodes(const Node *a, const Node *b, int levels, Node *out)
{
    const Node *higher;
    if (a->tree == b->tree || a->low >= b->high)
        higher = a;
    else if (b->low >= a->high)
        higher = b;
    else
        return join_below(a, b, levels, out);
    *out = *higher;
    out->is_new = 0;
    return 0;
}

/* The join of two trees of which neither is above the other. All four halves are read before any
 * is joined: the processor then waits for them together. */
static int
join_below(const Node *a, const Node *b, int levels, Node *out)
{
    Node a_left, a_right, b_left, b_right, left, right;
    if (levels == 0)
        return too_deep();
    if (read_halves(a, &a_left, &a_right) < 0 || read_halves(b, &b_left, &b_right) < 0)
        return -1;
    if (join_nodes(&a_left, &b_left, levels - 1, &left) < 0)
        return -1;
    if (join_nodes(&a_right, &b_right, levels - 1, &right) < 0) {
        drop(&left);
        return -1;
    }
    if (left.tree == a_left.tree && right.tree == a_right.tree)
        *out = *a;
    else if (left.tree == b_left.tree && right.tree == b_right.tree)
        *out = *b;
    else
        return over(&left, &right, out);
    out->is_new = 0;
    return 0;
}

static PyObject *
core_join(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    Node a, b, joined;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "join takes two trees");
        return NULL;
    }
    if (read_node(args[0], &a) < 0 || read_node(args[1], &b) < 0)
        return NULL;
    return join_nodes(&a, &b, MOST_LEVELS, &joined) < 0 ? NULL : taken(&joined);
}

/* What is left of the way down to an interval, and how high its sibling is everywhere. */
typedef struct {
    const char *path;
    Py_ssize_t length;
    long long least;
} Way;

static inline Way
further(const Way *way, long long least)
{
    Way rest = {way->path + 1, way->length - 1, least};
    return rest;
}

static int
level_at(long long height, Node *out)
{
    PyObject *number = PyLong_FromLongLong(height);
    if (number == NULL)
        return -1;
    out->low = out->high = height;
    out->is_new = 1;
    out->tree = new_tree(number, number, Py_NewRef(Py_None), Py_NewRef(Py_None));
    Py_DECREF(number);
    return out->tree == NULL ? -1 : 0;
}

/* The half that the way leads to and the other one, put together. Drops both. */
static inline int
over_both(const Way *way, const Node *here, const Node *other, Node *out)
{
    return *way->path == '0' ? over(here, other, out) : over(other, here, out);
}

/* A tree with its interval's next event. */
static int
raise_node(const Node *node, const Way *way, int levels, Node *out)
{
    Node left, right, raised, *here, *other;
    Way rest;
    if (way->length == 0) {
        long long height = node->high > way->least ? node->high : way->least;
        if (height > node->low)
            return level_at(height, out);
        if (height == LLONG_MAX) {
            PyErr_SetString(PyExc_OverflowError, "a height beyond 63 bits");
            return -1;
        }
        return level_at(height + 1, out);
    }
    if (levels == 0)
        return too_deep();
    if (read_halves(node, &left, &right) < 0)
        return -1;
    here = *way->path == '0' ? &left : &right;
    other = here == &left ? &right : &left;
    rest = further(way, other->low);
    if (raise_node(here, &rest, levels - 1, &raised) < 0)
        return -1;
    return over_both(way, &raised, other, out);
}

/* `raise_node` of the join of two trees, of which the part along the way is never made. */
static int
receive_node(const Node *a, const Node *b, const Way *way, int levels, Node *out)
{
    Node a_left, a_right, b_left, b_right, here, other;
    Way rest;
    int is_left, failed;
    if (a->tree == b->tree || a->low >= b->high)
        return raise_node(a, way, levels, out);
    if (b->low >= a->high)
        return raise_node(b, way, levels, out);
    if (way->length == 0) {
        if (join_below(a, b, levels, &here) < 0)
            return -1;
        failed = raise_node(&here, way, levels, out);
        drop(&here);
        return failed;
    }
    if (levels == 0)
        return too_deep();
    if (read_halves(a, &a_left, &a_right) < 0 || read_halves(b, &b_left, &b_right) < 0)
        return -1;
    is_left = *way->path == '0';
    if (join_nodes(is_left ? &a_right : &a_left, is_left ? &b_right : &b_left, levels - 1, &other))
        return -1;
    rest = further(way, other.low);
    if (receive_node(is_left ? &a_left : &a_right, is_left ? &b_left : &b_right, &rest, levels - 1,
                     &here)) {
        drop(&other);
        return -1;
    }
    return over_both(way, &here, &other, out);
}

static int
read_way(PyObject *path, Way *way)
{
    if (!PyUnicode_Check(path)) {
        PyErr_SetString(PyExc_TypeError, "an interval's path is text");
        return -1;
    }
    way->path = PyUnicode_AsUTF8AndSize(path, &way->length);
    way->least = LLONG_MIN; /* the whole has no sibling */
    return way->path == NULL ? -1 : 0;
}

static PyObject *
core_raise_interval(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    Node node, raised;
    Way way;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "raise_interval takes a tree and a path");
        return NULL;
    }
    if (read_way(args[1], &way) < 0 || read_node(args[0], &node) < 0)
        return NULL;
    return raise_node(&node, &way, MOST_LEVELS, &raised) < 0 ? NULL : taken(&raised);
}

/* A place in the queue of nodes; once it is read, one in the list of leaves. */
typedef union {
    PyObject *tree;
    unsigned long long height;
} Slot;

/* A tree by levels: which nodes have halves, and how far each leaf is above the least height. */
typedef struct {
    size_t room, nodes, leaves;
    Slot *slots;
    unsigned char *shape;
    Slot few_slots[FEW_NODES]; /* enough for most trees */
    unsigned char few_bits[FEW_NODES / 8];
} Levels;

static void
forget_levels(Levels *levels)
{
    if (levels->slots != levels->few_slots)
        PyMem_Free(levels->slots);
    if (levels->shape != levels->few_bits)
        PyMem_Free(levels->shape);
}

static int
double_room(Levels *levels)
{
    size_t room = levels->room;
    Slot *slots = PyMem_New(Slot, 2 * room);
    unsigned char *shape = PyMem_New(unsigned char, 2 * room / 8);
    if (slots == NULL || shape == NULL) {
        PyMem_Free(slots);
        PyMem_Free(shape);
        PyErr_NoMemory();
        return -1;
    }
    memcpy(slots, levels->slots, room * sizeof(Slot));
    memcpy(shape, levels->shape, room / 8);
    forget_levels(levels);
    levels->slots = slots;
    levels->shape = shape;
    levels->room = 2 * room;
    return 0;
}

/* The caller forgets the levels, even where this fails. */
static int
read_levels(const Node *root, Levels *levels)
{
    size_t read, there = 1, leaves = 0;
    levels->room = FEW_NODES;
    levels->slots = levels->few_slots;
    levels->shape = levels->few_bits;
    levels->slots[0].tree = root->tree;
    for (read = 0; read < there; read++) {
        Node node;
        if (read_node(levels->slots[read].tree, &node) < 0)
            return -1;
        if ((read & 7) == 0)
            levels->shape[read >> 3] = 0;
        if (node.low == node.high) { /* there are never more leaves than nodes read */
            unsigned long long least = (unsigned long long)root->low;
            levels->slots[leaves++].height = (unsigned long long)node.low - least;
            continue;
        }
        if (there + 2 > levels->room && double_room(levels) < 0)
            return -1;
        levels->shape[read >> 3] |= (unsigned char)(1 << (read & 7));
        levels->slots[there++].tree = PyTuple_GET_ITEM(node.tree, 2);
        levels->slots[there++].tree = PyTuple_GET_ITEM(node.tree, 3);
    }
    levels->nodes = there;
    levels->leaves = leaves;
    return 0;
}

static unsigned char *
put_varint(unsigned char *at, unsigned long long value)
{
    for (; value > 127; value >>= 7)
        *at++ = (unsigned char)(value & 127) | 128;
    *at++ = (unsigned char)value;
    return at;
}

/* The shape, then the heights byte by byte. */
static unsigned char *
put_levels(unsigned char *at, const Levels *levels, int width)
{
    size_t leaves = levels->leaves, size = (levels->nodes + 7) >> 3, i;
    int place;
    memcpy(at, levels->shape, size);
    at += size;
    for (i = 0; i < leaves; i++)
        *at++ = (unsigned char)levels->slots[i].height;
    for (place = 1; place < width; place++) {
        unsigned char *marks = at;
        size = (leaves + 7) >> 3;
        memset(marks, 0, size);
        at += size;
        for (i = 0; i < leaves; i++) {
            unsigned char byte = (unsigned char)(levels->slots[i].height >> 8 * place);
            if (byte) {
                marks[i >> 3] |= (unsigned char)(1 << (i & 7));
                *at++ = byte;
            }
        }
    }
    return at;
}

static PyObject *
packed_levels(const Node *root, const Levels *levels)
{
    unsigned char few[2048], *out = few, *at;
    unsigned long long spread = (unsigned long long)root->high - (unsigned long long)root->low;
    size_t leaves = levels->leaves, size;
    int width = 0;
    PyObject *packed;
    for (; spread; spread >>= 8)
        width++;
    size = 1 + 2 * 10 + (levels->nodes + 7) / 8 + (size_t)width * (leaves + (leaves + 7) / 8);
    if (size > sizeof(few) && (out = PyMem_Malloc(size)) == NULL)
        return PyErr_NoMemory();
    *out = (unsigned char)width;
    at = put_varint(out + 1, (unsigned long long)root->low);
    if (width)
        at = put_levels(put_varint(at, leaves), levels, width);
    packed = PyBytes_FromStringAndSize((char *)out, at - out);
    if (out != few)
        PyMem_Free(out);
    return packed;
}

static PyObject *
packed_node(const Node *root)
{
    Levels levels;
    PyObject *packed = read_levels(root, &levels) < 0 ? NULL : packed_levels(root, &levels);
    forget_levels(&levels);
    return packed;
}

static PyObject *
core_pack(PyObject *module, PyObject *tree)
{
    Node root;
    return read_node(tree, &root) < 0 ? NULL : packed_node(&root);
}

/* The tree with its interval's next event, which follows from what the others know as well. */
static int
receive_all(const Node *own, PyObject *const *others, Py_ssize_t count, const Way *way, Node *out)
{
    Node known = *own, other, joined;
    int failed;
    for (; count > 1; count--) {
        failed = read_node(*others++, &other) || join_nodes(&known, &other, MOST_LEVELS, &joined);
        if (!failed && joined.tree == known.tree)
            continue; /* it knew all that */
        drop(&known);
        if (failed)
            return -1;
        known = joined;
    }
    if (count == 0)
        return raise_node(&known, way, MOST_LEVELS, out);
    failed = read_node(*others, &other) || receive_node(&known, &other, way, MOST_LEVELS, out);
    drop(&known);
    return failed ? -1 : 0;
}

/* How high a tree is on the interval, which is level. */
static PyObject *
height_on(const Node *node, const Way *way)
{
    PyObject *tree = node->tree;
    Py_ssize_t depth;
    for (depth = 0; depth < way->length && PyTuple_GET_ITEM(tree, 2) != Py_None; depth++)
        tree = PyTuple_GET_ITEM(tree, way->path[depth] == '0' ? 2 : 3);
    return Py_NewRef(PyTuple_GET_ITEM(tree, 0));
}

/* A stamp like this one with another event tree. */
static PyObject *
stamp_with(PyObject *stamp, PyObject *path, PyObject *tree)
{
    PyObject *nothing = PyTuple_New(0), *made;
    if (nothing == NULL)
        return NULL;
    made = PyBaseObject_Type.tp_new(Py_TYPE(stamp), nothing, NULL);
    Py_DECREF(nothing);
    if (made != NULL &&
        (PyObject_SetAttr(made, id_name, path) < 0 || PyObject_SetAttr(made, event_name, tree) < 0))
        Py_CLEAR(made);
    return made;
}

/* The stamp, the height and the packed form. */
static PyObject *
received(PyObject *stamp, PyObject *path, const Way *way, const Node *node)
{
    PyObject *height = height_on(node, way);
    PyObject *after = stamp_with(stamp, path, node->tree);
    PyObject *packed = after == NULL ? NULL : packed_node(node);
    PyObject *result = packed == NULL ? NULL : PyTuple_Pack(3, after, height, packed);
    Py_DECREF(height);
    Py_XDECREF(after);
    Py_XDECREF(packed);
    return result;
}

static PyObject *
receive_trees(PyObject *stamp, PyObject *path, PyObject *const *trees, Py_ssize_t count)
{
    Node own, node;
    Way way;
    PyObject *result;
    if (read_way(path, &way) < 0 || read_node(trees[0], &own) < 0 ||
        receive_all(&own, trees + 1, count - 1, &way, &node) < 0)
        return NULL;
    result = received(stamp, path, &way, &node);
    drop(&node);
    return result;
}

static PyObject *
core_receive(PyObject *module, PyObject *const *stamps, Py_ssize_t count)
{
    PyObject *few[FEW_OTHERS], **trees = few, *path, *result = NULL;
    Py_ssize_t there = 0;
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "receive takes at least one stamp");
        return NULL;
    }
    path = PyObject_GetAttr(stamps[0], id_name);
    if (path == NULL)
        return NULL;
    if (count > FEW_OTHERS && (trees = PyMem_New(PyObject *, count)) == NULL) {
        Py_DECREF(path);
        return PyErr_NoMemory();
    }
    while (there < count && (trees[there] = PyObject_GetAttr(stamps[there], event_name)) != NULL)
        there++;
    if (there == count)
        result = receive_trees(stamps[0], path, trees, count);
    while (there > 0)
        Py_DECREF(trees[--there]);
    if (trees != few)
        PyMem_Free(trees);
    Py_DECREF(path);
    return result;
}

static PyMethodDef methods[] = {
    {"join", (PyCFunction)(void (*)(void))core_join, METH_FASTCALL,
     "join(a, b): what itc.events.join gives."},
    {"raise_interval", (PyCFunction)(void (*)(void))core_raise_interval, METH_FASTCALL,
     "raise_interval(tree, path): what itc.events.raise_interval gives."},
    {"receive", (PyCFunction)(void (*)(void))core_receive, METH_FASTCALL,
     "receive(stamp, *others): what itc.messages.receive gives."},
    {"pack", core_pack, METH_O, "pack(tree): what itc.packed.pack gives of a stamp with that tree."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_core", "The operations that every event takes, compiled.", 0, methods,
};

PyMODINIT_FUNC
PyInit__core(void)
{
    if ((id_name = PyUnicode_InternFromString("_id")) == NULL ||
        (event_name = PyUnicode_InternFromString("_event")) == NULL)
        return NULL;
    return PyModuleDef_Init(&definition);
}
