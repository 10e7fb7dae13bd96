"""Which argument of a loss is the module: by its annotation, or by what the loss does with it."""

import ast
import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any

from torch import Tensor, nn

from gradient_check.instruments.syntax import parsed

_CALLERS = ("functional_call", "checkpoint", "vmap", "jacrev", "jacfwd", "jvp", "vjp")
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def takes_for_module(loss: Callable[..., Any], name: str) -> bool:
    """Return whether a loss takes an argument for a module, as far as its text tells.

    Args:
        loss: a function, a method, a partial, or an object that can be called.
        name: of the argument.
    """
    function = _function_of(loss)
    kind = getattr(function, "__annotations__", {}).get(name)
    if isinstance(kind, type) and issubclass(kind, nn.Module):
        return True
    if isinstance(kind, str) and kind.rpartition(".")[2] in ("Module", "Sequential"):
        return True
    code = getattr(function, "__code__", None)
    node = _node_of(code) if isinstance(code, CodeType) else None
    return node is not None and any(_uses_as_module(part, name) for part in ast.walk(node))


def _function_of(loss: Any) -> Any:  # noqa: ANN401 - whatever can be called
    while hasattr(loss, "func"):  # a partial
        loss = loss.func
    if isinstance(loss, nn.Module):
        loss = loss.forward
    if not hasattr(loss, "__code__") and not inspect.ismethod(loss):
        loss = getattr(type(loss), "__call__", loss)  # noqa: B004 - its code is looked at
    return inspect.unwrap(getattr(loss, "__func__", loss))


def _node_of(code: CodeType) -> ast.AST | None:
    """Return the definition that a function's code was made from."""
    tree = parsed(code.co_filename)
    names = list(code.co_varnames[: code.co_argcount])
    nodes = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)] if tree else []
    for node in nodes:
        own = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        lines = {node.lineno, *(each.lineno for each in decorators)}
        if own == names and code.co_firstlineno in lines:
            return node
    return None


def _uses_as_module(node: ast.AST, name: str) -> bool:
    """Return whether a part of a loss calls an argument, or asks it for what only modules have."""
    if isinstance(node, ast.Attribute):
        return (
            _is_name(node.value, name)
            and hasattr(nn.Module(), node.attr)
            and not hasattr(Tensor, node.attr)
        )
    if not isinstance(node, ast.Call):
        return False
    called = ast.unparse(node.func).rpartition(".")[2]
    is_given = called in _CALLERS and any(_is_name(each, name) for each in node.args)
    return _is_name(node.func, name) or is_given


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
