/* The operations that every event takes, compiled: join and raise_interval of itc/events.py, and the
 * packing of itc/packed.py. Those are the reference; what is here gives the same trees (the very
 * same objects where nothing changes) and the same bytes.
 *
 * A tree is a tuple (lowest, highest, left, right) as itc/nodes.py has it. Heights beyond 63 bits
 * raise OverflowError, trees deeper than the stack RecursionError: the callers then turn to Python.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>

/* A tree's root; objects are borrowed. */
typedef struct {
    long long low, high;
    PyObject *tree, *left, *right; /* None for the halves of a leaf */
} Node;

/* A height, or -1 with an exception. Most have one digit, which is there without a call. */
static inline long long
height_of(PyObject *number)
{
#if PY_VERSION_HEX >= 0x030C0000
    if (PyLong_CheckExact(number) && PyUnstable_Long_IsCompact((PyLongObject *)number))
        return PyUnstable_Long_CompactValue((PyLongObject *)number);
#else
    if (PyLong_CheckExact(number) && Py_SIZE(number) == 1)
        return ((PyLongObject *)number)->ob_digit[0];
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
    node->low = height_of(PyTuple_GET_ITEM(tree, 0));
    node->high = height_of(PyTuple_GET_ITEM(tree, 1));
    node->left = PyTuple_GET_ITEM(tree, 2);
    node->right = PyTuple_GET_ITEM(tree, 3);
    if ((node->low == -1 || node->high == -1) && PyErr_Occurred())
        return -1;
    return 0;
}

static PyObject *
new_tree(PyObject *low, PyObject *high, PyObject *left, PyObject *right)
{
    PyObject *tree = PyTuple_New(4);
    if (tree != NULL) {
        PyTuple_SET_ITEM(tree, 0, Py_NewRef(low));
        PyTuple_SET_ITEM(tree, 1, Py_NewRef(high));
        PyTuple_SET_ITEM(tree, 2, Py_NewRef(left));
        PyTuple_SET_ITEM(tree, 3, Py_NewRef(right));
    }
    return tree;
}

/* The tree over two halves, in normal form. Takes over the references to both. */
static PyObject *
over(PyObject *left, PyObject *right)
{
    Node l, r;
    PyObject *tree = NULL;
    if (read_node(left, &l) == 0 && read_node(right, &r) == 0) {
        PyObject *lower = l.low < r.low ? left : right;
        PyObject *higher = l.high > r.high ? left : right;
        if (l.low == r.high && r.low == l.high)
            tree = Py_NewRef(left); /* both are level, at one height */
        else
            tree = new_tree(PyTuple_GET_ITEM(lower, 0), PyTuple_GET_ITEM(higher, 1), left, right);
    }
    Py_DECREF(left);
    Py_DECREF(right);
    return tree;
}

static PyObject *join_nodes(const Node *a, const Node *b);

static inline PyObject *
join_trees(PyObject *a, PyObject *b)
{
    Node x, y;
    if (a == b)
        return Py_NewRef(a);
    if (read_node(a, &x) < 0 || read_node(b, &y) < 0)
        return NULL;
    if (x.low >= y.high)
        return Py_NewRef(a);
    if (y.low >= x.high)
        return Py_NewRef(b);
    return join_nodes(&x, &y);
}

/* The join of two trees of which neither is above the other. */
static PyObject *
join_nodes(const Node *a, const Node *b)
{
    PyObject *left, *right;
    int is_a_level = a->low == a->high, is_b_level = b->low == b->high;
    PyObject *a_left = is_a_level ? a->tree : a->left, *a_right = is_a_level ? a->tree : a->right;
    PyObject *b_left = is_b_level ? b->tree : b->left, *b_right = is_b_level ? b->tree : b->right;
    if (Py_EnterRecursiveCall(" in a join of event trees"))
        return NULL;
    left = join_trees(a_left, b_left);
    right = left == NULL ? NULL : join_trees(a_right, b_right);
    Py_LeaveRecursiveCall();
    if (right == NULL) {
        Py_XDECREF(left);
        return NULL;
    }
    if ((left == a_left && right == a_right) || (left == b_left && right == b_right)) {
        PyObject *same = left == a_left && right == a_right ? a->tree : b->tree;
        Py_DECREF(left);
        Py_DECREF(right);
        return Py_NewRef(same);
    }
    return over(left, right);
}

