"""A mistake in each of some modules that have a test file of their path, drawn by chance.

A condition is negated, a number is off by one, a result is dropped, or a statement is left out.
"""

import ast
import random
from pathlib import Path

from bench.breaks.planting import ROOT, Break


def drawn(count: int, seed: int) -> list[Break]:
    """Return a mistake in each of some modules, except modules without a place for one."""
    chance = random.Random(seed)
    chosen = chance.sample(modules(), count)
    sources = {module: (ROOT / module).read_text("utf-8") for module in chosen}
    made = [(module, source, plant(source, chance)) for module, source in sources.items()]
    return [
        Break(f"{module}, {found[1]}", str(module), source, found[0], str(_test_of(module)))
        for module, source, found in made
        if found
    ]


def modules() -> list[Path]:
    """Return the package's modules that have a test file of their path."""
    found = (path.relative_to(ROOT) for path in sorted((ROOT / "cog_adapt").rglob("*.py")))
    return [path for path in found if (ROOT / _test_of(path)).exists()]


def _test_of(module: Path) -> Path:
    return Path("tests") / module.parent / f"test_{module.name}"


class _Planter(ast.NodeTransformer):
    """Plants a mistake at one place, given by its number, and counts the places."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.places, self.text = wanted, 0, ""

    def _is_wanted(self, node: ast.AST) -> bool:
        self.places += 1
        if self.places - 1 != self.wanted:
            return False
        shown = ast.unparse(node).splitlines()[0][:80]
        self.text = f"line {getattr(node, 'lineno', 0)}: `{shown}`"
        return True

    def visit_If(self, node: ast.If) -> ast.AST:
        """Negate a condition."""
        self.generic_visit(node)
        if self._is_wanted(node):
            node.test = ast.UnaryOp(ast.Not(), node.test)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Negate a condition."""
        self.generic_visit(node)
        if self._is_wanted(node):
            node.test = ast.UnaryOp(ast.Not(), node.test)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Swap addition and subtraction."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Add | ast.Sub) and self._is_wanted(node):
            node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        """Return nothing."""
        self.generic_visit(node)
        has_value = node.value is not None and not isinstance(node.value, ast.Constant)
        return ast.Return(None) if has_value and self._is_wanted(node) else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """Leave a call out."""
        is_call = isinstance(node.value, ast.Call) and "log." not in ast.unparse(node.value)
        return ast.Pass() if is_call and self._is_wanted(node) else node


def plant(source: str, chance: random.Random) -> tuple[str, str] | None:
    """Return a source with one mistake, and its description, or None if no place fits."""
    counting = _Planter(-1)
    counting.visit(ast.parse(source))
    if not counting.places:
        return None
    planter = _Planter(chance.randrange(counting.places))
    tree = ast.fix_missing_locations(planter.visit(ast.parse(source)))
    return ast.unparse(tree), planter.text
