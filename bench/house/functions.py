"""The figures of one function: length, arguments, depth, branches.

A length is from `def` to the last line, without the docstring; the lines of an inner function count
in both. Branches are one more than the number of `if for while except case` and comprehensions; the
wide count adds `and`, `or` and conditional expressions.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bench.house.trees import Module

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)
_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Function:
    """The figures of one function."""

    name: str
    lines: int
    arguments: int
    nesting: int
    branches: int
    wide: int
    is_annotated: bool
    is_public: bool
    has_docstring: bool


def functions_of(modules: Iterable[Module]) -> list[Function]:
    """Return the figures of every function, also of nested ones."""
    return [
        _function(module, node)
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, FunctionNode)
    ]


def _function(module: Module, node: FunctionNode) -> Function:
    arguments = _arguments(node)
    branches = _count(node, _BRANCHES) + _count(node, _COMPREHENSIONS) + 1
    operators = sum(len(n.values) - 1 for n in ast.walk(node) if isinstance(n, ast.BoolOp))
    return Function(
        name=f"{module.path}:{node.name}",
        lines=length(node),
        arguments=len(arguments),
        nesting=max(_depths(node.body, 0), default=0),
        branches=branches,
        wide=branches + operators + _count(node, (ast.IfExp,)),
        is_annotated=node.returns is not None and all(a.annotation for a in arguments),
        is_public=not node.name.startswith("_"),
        has_docstring=ast.get_docstring(node) is not None,
    )


def length(node: FunctionNode) -> int:
    """Count the lines from `def` to the last line, without the docstring."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node) is None:
        return lines
    first = node.body[0]
    return lines - ((first.end_lineno or first.lineno) - first.lineno + 1)


def _arguments(node: FunctionNode) -> list[ast.arg]:
    spec = node.args
    stars = [star for star in (spec.vararg, spec.kwarg) if star is not None]
    every = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *stars]
    return [each for each in every if each.arg not in ("self", "cls")]


def _count(node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> int:
    return sum(isinstance(each, kinds) for each in ast.walk(node))


def _depths(body: Iterable[ast.AST], depth: int) -> Iterator[int]:
    """Yield the depth of each block; an `elif` is as deep as its `if`, a function starts at 0."""
    for node in body:
        if isinstance(node, FunctionNode | ast.ClassDef):
            continue
        is_block = isinstance(node, _BLOCKS)
        if is_block:
            yield depth + 1
        yield from _depths(_inside(node), depth + is_block)
        yield from _depths(_elifs(node), depth)


def _elifs(node: ast.AST) -> list[ast.stmt]:
    is_chain = isinstance(node, ast.If) and len(node.orelse) == 1
    if is_chain and isinstance(node, ast.If) and isinstance(node.orelse[0], ast.If):
        return node.orelse
    return []


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    chained = _elifs(node)
    return (each for each in ast.iter_child_nodes(node) if each not in chained)
