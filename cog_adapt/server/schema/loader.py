"""Finds the serving function of a reference such as `predict.py:Predictor`.

Loads the file and picks the function, as coglet does. Two facts that leave no trace at run time are
read from the source, as in Cog: `@cog.streaming`, and whether an `Input()` names a default.
"""

import ast
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import cog

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.protocol import Kind

Target = type[Any] | Callable[..., Any]

_METHODS: Mapping[Kind, tuple[str, ...]] = {"predict": ("run", "predict"), "train": ("train",)}
_FRAMEWORK = (cog.BaseRunner, cog.BasePredictor, object)


@dataclass(frozen=True)
class Handler:
    """The function that serves predictions or trainings.

    Attributes:
        name: for messages, such as `Predictor.run`.
        function: without decorators.
        parameters: those of the inputs, without `self`.
    """

    name: str
    function: FunctionType
    parameters: tuple[inspect.Parameter, ...]


def load_reference(reference: str) -> Target:
    """Load the class or function of `FILE.py:NAME`; NAME defaults to `Runner`, else `Predictor`.

    The file is found from the working directory; its import errors are not caught.

    Raises:
        ConfigError: there is no such file, or no such name in it.
    """
    file, _, name = reference.partition(":")
    path = Path(file)
    if path.suffix != ".py" or not path.is_file():
        raise ConfigError(
            f"reference {reference!r} names no Python file in {Path.cwd()}; "
            "allowed: FILE.py:NAME. Correct the reference or the working directory."
        )
    module = _load_module(path)
    for candidate in (name,) if name else ("Runner", "Predictor"):
        target: Target | None = getattr(module, candidate, None)
        if target is not None:
            return target
    raise ConfigError(
        f"{file} has no {name or 'Runner or Predictor'}; "
        f"define it or name another: {reference!r} is FILE.py:NAME."
    )


def _load_module(path: Path) -> ModuleType:
    """Run the file as a module of its bare name, where pickle and dataclasses look for it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} cannot be imported; name a .py file.")
    _make_importable(str(Path.cwd()))
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _make_importable(folder: str) -> None:
    """Let the user's files import each other."""
    if folder not in sys.path:
        sys.path.insert(0, folder)


def find_handler(target: Target, kind: Kind) -> Handler:
    """Return the function of a target that serves a kind.

    Raises:
        ConfigError: the target has none, or more than one, or it takes `*args` or the like.
    """
    if not inspect.isclass(target):
        return _handler(getattr(target, "__name__", repr(target)), target, 0)
    names = [name for name in _METHODS[kind] if _is_defined(target, name)]
    if len(names) != 1:
        raise ConfigError(
            f"{target.__name__} defines {' and '.join(names) or 'no ' + kind} method; "
            f"allowed: one of {' or '.join(_METHODS[kind])}. Define one."
        )
    return _handler(f"{target.__name__}.{names[0]}", getattr(target, names[0]), 1)


def _is_defined(owner: type[Any], name: str) -> bool:
    return any(name in base.__dict__ for base in owner.__mro__ if base not in _FRAMEWORK)


def _handler(name: str, candidate: Callable[..., Any], skipped: int) -> Handler:
    function = inspect.unwrap(candidate)
    if not isinstance(function, FunctionType):
        raise ConfigError(f"{name} is {function!r}, no function; name a function or a class.")
    parameters = tuple(inspect.signature(function).parameters.values())[skipped:]
    for parameter in parameters:
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            raise ConfigError(
                f"parameter {parameter} of {name} is {parameter.kind.description}; "
                "allowed: plain parameters. Name each input, without * and /."
            )
    return Handler(name, function, parameters)


def is_streaming(handler: Handler) -> bool:
    """Return whether the function is decorated with `cog.streaming`, called or not."""
    decorators = _definition(handler).decorator_list
    heads = [node.func if isinstance(node, ast.Call) else node for node in decorators]
    return any(_value_of(head, handler) is cog.streaming for head in heads)


def names_default(handler: Handler, parameter: inspect.Parameter) -> bool:
    """Return whether the parameter has a written default, `Input(default=None)` included."""
    if not isinstance(parameter.default, cog.FieldInfo):
        return parameter.default is not parameter.empty
    if parameter.default.default is not None:
        return True
    arguments = _definition(handler).args
    named = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    written = dict(zip(reversed(named), reversed(arguments.defaults), strict=False))
    call = written.get(parameter.name)
    return (
        isinstance(call, ast.Call)
        and _value_of(call.func, handler) is cog.Input
        and bool(call.args or any(keyword.arg == "default" for keyword in call.keywords))
    )


def _definition(handler: Handler) -> ast.FunctionDef | ast.AsyncFunctionDef:
    try:
        source = inspect.getsource(handler.function)
    except OSError as error:
        raise ConfigError(
            f"the source of {handler.name} cannot be read; put it into a .py file."
        ) from error
    # A method's source is indented, which Python accepts only inside a block.
    nodes = ast.walk(ast.parse("if True:\n" + source if source[0].isspace() else source))
    return next(node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _value_of(node: ast.expr, handler: Handler) -> object:
    """Return the value of a dotted name in the function's scope, or None for other nodes."""
    if isinstance(node, ast.Name):
        return handler.function.__globals__.get(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(_value_of(node.value, handler), node.attr, None)
    return None
