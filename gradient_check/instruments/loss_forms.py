"""The three forms of a loss, recognised by its signature, its annotations and its text.

A loss is `(module, probe) -> losses`, `(output) -> losses`, or, as PyTorch's own losses are,
`(output, targets) -> losses`; the probe of the last form is a pair of inputs and targets.
"""

import ast
import inspect
import re
from collections.abc import Callable
from types import CodeType
from typing import Any

from torch import Tensor, nn

from gradient_check.instruments.syntax import parsed

_CALLERS = ("functional_call", "checkpoint", "vmap", "jacrev", "jacfwd", "jvp", "vjp")
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_OUTPUTS = re.compile(r"(in|out)puts?|out|logits?|(y_?)?(preds?|hat)|predictions?|scores?|y")
_TARGETS = re.compile(r"targets?|labels?|(y_?)?true|truth|expected|gold|answers?|y")
MODULE_NAMES = ("module", "model", "net", "network", "m")


def required_arguments(loss: Callable[..., Any]) -> list[str] | None:
    """Return the names of the positional arguments that a loss requires, or None if unknown."""
    try:
        signature = inspect.signature(loss.forward if isinstance(loss, nn.Module) else loss)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return None
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind in positional and parameter.default is inspect.Parameter.empty
    ]


def takes_module(loss: Callable[..., Any]) -> bool:
    """Return whether a loss has two required positional arguments: the module and the probe."""
    return len(required_arguments(loss) or ()) == 2 and not takes_targets(loss)


def takes_targets(loss: Callable[..., Any]) -> bool:
    """Return whether a loss takes an output and targets, as `nn.CrossEntropyLoss()` does.

    It has two required arguments, of which neither is used or annotated as a module. The first is
    named or annotated as an output, or the second is named as targets. A method of a module and a
    first argument with the name of a module belong to the form `(module, probe)`.
    """
    names = required_arguments(loss) or ()
    if len(names) != 2 or isinstance(getattr(loss, "__self__", None), nn.Module):
        return False
    output, targets = names
    if output in MODULE_NAMES or any(takes_for_module(loss, name) for name in names):
        return False
    named = _OUTPUTS.fullmatch(output) or _TARGETS.fullmatch(targets)
    return named is not None or _annotation(loss, output) in (Tensor, "Tensor", "torch.Tensor")


def takes_for_module(loss: Callable[..., Any], name: str) -> bool:
    """Return whether a loss uses an argument as a module, as far as the loss's source code shows.

    Args:
        loss: a function, a method, a partial, or another callable object.
        name: the name of the argument.
    """
    function = _function_of(loss)
    kind = _annotation(loss, name)
    if isinstance(kind, type) and issubclass(kind, nn.Module):
        return True
    if isinstance(kind, str) and kind.rpartition(".")[2] in ("Module", "Sequential"):
        return True
    code = getattr(function, "__code__", None)
    node = _node_of(code) if isinstance(code, CodeType) else None
    return node is not None and any(_uses_as_module(part, name) for part in ast.walk(node))


def _annotation(loss: Callable[..., Any], name: str) -> object:
    return getattr(_function_of(loss), "__annotations__", {}).get(name)


def _function_of(loss: Any) -> Any:  # noqa: ANN401 - whatever can be called
    while hasattr(loss, "func"):  # for a partial
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
    """Return whether a loss calls an argument, or uses attributes that only modules have."""
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
