/* The text of a packed stamp, as packed_text of itc/packed.py makes it, which is the reference.
 *
 * Bytes that `pack` never gives, and heights beyond 63 bits, give None: the caller then turns to
 * Python, which knows what is wrong with them.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#define MOST_WIDTH 8
#define MOST_HEIGHT 0x7fffffffffffffffULL
/* The longest that a node adds: two brackets, a comma, a space and 19 digits. */
#define NODE_CHARACTERS 24

typedef unsigned long long Height;

/* What is left to read. */
typedef struct {
    const unsigned char *at, *end;
} Rest;

/* A node by levels: its least height, and its left half's place, or 0 where it has none. */
typedef struct {
    Height low;
    Py_ssize_t left;
} Node;

/* A node that is to be written: under which height, and how many brackets close after it. */
typedef struct {
    Py_ssize_t place, closing;
    Height base;
} Due;

static int
read_number(Rest *rest, Height *number)
{
    const unsigned char *first = rest->at;
    int shift = 0;
    *number = 0;
    for (; rest->at < rest->end && shift < 63; shift += 7) {
        unsigned char byte = *rest->at++;
        *number |= (Height)(byte & 127) << shift;
        if (byte < 128)
            return byte == 0 && rest->at - first > 1 ? -1 : 0;
    }
    return -1;
}

static inline int
bit_of(const unsigned char *bits, Py_ssize_t place)
{
    return bits[place >> 3] >> (place & 7) & 1;
}

/* Whether the bits behind the last one, in its byte, are not set. */
static inline int
is_padded(const unsigned char *bits, Py_ssize_t count)
{
    return (count & 7) == 0 || bits[count >> 3] >> (count & 7) == 0;
}

/* Number the halves; the leaves must be as many as there should be. */
static int
read_shape(Rest *rest, Node *nodes, Py_ssize_t count)
{
    const unsigned char *bits = rest->at;
    Py_ssize_t place, halved = 0;
    if (rest->end - rest->at < (count + 7) / 8 || !is_padded(bits, count))
        return -1;
    rest->at += (count + 7) / 8;
    for (place = 0; place < count; place++) {
        nodes[place].low = 0;
        nodes[place].left = 0;
        if (bit_of(bits, place)) {
            nodes[place].left = 2 * halved++ + 1;
            if (nodes[place].left <= place)
                return -1;
        }
    }
    return halved == count / 2 ? 0 : -1;
}

/* Add a byte to the leaves that have one: all of them have the lowest. */
static int
read_plane(Rest *rest, Node *nodes, Py_ssize_t count, int place)
{
    const unsigned char *marks = NULL;
    Py_ssize_t leaves = count / 2 + 1, leaf = 0, node;
    if (place > 0) {
        marks = rest->at;
        if (rest->end - rest->at < (leaves + 7) / 8 || !is_padded(marks, leaves))
            return -1;
        rest->at += (leaves + 7) / 8;
    }
    for (node = 0; node < count; node++) {
        if (nodes[node].left)
            continue;
        if (marks == NULL || bit_of(marks, leaf)) {
            if (rest->at == rest->end || (place > 0 && *rest->at == 0))
                return -1;
            nodes[node].low |= (Height)*rest->at++ << 8 * place;
        }
        leaf++;
    }
    return 0;
}

/* Put the leaves where they are, and find each node's least height, from the last one on. */
static int
find_lows(Node *nodes, Py_ssize_t count, Height least, int width)
{
    Height lowest = MOST_HEIGHT, highest = 0;
    Py_ssize_t place;
    for (place = count - 1; place >= 0; place--) {
        Node *node = nodes + place, *left = nodes + node->left, *right = left + 1;
        if (node->left) {
            if (left->low == right->low && !left->left && !right->left)
                return -1;
            node->low = left->low < right->low ? left->low : right->low;
            continue;
        }
        if (node->low > MOST_HEIGHT - least)
            return -1;
        lowest = node->low < lowest ? node->low : lowest;
        highest = node->low > highest ? node->low : highest;
        node->low += least;
    }
    return lowest == 0 && highest >> 8 * (width - 1) ? 0 : -1;
}

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

/* A node, its left half, its right half; `due` has room for all leaves. */
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
            memset(at, ')', (size_t)here.closing);
            at += here.closing;
        }
    }
    return at;
}

/* None if the bytes are not what they should be. */
static PyObject *
text_of(Rest rest, Node *nodes, Py_ssize_t count, Height least, int width)
{
    PyObject *text;
    Due *due = (Due *)(nodes + count);
    char *out = (char *)(due + count / 2 + 2), *end;
    int place;
    if (read_shape(&rest, nodes, count) < 0)
        Py_RETURN_NONE;
    for (place = 0; place < width; place++)
        if (read_plane(&rest, nodes, count, place) < 0)
            Py_RETURN_NONE;
    if (rest.at != rest.end || find_lows(nodes, count, least, width) < 0)
        Py_RETURN_NONE;
    end = put_tree(out, nodes, due);
    text = PyUnicode_New(end - out, 127);
    if (text != NULL)
        memcpy(PyUnicode_1BYTE_DATA(text), out, (size_t)(end - out));
    return text;
}

static PyObject *
text_of_halves(Rest rest, Height least, int width)
{
    Height leaves;
    Py_ssize_t count;
    void *room;
    PyObject *text;
    /* Each leaf has a byte, so bytes that are there bound what is asked for. */
    if (read_number(&rest, &leaves) < 0 || leaves < 2 || leaves > (Height)(rest.end - rest.at))
        Py_RETURN_NONE;
    count = 2 * (Py_ssize_t)leaves - 1;
    room = PyMem_Malloc((size_t)count * (sizeof(Node) + NODE_CHARACTERS) +
                        ((size_t)leaves + 1) * sizeof(Due));
    if (room == NULL)
        return PyErr_NoMemory();
    text = text_of(rest, room, count, least, width);
    PyMem_Free(room);
    return text;
}

static PyObject *
event_text(PyObject *module, PyObject *data)
{
    Py_buffer view;
    PyObject *text;
    Rest rest;
    Height least;
    int width;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    rest.at = view.buf;
    rest.end = rest.at + view.len;
    width = view.len ? *rest.at++ : MOST_WIDTH + 1;
    if (width > MOST_WIDTH || read_number(&rest, &least) < 0)
        text = Py_NewRef(Py_None);
    else if (width == 0)
        text = rest.at == rest.end ? PyUnicode_FromFormat("%llu", least) : Py_NewRef(Py_None);
    else
        text = text_of_halves(rest, least, width);
    PyBuffer_Release(&view);
    return text;
}

static PyMethodDef methods[] = {
    {"event_text", event_text, METH_O,
     "event_text(data): the event component of packed bytes in the paper's notation, or None."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_text", "The text of packed stamps, compiled.", 0, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__text(void)
{
    return PyModule_Create(&definition);
}
