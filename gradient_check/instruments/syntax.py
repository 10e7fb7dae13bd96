"""The syntax around a line of the caller's code: its statement, its function, its modes."""

import ast
import functools
import linecache
import re
from collections.abc import Iterable, Iterator

Position = tuple[str, int]
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = ast.With | ast.AsyncWith | _FUNCTIONS
_NAMED = _FUNCTIONS | ast.ClassDef
_GRAD_OFF = re.compile(r"no_grad|inference_mode|set_grad_enabled")


def parsed(filename: str) -> ast.Module | None:
    """Return the syntax tree of a file, or None."""
    return _parsed("".join(linecache.getlines(filename)))


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def function_around(position: Position) -> tuple[int, int]:
    """Return the first and the last line of the function that a position is in."""
    function = function_at(position)
    if function is None:
        return 1, position[1]
    return function.lineno, function.end_lineno or position[1]


def function_at(position: Position) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the innermost function that a position is in."""
    filename, number = position
    tree = parsed(filename)
    scopes = [n for n in ast.walk(tree) if isinstance(n, _FUNCTIONS)] if tree else []
    around = [n for n in scopes if surrounds(n, number)]
    return max(around, key=lambda n: n.lineno, default=None)


def attributes_in(node: ast.AST) -> set[str]:
    """Return the names of the attributes that some code mentions."""
    return {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


@functools.lru_cache(maxsize=4096)
def lines_of_statement(filename: str, number: int) -> tuple[Position, ...]:
    """Return the lines of the innermost statement at a line; of a block's, those of its head.

    Those of the heads of `with` blocks around it in its function count too.
    """
    tree = parsed(filename)
    nodes: Iterable[ast.AST] = () if tree is None else ast.walk(tree)
    around = [s for s in nodes if isinstance(s, ast.stmt) and _is_at(s, number)]
    spans = [span for span in map(_span, around) if number in span]
    found = [min(spans, key=len, default=range(number, number + 1))]
    first, _ = function_around((filename, number))
    blocks = [s for s in around if isinstance(s, ast.With | ast.AsyncWith) and s.lineno >= first]
    found += map(_span, blocks)
    lines = dict.fromkeys(each for span in found for each in span)
    return tuple((filename, n) for n in lines if linecache.getline(filename, n).strip())


def _is_at(node: ast.stmt, number: int) -> bool:
    return _first_line(node) <= number <= (node.end_lineno or node.lineno)


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def _span(node: ast.stmt) -> range:
    """Return the lines of a statement; of one with a body, those before it."""
    body: list[ast.stmt] = getattr(node, "body", [])
    last = _first_line(body[0]) - 1 if body else node.end_lineno or node.lineno
    first = _first_line(node)
    return range(first, max(first, last) + 1)


@functools.lru_cache(maxsize=4096)
def switched_off(filename: str, number: int) -> Position | None:
    """Return the line of the position's own function that switched gradients off there."""
    tree = parsed(filename)
    if tree is None:
        return None
    around = [n for n in ast.walk(tree) if isinstance(n, _SCOPES) and surrounds(n, number)]
    around.sort(key=lambda n: n.lineno, reverse=True)
    for node in around:
        line = next(_switches(tree, node, number), None)
        if line is not None:
            return filename, line
        if isinstance(node, _FUNCTIONS):
            return None
    return None


def surrounds(node: ast.stmt | ast.expr, number: int) -> bool:
    """Return whether a line is one of a statement's."""
    return node.lineno <= number <= (node.end_lineno or node.lineno)


def _switches(tree: ast.Module, node: ast.AST, number: int) -> Iterator[int]:
    heads: list[ast.expr] = []
    before: list[ast.expr] = []
    if isinstance(node, ast.With | ast.AsyncWith):
        heads = [item.context_expr for item in node.items]
    elif isinstance(node, _FUNCTIONS):
        heads = node.decorator_list
        statements = (s for s in ast.walk(node) if isinstance(s, ast.Expr))
        before = [s.value for s in statements if s.lineno < number]
    yield from (each.lineno for each in [*heads, *before] if _matches(each))
    entered = [each for each in before if "__enter__" in ast.unparse(each)]
    yield from (each.lineno for each in [*heads, *entered] if _names_a_switch(tree, each))


def _matches(node: ast.AST) -> bool:
    return bool(_GRAD_OFF.search(ast.unparse(node)))


def _names_a_switch(tree: ast.Module, expression: ast.expr) -> bool:
    """Return whether an expression calls, enters or decorates with a name for a switch.

    That is a function or class of the same file which switches gradients off, or a variable.
    """
    called = expression.func if isinstance(expression, ast.Call) else expression
    parts = list(ast.walk(called))
    names = {n.id for n in parts if isinstance(n, ast.Name)}
    names |= {n.attr for n in parts if isinstance(n, ast.Attribute)}
    return any(_matches(node) for node in ast.walk(tree) if not names.isdisjoint(_bound(node)))


def _bound(node: ast.AST) -> set[str]:
    """Return the names that a node defines or assigns."""
    if isinstance(node, _NAMED):
        return {node.name}
    if isinstance(node, ast.Assign):
        parts = [part for target in node.targets for part in ast.walk(target)]
        return {p.id for p in parts if isinstance(p, ast.Name)} | {
            p.attr for p in parts if isinstance(p, ast.Attribute)
        }
    return set()
