/* The floor of reading: the same objects made by CPython's own functions, and nothing else.
 *
 * What lies in flat columns of numbers and strings is made into lists, dicts, sets, tuples and
 * objects, with the collector off: no format, no checks, no types to find out. No reader that
 * makes Python's own objects can be faster; the time above it is the reader's own.
 *
 * A column is a tuple: its letter, and what it is made of.
 *
 *   "i" int64s    "f" doubles    "s" strings in ASCII, their lengths as int64s
 *   "S" a column of strings, two for each set    "t" columns, one for each item of a tuple
 *   "o" a class, the names of its attributes, columns of their values
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define PARTS_MAX 8

typedef struct Column {
    char kind;
    const char *data;
    const int64_t *lengths;
    PyTypeObject *type;
    PyObject *names;
    Py_ssize_t count;
    struct Column *parts[PARTS_MAX];
} Column;

static void release(Column *column) {
    if (column == NULL) {
        return;
    }
    for (Py_ssize_t at = 0; at < column->count; at++) {
        release(column->parts[at]);
    }
    PyMem_Free(column);
}

static Column *parse(PyObject *told);

static int parse_parts(Column *column, PyObject *parts) {
    if (!PyTuple_Check(parts) || PyTuple_GET_SIZE(parts) > PARTS_MAX) {
        PyErr_SetString(PyExc_TypeError, "parts are a tuple of at most 8 columns");
        return -1;
    }
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(parts); at++) {
        column->parts[at] = parse(PyTuple_GET_ITEM(parts, at));
        if (column->parts[at] == NULL) {
            return -1;
        }
        column->count++;
    }
    return 0;
}

/* Borrows from what it is told of, which lives as long as the call. */
static Column *parse(PyObject *told) {
    const char *kind;
    PyObject *first, *second = NULL, *third = NULL;
    if (!PyArg_ParseTuple(told, "sO|OO", &kind, &first, &second, &third)) {
        return NULL;
    }
    Column *column = PyMem_Calloc(1, sizeof(Column));
    if (column == NULL) {
        return (Column *)PyErr_NoMemory();
    }
    column->kind = kind[0];
    int outcome = 0;
    switch (kind[0]) {
    case 's':
        column->lengths = (const int64_t *)PyBytes_AsString(second);
        /* fall through */
    case 'i':
    case 'f':
        column->data = PyBytes_AsString(first);
        outcome = column->data == NULL ? -1 : 0;
        break;
    case 'S':
    case 't':
        outcome = parse_parts(column, first);
        break;
    case 'o':
        column->type = (PyTypeObject *)first;
        column->names = second;
        outcome = parse_parts(column, third);
        break;
    default:
        PyErr_Format(PyExc_ValueError, "no column %s", kind);
        outcome = -1;
    }
    if (outcome != 0) {
        release(column);
        return NULL;
    }
    return column;
}

static PyObject *next(Column *column);

static PyObject *next_text(Column *column) {
    Py_ssize_t length = (Py_ssize_t)*column->lengths++;
    PyObject *made = PyUnicode_New(length, 127);
    if (made != NULL) {
        memcpy(PyUnicode_1BYTE_DATA(made), column->data, (size_t)length);
        column->data += length;
    }
    return made;
}

static PyObject *next_set(Column *column) {
    PyObject *made = PySet_New(NULL);
    for (int at = 0; made != NULL && at < 2; at++) {
        PyObject *item = next(column->parts[0]);
        if (item == NULL || PySet_Add(made, item) != 0) {
            Py_CLEAR(made);
        }
        Py_XDECREF(item);
    }
    return made;
}

static PyObject *next_tuple(Column *column) {
    PyObject *made = PyTuple_New(column->count);
    for (Py_ssize_t at = 0; made != NULL && at < column->count; at++) {
        PyObject *item = next(column->parts[at]);
        if (item == NULL) {
            Py_CLEAR(made);
        } else {
            PyTuple_SET_ITEM(made, at, item);
        }
    }
    return made;
}

static PyObject *next_object(Column *column) {
    PyObject *none = PyTuple_New(0);
    PyObject *made = none == NULL ? NULL : PyBaseObject_Type.tp_new(column->type, none, NULL);
    Py_XDECREF(none);
    for (Py_ssize_t at = 0; made != NULL && at < column->count; at++) {
        PyObject *value = next(column->parts[at]);
        PyObject *name = PyTuple_GET_ITEM(column->names, at);
        if (value == NULL || PyObject_GenericSetAttr(made, name, value) != 0) {
            Py_CLEAR(made);
        }
        Py_XDECREF(value);
    }
    return made;
}

static PyObject *next(Column *column) {
    switch (column->kind) {
    case 'i': {
        int64_t value = *(const int64_t *)column->data;
        column->data += sizeof value;
        return PyLong_FromLongLong(value);
    }
    case 'f': {
        double value = *(const double *)column->data;
        column->data += sizeof value;
        return PyFloat_FromDouble(value);
    }
    case 's':
        return next_text(column);
    case 'S':
        return next_set(column);
    case 't':
        return next_tuple(column);
    default:
        return next_object(column);
    }
}

static PyObject *list_of(Py_ssize_t count, Column *items) {
    PyObject *made = PyList_New(count);
    for (Py_ssize_t at = 0; made != NULL && at < count; at++) {
        PyObject *item = next(items);
        if (item == NULL) {
            Py_CLEAR(made);
        } else {
            PyList_SET_ITEM(made, at, item);
        }
    }
    return made;
}

static PyObject *dict_of(Py_ssize_t count, Column *keys, Column *values) {
    PyObject *made = _PyDict_NewPresized(count);
    for (Py_ssize_t at = 0; made != NULL && at < count; at++) {
        PyObject *key = next(keys), *value = next(values);
        if (key == NULL || value == NULL || PyDict_SetItem(made, key, value) != 0) {
            Py_CLEAR(made);
        }
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return made;
}

/* make(count, items) is a list, make(count, keys, values) a dict. */
static PyObject *make(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_ssize_t count;
    PyObject *first, *second = NULL, *made = NULL;
    if (!PyArg_ParseTuple(arguments, "nO|O", &count, &first, &second)) {
        return NULL;
    }
    Column *items = parse(first), *values = NULL;
    if (items != NULL && (second == NULL || (values = parse(second)) != NULL)) {
        int was_on = PyGC_Disable();
        made = second == NULL ? list_of(count, items) : dict_of(count, items, values);
        if (was_on) {
            PyGC_Enable();
        }
    }
    release(items);
    release(values);
    return made;
}

static PyMethodDef METHODS[] = {
    {"make", make, METH_VARARGS, "The objects in columns: a list, or a dict of keys and values."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "floor", NULL, -1, METHODS, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_floor(void) { return PyModule_Create(&MODULE); }
