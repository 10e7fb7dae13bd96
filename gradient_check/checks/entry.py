"""Checks whether the function that a server calls may have a mode decorator.

torch's decorators set a mode for one call. Code that runs after that call, the body of a coroutine
or of a generator, runs without the mode; only a generator function that is decorated itself is
resumed in its mode. A function that returns such a body is recognised by its source or its return
annotation; it is not called.
"""

import ast
import inspect
import textwrap
import tokenize
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator, Mapping
from types import CodeType
from typing import Any, get_origin

from gradient_check.findings.examination import Examination
from gradient_check.instruments.sources import definition

_LATER = (Iterator, AsyncIterable, Awaitable)
_VALUES = (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Constant, ast.ListComp, ast.JoinedStr)
_BODY_LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def judge_entry(exam: Examination, entry: Callable[..., object]) -> None:
    """Fail a mode decorator on a function whose body runs later, when the mode has ended."""
    wrapper = next(filter(_is_of_a_mode, _layers(entry)), None)
    if wrapper is None or inspect.isgeneratorfunction(wrapper):
        return
    function = inspect.unwrap(wrapper)
    how = _how_it_waits(function, entry)
    if how is not None:
        exam.add(
            "FAIL",
            "async-decorated",
            f"{function.__qualname__} {how} and decorated with torch's {_mode_behind(wrapper)}: "
            "the mode ends before the body runs, and the wrapper is no longer seen as async. "
            "Remove the decorator, and set the mode around the synchronous calls inside.",
            line=definition(function),
        )


def _layers(function: Any) -> Iterator[Any]:  # noqa: ANN401 - a function, a method or a partial
    """Yield the function and those that it wraps, outermost first."""
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", getattr(function, "func", None))


def _is_of_a_mode(function: object) -> bool:
    """Return whether a torch mode's class has made this wrapper."""
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename.endswith("_contextlib.py")


def _mode_behind(wrapper: Callable[..., object]) -> str:
    """Return the name of the mode's class, which torch's wrapper holds in its closure."""
    for cell in wrapper.__closure__ or ():
        owner = getattr(cell.cell_contents, "__self__", cell.cell_contents)
        if type(owner).__module__.startswith("torch."):
            return type(owner).__name__
    return "mode"


def _how_it_waits(function: Callable[..., object], entry: object) -> str | None:
    """Return how a function defers a body, its own or another's; None if it defers none."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "is async"
    if inspect.isgeneratorfunction(function):
        return "is a generator, wrapped by a plain function"
    returned = _returned(function)
    names = _names_in(function, entry) if returned else {}
    if any(_waits(value, names) for value in returned):
        return "returns a generator or coroutine"
    is_ready = bool(returned) and all(_is_ready(value) for value in returned)
    if _promises_later(function) and not is_ready:
        return "is annotated as returning an iterator or awaitable"
    return None


def _returned(function: Callable[..., object]) -> list[ast.expr]:
    """Yield the returned expressions, a local variable replaced by its value."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):
        # made at run time, or a lambda inside a line
        return []
    parts = [part for each in ast.iter_child_nodes(tree.body[0]) for part in _inside(each)]
    variables = {
        part.targets[0].id: part.value
        for part in parts
        if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name)
    }
    values = [part.value for part in parts if isinstance(part, ast.Return) and part.value]
    return [variables.get(each.id, each) if isinstance(each, ast.Name) else each for each in values]


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all nodes below it that belong to the same function."""
    yield node
    if not isinstance(node, _SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from _inside(child)


def _names_in(function: Callable[..., object], entry: object) -> Mapping[str, object]:
    """Return the values of the names in a function, if they are known before a call."""
    found = inspect.getclosurevars(function)
    names = {**found.builtins, **found.globals, **found.nonlocals}
    consts = function.__code__.co_consts  # contains the code of inner functions
    names |= {each.co_name: each for each in consts if isinstance(each, CodeType)}
    class_name, _, _ = function.__qualname__.rpartition(".")
    owner = getattr(entry, "__self__", function.__globals__.get(class_name))
    first = next(iter(inspect.signature(function).parameters), None)
    return names | ({first: owner} if first and owner is not None else {})


def _waits(value: ast.expr, names: Mapping[str, object]) -> bool:
    """Return whether an expression is a generator, or a call that returns one or a coroutine."""
    if not isinstance(value, ast.Call):
        return isinstance(value, ast.GeneratorExp)
    called = _find(value.func, names)
    if isinstance(called, CodeType):
        return bool(called.co_flags & _BODY_LATER)
    code = getattr(inspect.unwrap(called), "__code__", None) if callable(called) else None
    return called is map or called is filter or bool(code and code.co_flags & _BODY_LATER)


def _find(node: ast.expr, names: Mapping[str, object]) -> object:
    """Return the value of `name` or `name.attribute`, or None."""
    if isinstance(node, ast.Attribute):
        return getattr(_find(node.value, names), node.attr, None)
    return names.get(node.id) if isinstance(node, ast.Name) else None


def _is_ready(value: ast.expr) -> bool:
    """Return whether an expression is a value, or an iterator over an existing one."""
    is_iter = isinstance(value, ast.Call) and ast.unparse(value.func) == "iter"
    return is_iter or isinstance(value, _VALUES)


def _promises_later(function: Callable[..., object]) -> bool:
    """Return whether the annotation is an iterator or awaitable other than a class of files."""
    try:
        annotation = inspect.get_annotations(function, eval_str=True).get("return")
    except Exception:  # noqa: BLE001 - an annotation in quotes may be any expression
        return False
    origin = get_origin(annotation) or annotation
    return any(each in getattr(origin, "__mro__", ()) for each in _LATER)
