"""The path of one value through the code, as a reader follows it: the functions, in order.

The walk starts at a function and its parameter `request`, `body` or `report`, and reads every
branch, depth first in the order of evaluation. A call is followed if an argument is made of the
value, or if a method of the value is called. The result of such a call is made of the value; an
object constructed of the value ends the walk. A name means the module's own definition or import. A
method is followed if exactly one class of the server and no built-in type has a method of this
name: a reader can then find the method by name. Each function is entered once; an inner function
belongs to its outer one.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.house.definitions import Class, Definition, Index


@dataclass
class Walk:
    """A walk in progress.

    Attributes:
        stops: the functions entered so far, in order.
    """

    index: Index
    stops: list[Definition] = field(default_factory=list)

    def enter(self, function: Definition, carried: set[str]) -> None:
        """Read a function, some of whose parameters carry the value."""
        if carried and all(function.node is not each.node for each in self.stops):
            self.stops.append(function)
            reader = _Reader(self, function, set(carried))
            for statement in function.node.body:
                reader.read(statement)


class _Reader:
    """Reads one function: the names that carry the value, and the functions called with them."""

    def __init__(self, walk: Walk, function: Definition, carried: set[str]) -> None:
        self._walk, self._function, self._carried = walk, function, carried

    def read(self, node: ast.AST) -> None:
        """Read a statement or an expression, after its children."""
        for child in _in_order(node):
            self.read(child)
        if isinstance(node, ast.Call):
            self._follow(node)
        elif isinstance(node, ast.Attribute):
            self._follow_property(node)
        for target, value in _bindings(node):
            if self._bears(value) and not self._is_put_down(value):
                self._carried |= set(_names(target))

    def _bears(self, node: ast.AST) -> bool:
        return any(
            (isinstance(each, ast.Name) and each.id in self._carried)
            or (isinstance(each, ast.Attribute) and ast.unparse(each) in self._carried)
            for each in ast.walk(node)
        )

    def _is_put_down(self, value: ast.expr) -> bool:
        """Return whether a new object is constructed of the value, or only takes a part of it."""
        value = value.value if isinstance(value, ast.Await) else value
        is_call = isinstance(value, ast.Call)
        found = self._target(value.func) if isinstance(value, ast.Call) else None
        return isinstance(found, Class) if is_call else isinstance(value, ast.Attribute)

    def _target(self, called: ast.expr) -> Class | Definition | None:
        return self._walk.index.target(called, self._function)

    def _follow(self, call: ast.Call) -> None:
        target, passed = self._target(call.func), set[str]()
        if isinstance(target, Class):
            target = self._walk.index.method(target, "__init__")
        elif target is not None and target.owner is not None and self._is_held(call.func):
            passed.add("self")
        if target is None:
            return
        names = target.parameters
        given = zip(names, call.args, strict=False)
        passed |= {name for name, value in given if self._bears(value)}
        passed |= {k.arg for k in call.keywords if k.arg in names and self._bears(k.value)}
        self._walk.enter(target, passed)

    def _is_held(self, called: ast.expr) -> bool:
        """Return whether a method of the value itself is called."""
        holder = called.value if isinstance(called, ast.Attribute) else None
        return isinstance(holder, ast.Name) and holder.id in self._carried

    def _follow_property(self, node: ast.Attribute) -> None:
        found = self._target(node) if self._bears(node.value) else None
        if isinstance(found, Definition) and found.is_property:
            self._walk.enter(found, {"self"})


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children in the order of evaluation."""
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return iter([node.value] if node.value is not None else [])
    if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
        return iter([*node.generators, node.elt])
    if isinstance(node, ast.DictComp):
        return iter([*node.generators, node.key, node.value])
    return ast.iter_child_nodes(node)


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        yield node.target, node.iter
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr


def _names(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Attribute):
        yield ast.unparse(target)
    elif isinstance(target, ast.Subscript | ast.Starred):
        yield from _names(target.value)
    elif isinstance(target, ast.Tuple | ast.List):
        for each in target.elts:
            yield from _names(each)
