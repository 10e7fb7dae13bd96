"""Plants a mistake in each of some modules, and runs that module's own test file.

    python -m bench.house.planted --modules 30 --seed 1 --output docs/results/house/planted.md

Each mistake is planted in a copy of the tree: a condition negated, a number off by one, a result
dropped, a statement left out. A mistake that the file does not see is named: it may be equivalent.
"""

import argparse
import ast
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SECONDS = 300
_LEFT_BEHIND = shutil.ignore_patterns(".git", ".venv", ".data", "__pycache__", ".*_cache")


def modules() -> list[Path]:
    """Return the package's modules that have a test file of their path."""
    found = sorted((ROOT / "cog_adapt").rglob("*.py"))
    return [path.relative_to(ROOT) for path in found if (ROOT / _test_of(path)).exists()]


def _test_of(path: Path) -> Path:
    relative = path.relative_to(ROOT) if path.is_absolute() else path
    return Path("tests") / relative.parent / f"test_{relative.name}"


class _Planter(ast.NodeTransformer):
    """Plants a mistake at one place, given by its number, and counts the places."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.places, self.text = wanted, 0, ""

    def _is_wanted(self, node: ast.AST) -> bool:
        self.places += 1
        if self.places - 1 != self.wanted:
            return False
        self.text = f"line {getattr(node, 'lineno', 0)}: {ast.unparse(node).splitlines()[0][:80]}"
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


def _run(tree: Path, test: Path) -> bool:
    """Return whether a test file sees a mistake."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", str(test)]
    try:
        done = subprocess.run(command, cwd=tree, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def sample(count: int, seed: int) -> Iterator[tuple[Path, str, bool]]:
    """Yield module, mistake, and whether its own test file sees it."""
    chance = random.Random(seed)
    drawn = chance.sample(modules(), count)
    sources = {module: (ROOT / module).read_text("utf-8") for module in drawn}
    planted = {module: plant(source, chance) for module, source in sources.items()}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=_LEFT_BEHIND)
        for module, (text, mistake) in ((m, found) for m, found in planted.items() if found):
            (tree / module).write_text(text, "utf-8")
            yield module, mistake, _run(tree, _test_of(module))
            (tree / module).write_text(sources[module], "utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Write which mistakes are seen."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--modules", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args(arguments)
    lines = ["| module | mistake | seen by its own test file |", "|---|---|---|"]
    for module, text, is_seen in sample(chosen.modules, chosen.seed):
        escaped = text.replace("|", "\\|")
        lines.append(f"| {module} | `{escaped}` | {'yes' if is_seen else '**no**'} |")
        sys.stdout.write(lines[-1] + "\n")
        sys.stdout.flush()
    if chosen.output is not None:
        heading = (
            f"# Planted mistakes\n\nBy `python -m bench.house.planted --seed {chosen.seed}`.\n\n"
        )
        chosen.output.write_text(heading + "\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
