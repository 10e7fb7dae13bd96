"""Measures imports: edges, circles and lazy imports."""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from bench.house.trees import Module

Graph = Mapping[str, set[str]]


def graph_of(modules: Iterable[Module]) -> Graph:
    """Return the project's modules that each module imports, anywhere in its code."""
    by_name = {module.name: module for module in modules}
    return {
        name: {found for found in _imported(module, by_name) if found != name}
        for name, module in by_name.items()
    }


def _imported(module: Module, known: Mapping[str, Module]) -> Iterator[str]:
    names = [name for node in ast.walk(module.tree) for name in _names(node, module)]
    for name in names:
        while name and name not in known:
            name = name.rpartition(".")[0]
        if name:
            yield name


def _names(node: ast.AST, module: Module) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        source = origin(node, module)
        return [f"{source}.{alias.name}" for alias in node.names]
    return []


def origin(node: ast.ImportFrom, module: Module) -> str:
    """Return the full name of the module that is imported from."""
    if not node.level:
        return node.module or ""
    is_package = module.path.name == "__init__.py"
    parts = module.name.split(".")
    kept = parts[: len(parts) - node.level + is_package]
    return ".".join([*kept, *filter(None, [node.module])])


def circles(graph: Graph) -> list[str]:
    """Find the circles one by one, each cut before the search for the next."""
    cut: dict[str, set[str]] = {name: set(targets) for name, targets in graph.items()}
    found: list[str] = []
    while (circle := _circle(cut)) is not None:
        found.append(" -> ".join(reversed(circle)))
        cut[circle[1]].discard(circle[0])
    return found


def _circle(graph: Graph) -> list[str] | None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return None


def lazy_imports(modules: Sequence[Module]) -> list[str]:
    """Find imports of the project's modules inside a condition or function, as path:line."""
    known = {module.name: module for module in modules}
    found = []
    for module in modules:
        top = [node for node in module.tree.body if not _is_for_types(node)]
        inner = (each for node in top for each in ast.walk(node) if each is not node)
        lines = {
            n.lineno
            for n in inner
            if isinstance(n, ast.Import | ast.ImportFrom)
            and any(name.partition(".")[0] in _roots(known) for name in _names(n, module))
        }
        found += [f"{module.path}:{line}" for line in sorted(lines)]
    return found


def _roots(known: Iterable[str]) -> set[str]:
    return {name.partition(".")[0] for name in known}


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
