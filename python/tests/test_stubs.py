"""The stubs say what is there: no more, no less."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import plasmon
from plasmon import _native

STUB = ast.parse((Path(plasmon.__file__).parent / "_native.pyi").read_text())
CLASSES = {
    node.name: node
    for node in STUB.body
    if isinstance(node, ast.ClassDef) and "TypedDict" not in map(ast.unparse, node.bases)
}
FUNCTIONS = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}
VARIABLES = {node.target.id for node in STUB.body if isinstance(node, ast.AnnAssign)}

# What every class has, and what the interpreter makes of one slot.
INHERITED = set(dir(object)) | {"__weakref__", "__dict__", "__module__"}
# One of the two is there, as fits what the object holds: tested with buffers.
DYNAMIC = {"__arrow_c_array__", "__arrow_c_stream__"}
# Python shows the buffer protocol as a method from 3.12 on.
SLOTS = {"__buffer__", "__release_buffer__", "__getattr__"}


def members(node):
    """The names in a class of the stub, with the arguments of its methods."""
    found = {}
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            decorators = {ast.unparse(decorator) for decorator in item.decorator_list}
            if "overload" in decorators and item.name in found:
                continue
            is_property = any(one == "property" or one.endswith(".setter") for one in decorators)
            found[item.name] = None if is_property else item.args
        elif isinstance(item, ast.AnnAssign):
            found[item.target.id] = None
    return found


def test_the_module_has_what_the_stub_says():
    public = {name for name in dir(_native) if not name.startswith("__")} | {"__version__"}
    assert public - {"__all__"} == CLASSES.keys() | FUNCTIONS.keys() | VARIABLES


@pytest.mark.parametrize("name", CLASSES)
def test_classes_have_what_the_stub_says(name):
    kind, stubbed = getattr(_native, name), members(CLASSES[name])
    there = set(dir(kind)) - INHERITED
    assert there - SLOTS - DYNAMIC == stubbed.keys() - INHERITED - DYNAMIC - SLOTS
    is_final = any(ast.unparse(one) == "final" for one in CLASSES[name].decorator_list)
    assert is_final != bool(kind.__flags__ & (1 << 10)), "the stub is wrong about subclasses"


def arguments(args):
    """Names and defaults of a function in the stub."""
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + args.defaults
    pairs = [
        *zip(plain, defaults, strict=True),
        *zip(args.kwonlyargs, args.kw_defaults, strict=True),
    ]
    return [
        (argument.arg, None if default is None else ast.literal_eval(default))
        for argument, default in pairs
        if argument.arg not in {"self", "cls"}
    ]


def real(function):
    """The same of a function that is there."""
    kinds = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    return [
        (name, None if one.default is inspect.Parameter.empty else one.default)
        for name, one in inspect.signature(function).parameters.items()
        if one.kind not in kinds and name not in {"self", "cls"}
    ]


@pytest.mark.parametrize("name", CLASSES)
def test_methods_take_what_the_stub_says(name):
    kind = getattr(_native, name)
    for method, args in members(CLASSES[name]).items():
        plain = not method.startswith("__") or method == "__dlpack__"
        if args is not None and plain:
            assert real(getattr(kind, method)) == arguments(args), f"{name}.{method}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_what_the_stub_says(name):
    assert real(getattr(_native, name)) == arguments(FUNCTIONS[name].args)


def test_what_is_public_is_documented():
    for name in plasmon.__all__:
        thing = getattr(plasmon, name)
        assert not callable(thing) or inspect.getdoc(thing), name
    for kind in (plasmon.Store, plasmon.Buffer, plasmon.Writer, plasmon.ObjectId):
        for name in dir(kind):
            if not name.startswith("_"):
                assert inspect.getdoc(getattr(kind, name)), f"{kind.__name__}.{name}"


def test_the_data_classes_have_the_fields_that_the_daemon_sends(store):
    import dataclasses

    status = {field.name for field in dataclasses.fields(plasmon.Status)}
    assert status == store._fields("status").keys()
    client = {field.name for field in dataclasses.fields(plasmon.ClientInfo)}
    assert client == store._fields("clients")[0].keys()
    info = store._stat_fields(store.put(b""))
    assert len(info) == len(dataclasses.fields(plasmon.ObjectInfo))
