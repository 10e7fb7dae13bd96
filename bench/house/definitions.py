"""Finds functions and classes of some modules by the names in a call."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from bench.house.functions import FunctionNode
from bench.house.imports import origin
from bench.house.trees import Module

_PLAIN = (str, bytes, list, dict, set)
"""Types whose method names tell a reader nothing about the project."""


@dataclass(frozen=True)
class Definition:
    """A function or method."""

    module: Module
    node: FunctionNode
    owner: "Class | None" = None

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters, without self."""
        spec = self.node.args
        names = [each.arg for each in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
        return names[1:] if names[:1] in (["self"], ["cls"]) else names

    @property
    def is_property(self) -> bool:
        """Whether reading the attribute calls the function."""
        return any("property" in ast.unparse(each) for each in self.node.decorator_list)

    @property
    def title(self) -> str:
        """The name with its class, for display."""
        return f"{self.owner.node.name}.{self.node.name}" if self.owner else self.node.name


@dataclass(frozen=True)
class Class:
    """A class."""

    module: Module
    node: ast.ClassDef
    methods: dict[str, Definition] = field(default_factory=dict)

    @property
    def is_protocol(self) -> bool:
        """Whether the class is a protocol, which others implement."""
        return any("Protocol" in ast.unparse(base) for base in self.node.bases)


class Index:
    """Everything that the modules define."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self._modules = {module.name: module for module in modules}
        self._aliases = {module.name: aliases_of(module) for module in self._modules.values()}
        self._known: dict[tuple[str, str], Class | Definition] = {}
        self._by_method: dict[str, list[Definition]] = {}
        for module in self._modules.values():
            for node in module.tree.body:
                self._add(module, node)

    def _add(self, module: Module, node: ast.stmt) -> None:
        if isinstance(node, FunctionNode):
            self._known[module.name, node.name] = Definition(module, node)
        elif isinstance(node, ast.ClassDef):
            found = self._known[module.name, node.name] = _class(module, node)
            for name, method in {} if found.is_protocol else found.methods.items():
                self._by_method.setdefault(name, []).append(method)

    def find(self, module: Module, name: str) -> Class | Definition | None:
        """Find the definition of a (dotted) name in a module; follow re-exported names."""
        if (module.name, name) in self._known:
            return self._known[module.name, name]
        head, _, rest = name.partition(".")
        whole = ".".join(filter(None, [self._aliases[module.name].get(head, ""), rest]))
        place, _, leaf = whole.rpartition(".")
        there = self._modules.get(place)
        return self.find(there, leaf) if there is not None and there is not module else None

    def named(self, module: Module, title: str) -> Definition | None:
        """Find a function of a module by its title or, for a method, by its name alone."""
        mine = (each for (name, _), each in self._known.items() if name == module.name)
        for each in mine:
            found = each.methods.values() if isinstance(each, Class) else [each]
            matches = (one for one in found if title in (one.title, one.node.name))
            if (match := next(matches, None)) is not None:
                return match
        return None

    def method(self, owner: Class, name: str) -> Definition | None:
        """Find a method of a class or of its bases."""
        if name in owner.methods:
            return owner.methods[name]
        bases = (self.find(owner.module, ast.unparse(base)) for base in owner.node.bases)
        found = (self.method(base, name) for base in bases if isinstance(base, Class))
        return next(filter(None, found), None)

    def target(self, called: ast.expr, caller: Definition) -> Class | Definition | None:
        """Find the target of a call; a method of another object if only one class has it."""
        if not isinstance(called, ast.Name | ast.Attribute):
            return None
        found = self.find(caller.module, ast.unparse(called))
        if found is not None or isinstance(called, ast.Name):
            return found
        if ast.unparse(called.value) == "self" and caller.owner is not None:
            return self.method(caller.owner, called.attr)
        able = self._by_method.get(called.attr, [])
        is_foreign = ast.unparse(called.value) in self._aliases[caller.module.name]
        is_plain = any(hasattr(kind, called.attr) for kind in _PLAIN)
        return able[0] if len(able) == 1 and not is_foreign and not is_plain else None


def aliases_of(module: Module) -> dict[str, str]:
    """Return the names that a module's imports bind, with their full names."""
    bound: dict[str, str] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            bound |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            source = origin(node, module)
            bound |= {alias.asname or alias.name: f"{source}.{alias.name}" for alias in node.names}
    return bound


def _class(module: Module, node: ast.ClassDef) -> Class:
    made = Class(module, node)
    functions = (each for each in node.body if isinstance(each, FunctionNode))
    made.methods.update({each.name: Definition(module, each, made) for each in functions})
    return made
