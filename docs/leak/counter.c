/* A C extension for Python that forgets what it allocates: see docs/observe.md.
   cc -g -O1 -shared -fPIC $(python3-config --includes) -o counter.so counter.c */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>

/* The words of a text. Its copy is never freed. */
static long count(const char *text) {
    char *copy = malloc(1100), *rest;
    long words = 0;
    strncpy(copy, text, 1099);
    copy[1099] = 0;
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) words++;
    return words;
}

static PyObject *words(PyObject *self, PyObject *text) {
    const char *bytes = PyUnicode_AsUTF8(text);
    return bytes ? PyLong_FromLong(count(bytes)) : NULL;
}

static PyMethodDef functions[] = {{"words", words, METH_O, "Count the words of a text."}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "counter", NULL, -1, functions};
PyMODINIT_FUNC PyInit_counter(void) { return PyModule_Create(&module); }
