"""The figures of a tree, row by row."""

import ast
import io
import statistics
import tokenize
from collections.abc import Sequence

from bench.house.functions import Function, functions_of
from bench.house.imports import circles, graph_of, lazy_imports
from bench.house.private import private_names
from bench.house.trees import SOURCES, Module, Tree

Rows = dict[str, str]
_GROUPS = {
    "sources": SOURCES,
    "server": ("server",),
    "command": ("command",),
    "runner": ("runner",),
    "package": ("package",),
    "template": ("template",),
    "tests": ("tests",),
    "bench": ("bench",),
    "examples": ("examples",),
}


def area_rows(tree: Tree) -> Rows:
    """Return the figures of each area; `gradients` is a part of `runner`."""
    groups = {name: tree.of(*areas) for name, areas in _GROUPS.items()}
    groups["gradients"] = [m for m in tree.of("runner") if "gradients" in m.path.parts]
    rows: Rows = {}
    for name, modules in groups.items():
        found = _figures(modules) if modules else {}
        rows |= {f"{name}: {title}": value for title, value in found.items()}
    return rows


def _figures(modules: Sequence[Module]) -> Rows:
    functions = functions_of(modules)
    lines = sum(module.lines for module in modules)
    public = [each for each in functions if each.is_public]
    return {
        "files": str(len(modules)),
        "lines": f"{lines:,}",
        "lines of a file, median / p90 / max": _spread([m.lines for m in modules]),
        "functions": f"{len(functions):,}",
        "lines of a function, median / p90 / max": _spread([f.lines for f in functions]),
        "arguments, p90 / max": _tail([f.arguments for f in functions]),
        "nesting, p90 / max": _tail([f.nesting for f in functions]),
        "branches, p90 / max": _tail([f.branches for f in functions]),
        "branches with operators, p90 / max": _tail([f.wide for f in functions]),
        "annotated": _share(functions, [f for f in functions if f.is_annotated]),
        "public with a docstring": _share(public, [f for f in public if f.has_docstring]),
        "comments per 100 lines": f"{100 * sum(map(_comments, modules)) / max(lines, 1):.1f}",
        "broad excepts": str(sum(map(_broad_excepts, modules))),
    }


def _quantiles(values: Sequence[int]) -> tuple[float, float, int]:
    if len(values) < 2:
        only = sum(values)
        return only, only, only
    p90 = statistics.quantiles(values, n=10, method="inclusive")[8]
    return statistics.median(values), p90, max(values)


def _spread(values: Sequence[int]) -> str:
    return " / ".join(f"{value:g}" for value in _quantiles(values))


def _tail(values: Sequence[int]) -> str:
    return " / ".join(f"{value:g}" for value in _quantiles(values)[1:])


def _share(every: Sequence[object], some: Sequence[object]) -> str:
    return f"{100 * len(some) / len(every):.0f} %" if every else "–"


def _comments(module: Module) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
    return sum(token.type == tokenize.COMMENT for token in tokens)


def _broad_excepts(module: Module) -> int:
    caught = (n for n in ast.walk(module.tree) if isinstance(n, ast.ExceptHandler))
    names = (ast.unparse(each.type) if each.type else "BaseException" for each in caught)
    return sum(bool({"Exception", "BaseException"} & set(_words(name))) for name in names)


def _words(text: str) -> list[str]:
    return text.strip("()").replace(",", " ").split()


def house_lists(tree: Tree) -> dict[str, list[str]]:
    """Return the findings by name; each list's length is a figure of the sources."""
    modules = tree.of(*SOURCES)
    functions = functions_of(modules)
    server = [
        m.path.relative_to(tree.server)
        for m in tree.of("server", "command")
        if m.path.is_relative_to(tree.server)
    ]
    tops = {path.parts[0].removesuffix(".py") for path in server} - {"__init__"}
    return {
        "names at the top of the server": sorted(tops),
        "files over 250 lines": [f"{m.path} {m.lines}" for m in modules if m.lines > 250],
        "classes over 150 lines": _long_classes(modules),
        "functions over 40 lines": _over(functions, "lines", 40),
        "functions nested deeper than 2": _over(functions, "nesting", 2),
        "functions with more than 5 arguments": _over(functions, "arguments", 5),
        "private names of other packages": private_names(modules),
        "circles of imports": circles(graph_of(modules)),
        "lazy imports of our own": lazy_imports(modules),
    }


def _over(functions: Sequence[Function], what: str, most: int) -> list[str]:
    values = ((each.name, getattr(each, what)) for each in functions)
    return [f"{name} {value}" for name, value in values if value > most]


def _long_classes(modules: Sequence[Module]) -> list[str]:
    found = ((m, n) for m in modules for n in ast.walk(m.tree) if isinstance(n, ast.ClassDef))
    sizes = ((f"{m.path}:{n.name}", (n.end_lineno or n.lineno) - n.lineno + 1) for m, n in found)
    return [f"{name} {size}" for name, size in sizes if size > 150]


def house_rows(tree: Tree, lists: dict[str, list[str]]) -> Rows:
    """Return the figures of the sources as a whole."""
    rows = {name: str(len(found)) for name, found in lists.items()}
    rows["imports of our own"] = str(sum(map(len, graph_of(tree.of(*SOURCES)).values())))
    return rows
