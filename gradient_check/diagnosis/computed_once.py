"""Finds, in a class's source, the line that computes a substitute from a parameter once.

The substitute is computed where the module is made, so later changes of the parameter do not reach
it. Runs only after a failure.
"""

import ast
import re
from collections.abc import Collection, Iterator, Sequence

from torch import nn

from gradient_check.diagnosis.definitions import owners_with_sources
from gradient_check.instruments.syntax import Position, attributes_in, function_at

_REGISTERS = ("register_buffer", "register_parameter", "setattr", "__setattr__")
_OF_NO_VALUES = ("shape", "size", "dtype", "device", "ndim", "dim", "numel", "is_cuda", "layout")


def computed_once(module: nn.Module, path: str, ran: Collection[Position]) -> Position | None:
    """Return the line that assigns an attribute a value computed from a parameter.

    Args:
        module: the outermost module.
        path: of the parameter.
        ran: positions of the functions that a forward has run; they use the attribute.
    """
    functions = [function for position in ran if (function := function_at(position))]
    used = {name for function in functions for name in attributes_in(function)}
    names = [name for name in re.split(r"\W", path) if name and not name.isdigit()]
    for (filename, scope), lead in owners_with_sources(module, path):
        chain = names[names.index(lead) :] if lead in names else []
        methods = (node for node in scope.body if isinstance(node, ast.FunctionDef))
        kept = (line for each in methods for line in _kept_values(each, chain, used - {*names}))
        line = next(kept, None)
        if line is not None:
            return filename, line
    return None


def _kept_values(function: ast.FunctionDef, chain: Sequence[str], used: set[str]) -> Iterator[int]:
    """Yield a function's lines that assign used attributes values from a parameter."""
    derived: set[str] = set()
    kinds = ast.Assign | ast.AnnAssign | ast.Expr
    statements = [node for node in ast.walk(function) if isinstance(node, kinds)]
    for node in sorted(statements, key=lambda each: each.lineno):
        if node.value is None or not _comes_from(node.value, chain, derived):
            continue
        if not used.isdisjoint(_given(node)):
            yield node.lineno
        derived |= _local_names(node)


def _comes_from(value: ast.expr, chain: Sequence[str], derived: Collection[str]) -> bool:
    """Return whether an expression reads a parameter's values, or a local name that holds them."""
    nodes = list(ast.walk(value))
    asked = [n.value for n in nodes if isinstance(n, ast.Attribute) and n.attr in _OF_NO_VALUES]
    read = [n for n in nodes if n not in asked]
    return any(_leads(n, chain) for n in read) or any(
        isinstance(n, ast.Name) and n.id in derived for n in read
    )


def _leads(node: ast.AST, chain: Sequence[str]) -> bool:
    """Return whether an expression is `self.part.weight`, of the attributes in this order."""
    if not chain or not isinstance(node, ast.Attribute) or node.attr != chain[-1]:
        return False
    outer = node.value.value if isinstance(node.value, ast.Subscript) else node.value
    return _leads(outer, chain[:-1]) if chain[:-1] else isinstance(outer, ast.Name)


def _given(node: ast.Assign | ast.AnnAssign | ast.Expr) -> set[str]:
    """Return the attributes that a statement assigns."""
    if isinstance(node, ast.Expr):
        call = node.value
        is_setter = isinstance(call, ast.Call) and ast.unparse(call.func).endswith(_REGISTERS)
        arguments = call.args if isinstance(call, ast.Call) and is_setter else []
        return {str(a.value) for a in arguments if isinstance(a, ast.Constant)}
    return {n.attr for n in _targets(node) if isinstance(n, ast.Attribute)}


def _local_names(node: ast.Assign | ast.AnnAssign | ast.Expr) -> set[str]:
    return {n.id for n in _targets(node) if isinstance(n, ast.Name)}


def _targets(node: ast.Assign | ast.AnnAssign | ast.Expr) -> list[ast.AST]:
    if isinstance(node, ast.Expr):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [inner for target in targets for inner in ast.walk(target)]