static PyObject *
core_join(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "join takes two trees");
        return NULL;
    }
    return join_trees(args[0], args[1]);
}

/* The level tree `ground`, raised to `height` on the interval of the path's rest. Takes over
 * nothing. */
static PyObject *
raised(PyObject *ground, PyObject *height, const char *path, Py_ssize_t depth)
{
    PyObject *low = PyTuple_GET_ITEM(ground, 0);
    PyObject *tree = new_tree(height, height, Py_None, Py_None);
    while (tree != NULL && depth-- > 0) {
        int is_left = path[depth] == '0';
        PyObject *above =
            new_tree(low, height, is_left ? tree : ground, is_left ? ground : tree);
        Py_DECREF(tree);
        tree = above;
    }
    return tree;
}

/* Puts the tree, which is higher, in place of what was below the nodes along the path. Takes over
 * the reference to the tree. */
static PyObject *
replaced(PyObject *const *above, const char *path, Py_ssize_t depth, PyObject *tree)
{
    while (tree != NULL && depth-- > 0) {
        int is_left = path[depth] == '0';
        PyObject *other = Py_NewRef(PyTuple_GET_ITEM(above[depth], is_left ? 3 : 2));
        tree = is_left ? over(tree, other) : over(other, tree);
    }
    return tree;
}

static PyObject *
raised_along(PyObject *tree, const char *path, Py_ssize_t length, PyObject **above)
{
    Node here;
    long long height;
    PyObject *number, *top;
    Py_ssize_t depth = 0;
    if (read_node(tree, &here) < 0)
        return NULL;
    while (depth < length && here.low != here.high) {
        above[depth] = tree;
        tree = path[depth++] == '0' ? here.left : here.right;
        if (read_node(tree, &here) < 0)
            return NULL;
    }
    height = here.high;
    if (depth == length && depth > 0) {
        Node sibling;
        PyObject *parent = above[depth - 1];
        if (read_node(PyTuple_GET_ITEM(parent, path[depth - 1] == '0' ? 3 : 2), &sibling) < 0)
            return NULL;
        if (sibling.low > height)
            height = sibling.low;
    }
    if (height == here.low) {
        if (height == LLONG_MAX) {
            PyErr_SetString(PyExc_OverflowError, "a height beyond 63 bits");
            return NULL;
        }
        height += 1;
    }
    number = PyLong_FromLongLong(height);
    if (number == NULL)
        return NULL;
    top = raised(tree, number, path + depth, length - depth);
    Py_DECREF(number);
    return replaced(above, path, depth, top);
}

static PyObject *
core_raise_interval(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t length;
    const char *path;
    PyObject **above, *result;
    if (count != 2 || !PyUnicode_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "raise_interval takes a tree and a path");
        return NULL;
    }
    path = PyUnicode_AsUTF8AndSize(args[1], &length);
    if (path == NULL)
        return NULL;
    above = PyMem_New(PyObject *, length + 1);
    if (above == NULL)
        return PyErr_NoMemory();
    result = raised_along(args[0], path, length, above);
    PyMem_Free(above);
    return result;
}

