"""Finds, in the source of modules' classes, the lines that assign an attribute.

Runs only after a failure. The remedy belongs to the line, so the first assignment counts, and an
assignment of None or a mere annotation does not.
"""

import ast
import inspect
import re
from collections.abc import Collection, Iterator
from types import CodeType, FunctionType

from torch import nn

from gradient_check.instruments.sources import is_callers, text_of
from gradient_check.instruments.syntax import Position, attributes_in, parsed, surrounds

_SETTERS = (
    *("setattr", "__setattr__", "add_module", "register_module"),
    *("register_parameter", "register_buffer"),
)
_ZEROS = re.compile(r"zero|(?<![\w.])0(\.0*)?(?![\w.])")


def assigned(module: nn.Module, path: str) -> str | None:
    """Return the line in its class that assigns a parameter, or an attribute that leads to it.

    For a registered layer of PyTorch, the line assigns the layer.

    Args:
        module: the outermost module.
        path: of a parameter, registered or hidden in attributes (`blocks.1.heads['a'].weight`).
    """
    for owner, name in _owners(module, path):
        position = _assignment(type(owner), name)
        if position is not None:
            return text_of(position)
        if name not in {**owner._parameters, **owner._modules} or any(_scopes(type(owner))):
            break
    return None


def tied(module: nn.Module, one: str, other: str) -> str | None:
    """Return the line in a class that gives two parameters the same memory."""
    pairs = [(s, name) for o, name in _owners(module, one) for s in _scopes(type(o))]
    others = {name for _, name in _owners(module, other)}
    others -= {name for _, name in _owners(module, one)}
    found = [
        (scope.filename, node.lineno)
        for scope, name in pairs
        for node in ast.walk(scope.node)
        if isinstance(node, ast.Assign | ast.Expr)
        and {name} < attributes_in(node) & {name, *others}
    ]
    return text_of(found[0]) if found else assigned(module, other)


def attribute(module: nn.Module, path: str) -> str:
    """Return the attribute that leads to a parameter in the innermost class of the caller's."""
    owners = _owners(module, path)
    return next((name for owner, name in owners if any(_scopes(type(owner)))), owners[0][1])


def holder(module: nn.Module, path: str) -> nn.Module:
    """Return the innermost module on a path of a parameter, registered or hidden."""
    return _owners(module, path)[0][0]


def zeroed(module: nn.Module, path: str) -> str | None:
    """Return the line that makes a parameter begin at 0, if its text shows that.

    A line that names the parameter, or its holder, comes before a line of a loop over them.
    """
    owners = _owners(module, path)
    scopes = [(scope, name) for owner, name in owners for scope in _scopes(type(owner))]
    found = [
        (scope.filename, line)
        for pattern in (r"\.{0}\b|[\"']{0}[\"']", "zero")
        for scope, name in scopes
        for line in _zeroing(scope.node, pattern.format(re.escape(name)))
    ]
    return text_of(found[0]) if found else None


def assigned_near(module: nn.Module, path: str, positions: Collection[Position]) -> str | None:
    """Return the line that assigns an attribute from outside its class, around lines that use it.

    Args:
        module: the outermost module.
        path: of a parameter, registered or hidden.
        positions: lines that use it, innermost first.
    """
    _, name = _owners(module, path)[0]
    for filename, number in positions:
        tree = parsed(filename)
        around = [n for n in tree.body if surrounds(n, number)] if tree else []
        found = [line for node in around for line in _assignments(node, name)]
        if found:
            return text_of((filename, min(found)))
    return None


class _Scope:
    """A class's source."""

    def __init__(self, filename: str, node: ast.ClassDef) -> None:
        self.filename = filename
        self.node = node


def _owners(module: nn.Module, path: str) -> list[tuple[nn.Module, str]]:
    """Return the modules on a path, innermost first, each with the attribute that leads on."""
    owner: nn.Module = module
    found: list[tuple[nn.Module, str]] = []
    rest = path
    while rest:
        name = _attribute(rest)
        found.append((owner, name))
        inner = owner._modules.get(name)
        if inner is None:
            break
        owner, rest = inner, rest[len(name) :].removeprefix(".")
    return found[::-1]


