"""Values that are passed by position, although a name would say what each is.

    python -m bench.house.packing [FOLDER OR FILE ...]

Three forms: a call of the project's own function or class with more than three values by place;
`self.a, self.b = …`; and `f(*given)`, where f takes no sequence by its signature. Values that
`partial`, or an own function with `*arguments`, passes on to another one are counted as that one's;
a positional-only parameter (`/`) is not counted. Nor are the calls of other packages; of a
bare parameter, since a `Callable` has no names; and of a task's hooks, which users write, with
names of their own.
"""

import ast
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch

from bench.house.definitions import aliases_of
from bench.house.functions import FunctionNode
from bench.house.trees import PACKAGE, SOURCES, Module, Tree

ROOT = Path(__file__).parents[2]
_MOST = 3
_DEFINITIONS = FunctionNode | ast.ClassDef
_OWN_PACKAGES = {PACKAGE, "gradient_check", "server", "bench", "tests"}
_TASKS = {"task", "_task"}
_FOREIGN_METHODS = {*dir(torch.Tensor), *dir(logging.Logger)} - {*dir(object)}


@dataclass
class _Signature:
    """The parameters that all functions of one name have in common.

    Attributes:
        alone: the positional-only parameters, without `self`.
        is_variadic: whether there is `*arguments`.
    """

    alone: int = 0
    is_variadic: bool = False


class Packing:
    """Finds packed values.

    Args:
        modules: all modules that define the project's own names.
    """

    def __init__(self, modules: Iterable[Module]) -> None:
        self._signatures: dict[str, _Signature] = {}
        nodes = (node for module in modules for node in ast.walk(module.tree))
        for node in nodes:
            if isinstance(node, _DEFINITIONS):
                self._note(node)

    def of(self, module: Module) -> list[str]:
        """Return each place once, as path:line and its text."""
        names = _bound_names(module)
        found: list[tuple[int, str]] = []
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Assign):
                found += [(node.lineno, what) for what in _unpacked(node)]
            elif isinstance(node, ast.Call):
                found += [(node.lineno, what) for what in self._packed(node, names)]
        return [f"{module.path}:{line} {what}" for line, what in sorted(found)]

    def _note(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        signature = self._signatures.setdefault(node.name, _Signature())
        if not isinstance(node, ast.ClassDef):
            alone = [each for each in node.args.posonlyargs if each.arg not in ("self", "cls")]
            signature.alone = max(signature.alone, len(alone))
            signature.is_variadic |= node.args.vararg is not None

    def _packed(self, call: ast.Call, names: Mapping[str, str]) -> Iterator[str]:
        values = self._counted(call, names)
        if len(values) > _MOST:
            yield f"{ast.unparse(call.func)}: {len(values)} by place"
        elif any(isinstance(each, ast.Starred) for each in values):
            yield f"{ast.unparse(call.func)}: *"

    def _counted(self, call: ast.Call, names: Mapping[str, str]) -> Sequence[ast.expr]:
        """Return the values of a call that could have names."""
        holder, leaf = _dotted(call.func)
        if not holder and names.get(leaf) == "functools.partial":
            return call.args[1:] if self._is_own(call.args[0], names) else ()
        if not self._is_own(call.func, names):
            return ()
        signature = self._signatures.get(leaf, _Signature())
        counted = call.args[signature.alone :]
        if not signature.is_variadic:
            return counted
        is_handed_on = bool(call.args) and self._is_own(call.args[0], names)
        return counted[0 if signature.alone else 1 :] if is_handed_on else ()

    def _is_own(self, called: ast.expr, names: Mapping[str, str]) -> bool:
        holder, leaf = _dotted(called)
        head = (holder or leaf).partition(".")[0]
        if head in names:
            return names[head].partition(".")[0] in _OWN_PACKAGES
        if not holder or holder.rpartition(".")[2] in _TASKS:
            return leaf == "cls"
        is_foreign = holder not in ("self", "cls") and leaf in _FOREIGN_METHODS
        return leaf in self._signatures and not is_foreign


def _bound_names(module: Module) -> dict[str, str]:
    """Return the names that a module imports or defines, with the full names of their objects."""
    defined = (each for each in ast.walk(module.tree) if isinstance(each, _DEFINITIONS))
    return {each.name: f"{PACKAGE}.{each.name}" for each in defined} | aliases_of(module)


def _dotted(called: ast.expr) -> tuple[str, str]:
    """Return a call's last name, and the text before it."""
    if isinstance(called, ast.Name):
        return "", called.id
    if not isinstance(called, ast.Attribute):
        return "?", ""
    holder, leaf = _dotted(called.value)
    return f"{holder}.{leaf}" if holder else leaf, called.attr


def _unpacked(node: ast.Assign) -> Iterator[str]:
    for target in node.targets:
        parts = target.elts if isinstance(target, ast.Tuple) else []
        if sum(isinstance(each, ast.Attribute) for each in parts) > 1:
            yield ast.unparse(target)


def packed_below(places: Sequence[str]) -> dict[str, list[str]]:
    """Find what is packed in files, and below folders, of this checkout."""
    modules = Tree.read(ROOT).of(*SOURCES)
    packing = Packing(modules)
    return {
        place: [
            found
            for module in modules
            if PurePosixPath(place) in (module.path, *module.path.parents)
            for found in packing.of(module)
        ]
        for place in places
    }


def main() -> None:
    """Print the packed values in folders, and their number."""
    for place, found in packed_below(sys.argv[1:] or [PACKAGE]).items():
        print("\n".join([*found, f"{place}: {len(found)}"]))


if __name__ == "__main__":
    main()