/* Every node of a tree by levels; the caller frees the array, whose members are borrowed. */
static PyObject **
by_levels(PyObject *tree, size_t *count)
{
    size_t room = 256, read = 0, there = 1;
    PyObject **nodes = PyMem_New(PyObject *, room);
    if (nodes == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    nodes[0] = tree;
    for (; read < there; read++) {
        Node node;
        if (read_node(nodes[read], &node) < 0)
            break;
        if (node.low == node.high)
            continue;
        if (there + 2 > room) {
            PyObject **more = PyMem_Realloc(nodes, 2 * room * sizeof(PyObject *));
            if (more == NULL) {
                PyErr_NoMemory();
                break;
            }
            nodes = more;
            room *= 2;
        }
        nodes[there++] = node.left;
        nodes[there++] = node.right;
    }
    if (read < there) {
        PyMem_Free(nodes);
        return NULL;
    }
    *count = there;
    return nodes;
}

static unsigned char *
put_varint(unsigned char *at, unsigned long long value)
{
    for (; value > 127; value >>= 7)
        *at++ = (unsigned char)(value & 127) | 128;
    *at++ = (unsigned char)value;
    return at;
}

static void
set_bit(unsigned char *bits, size_t place)
{
    bits[place >> 3] |= (unsigned char)(1 << (place & 7));
}

/* The shape, then the heights byte by byte, into zeroed memory. */
static unsigned char *
put_nodes(unsigned char *at, PyObject **nodes, size_t count, int width, unsigned long long *heights)
{
    long long least = PyLong_AsLongLong(PyTuple_GET_ITEM(nodes[0], 0));
    size_t leaves = 0, i;
    int place;
    for (i = 0; i < count; i++) {
        Node node;
        read_node(nodes[i], &node); /* read before, so it can be */
        if (node.low == node.high)
            heights[leaves++] = (unsigned long long)(node.low - least);
        else
            set_bit(at, i);
    }
    at += (count + 7) >> 3;
    for (i = 0; i < leaves; i++)
        *at++ = (unsigned char)heights[i];
    for (place = 1; place < width; place++) {
        unsigned char *marks = at;
        at += (leaves + 7) >> 3;
        for (i = 0; i < leaves; i++) {
            unsigned char byte = (unsigned char)(heights[i] >> 8 * place);
            if (byte) {
                set_bit(marks, i);
                *at++ = byte;
            }
        }
    }
    return at;
}

static PyObject *
pack_nodes(PyObject **nodes, size_t count)
{
    Node root;
    int width = 0;
    unsigned long long spread;
    size_t leaves = (count + 1) / 2, planes;
    unsigned char *out, *at;
    unsigned long long *heights;
    PyObject *packed = NULL;
    read_node(nodes[0], &root);
    for (spread = (unsigned long long)(root.high - root.low); spread; spread >>= 8)
        width++;
    planes = (size_t)width * (leaves + (leaves + 7) / 8);
    out = PyMem_Calloc(1 + 2 * 10 + (count + 7) / 8 + planes, 1);
    heights = PyMem_New(unsigned long long, leaves);
    if (out == NULL || heights == NULL) {
        PyErr_NoMemory();
    } else {
        *out = (unsigned char)width;
        at = put_varint(out + 1, (unsigned long long)root.low);
        if (width)
            at = put_nodes(put_varint(at, leaves), nodes, count, width, heights);
        packed = PyBytes_FromStringAndSize((char *)out, at - out);
    }
    PyMem_Free(out);
    PyMem_Free(heights);
    return packed;
}

static PyObject *
core_pack(PyObject *module, PyObject *tree)
{
    size_t count;
    PyObject **nodes = by_levels(tree, &count), *packed;
    if (nodes == NULL)
        return NULL;
    packed = pack_nodes(nodes, count);
    PyMem_Free(nodes);
    return packed;
}

static PyMethodDef methods[] = {
    {"join", (PyCFunction)(void (*)(void))core_join, METH_FASTCALL,
     "join(a, b): what itc.events.join gives."},
    {"raise_interval", (PyCFunction)(void (*)(void))core_raise_interval, METH_FASTCALL,
     "raise_interval(tree, path): what itc.events.raise_interval gives."},
    {"pack", core_pack, METH_O, "pack(tree): what itc.packed.pack gives of a stamp with that tree."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_core", "The operations that every event takes, compiled.", 0, methods,
};

PyMODINIT_FUNC
PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
