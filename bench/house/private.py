"""Private names of foreign packages that the sources use, with their places.

Three forms: an import with a part that begins with an underscore; `x._name` if the project
defines no such name; and `self._name` if a foreign base class already uses that name.
"""

import ast
import importlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType

from bench.house.definitions import aliases_of
from bench.house.imports import origin
from bench.house.trees import Module

_HEAVY = {"torch", "transformers"}
"""Whose classes are not imported here."""


def private_names(modules: Sequence[Module]) -> list[str]:
    """Return each place once, as path:line name."""
    roots = {module.name.partition(".")[0] for module in modules}
    defined = {name for module in modules for name in _defined(module)}
    found: set[tuple[str, int, str]] = set()
    for module in modules:
        for line, name in (*_imports(module, roots), *_attributes(module, defined)):
            found.add((str(module.path), line, name))
        for line, name in _inherited(module, roots):
            found.add((str(module.path), line, name))
    return [f"{path}:{line} `{name}`" for path, line, name in sorted(found)]


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _defined(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _imports(module: Module, roots: set[str]) -> Iterator[tuple[int, str]]:
    for line, name in _imported_names(module):
        parts = name.split(".")
        if parts[0] not in {*roots, "__future__"} and any(map(_is_private, parts)):
            yield line, name


def _imported_names(module: Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = origin(node, module)
            yield from ((node.lineno, f"{source}.{alias.name}") for alias in node.names)


def _attributes(module: Module, defined: set[str]) -> Iterator[tuple[int, str]]:
    used = (node for node in ast.walk(module.tree) if isinstance(node, ast.Attribute))
    for node in used:
        holder, is_own = ast.unparse(node.value), node.attr in defined
        is_foreign = holder not in {"self", "cls", *sys.stdlib_module_names} and not is_own
        if _is_private(node.attr) and is_foreign:
            yield node.lineno, f"{holder}.{node.attr}"


def _inherited(module: Module, roots: set[str]) -> Iterator[tuple[int, str]]:
    bound = aliases_of(module)
    classes = [node for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    bases = [(node, base) for node in classes for base in node.bases]
    for owner, base in bases:
        head, _, rest = ast.unparse(base).partition(".")
        whole = ".".join(filter(None, [bound.get(head, ""), rest]))
        if whole.partition(".")[0] not in {*roots, *_HEAVY, ""}:
            yield from _uses(owner, whole, _privates_of(whole))


def _uses(node: ast.AST, base: str, private: set[str]) -> Iterator[tuple[int, str]]:
    for each in ast.walk(node):
        is_private = isinstance(each, ast.Attribute) and each.attr in private
        if is_private and isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self":
            yield each.lineno, f"{base}: self.{each.attr}"


def _privates_of(base: str) -> set[str]:
    """Return the names `self._...` in the methods of an installed class."""
    place, _, name = base.rpartition(".")
    try:
        found = getattr(importlib.import_module(place), name)
        codes = [code for each in inspect.getmro(found)[:-1] for code in _codes(each)]
    except (ImportError, AttributeError, ValueError):
        return set()
    return {each for code in codes for each in code.co_names if _is_private(each)}


def _codes(owner: type) -> list[CodeType]:
    return [each.__code__ for each in vars(owner).values() if isinstance(each, FunctionType)]