def owners_with_sources(module: nn.Module, path: str) -> list[tuple[tuple[str, ast.ClassDef], str]]:
    """Return the classes of the modules on a path, innermost first, as files and syntax.

    With each comes the attribute that leads on.
    """
    pairs = [
        (scope, name) for owner, name in _owners(module, path) for scope in _scopes(type(owner))
    ]
    return [((scope.filename, scope.node), name) for scope, name in pairs]


def _attribute(path: str) -> str:
    """Return the first attribute of a path; of items in it, the name of what holds them."""
    return re.split(r"[.\[(]", path, maxsplit=1)[0]


def _assignment(kind: type, name: str) -> Position | None:
    for scope in _scopes(kind):
        first = min(_assignments(scope.node, name), default=None)
        if first is not None:
            return scope.filename, first
    return None


def _scopes(kind: type) -> Iterator[_Scope]:
    """Yield the source of a class and of the caller's classes that it is derived from."""
    for each in kind.__mro__:
        code = next(_codes(each), None)
        tree = parsed(code.co_filename) if code else None
        if code is None or tree is None:
            continue
        classes = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
        around = [n for n in classes if surrounds(n, code.co_firstlineno)]
        named = [n for n in around if n.name == each.__name__]
        yield from (_Scope(code.co_filename, node) for node in named[-1:])


def _codes(kind: type) -> Iterator[CodeType]:
    """Yield the code of a class's own methods in the caller's files."""
    values = (getattr(v, "__func__", getattr(v, "fget", v)) for v in vars(kind).values())
    functions = (inspect.unwrap(each) for each in values if isinstance(each, FunctionType))
    codes = (f.__code__ for f in functions if kind.__name__ in f.__qualname__)
    yield from (code for code in codes if is_callers(code.co_filename))


def _assignments(node: ast.AST, name: str) -> Iterator[int]:
    """Yield the lines inside a node that assign an attribute of this name."""
    yield from (n.lineno for n in ast.walk(node) if isinstance(n, ast.Call) and _sets(n, name))
    found = (n for n in ast.walk(node) if isinstance(n, ast.Assign | ast.AnnAssign | ast.AugAssign))
    for each in found:
        if _gives_value(each) and any(_is_target(t, name, node) for t in _targets(each)):
            yield each.lineno


def _gives_value(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> bool:
    is_none = isinstance(node.value, ast.Constant) and node.value.value is None
    return node.value is not None and not is_none


def _targets(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> Iterator[ast.expr]:
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        yield from target.elts if isinstance(target, ast.Tuple | ast.List) else [target]


def _is_target(target: ast.expr, name: str, scope: ast.AST) -> bool:
    """Return whether a target is `self.name`, `vars(self)["name"]`, or `name` of a class's body."""
    if isinstance(target, ast.Subscript):
        return isinstance(target.slice, ast.Constant) and target.slice.value == name
    if isinstance(target, ast.Name):
        body = scope.body if isinstance(scope, ast.ClassDef) else []
        return target.id == name and any(target in ast.walk(s) for s in body if _is_plain(s))
    return isinstance(target, ast.Attribute) and target.attr == name


def _is_plain(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign | ast.AnnAssign)


def _sets(call: ast.Call, name: str) -> bool:
    """Return whether a call is `setattr(self, "name", ...)`, or registers a part of this name."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    if function == "update":  # a call of `self.__dict__.update`
        return any(keyword.arg == name for keyword in call.keywords)
    return function in _SETTERS and any(_spells(argument, name) for argument in call.args[:2])


def _spells(argument: ast.expr, name: str) -> bool:
    if isinstance(argument, ast.JoinedStr):
        parts = [v.value if isinstance(v, ast.Constant) else None for v in argument.values]
        pattern = "".join(".+" if part is None else re.escape(str(part)) for part in parts)
        return re.fullmatch(pattern, name) is not None
    return isinstance(argument, ast.Constant) and argument.value == name


def _zeroing(scope: ast.ClassDef, pattern: str) -> Iterator[int]:
    """Yield the lines of statements with zeros whose text has a pattern, except in forwards."""
    methods = [n for n in scope.body if isinstance(n, ast.FunctionDef) and n.name != "forward"]
    inside = (node for method in methods for node in ast.walk(method))
    simple = [n for n in inside if isinstance(n, ast.Assign | ast.AnnAssign | ast.Expr)]
    for node in sorted(simple, key=lambda n: n.lineno):
        text = ast.unparse(node)
        if re.search(pattern, text) and _ZEROS.search(text):
            yield node.lineno
