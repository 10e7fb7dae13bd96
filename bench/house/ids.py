"""Lists every test of a tree, by file, name and parameters."""

from collections import defaultdict

from bench.house.normal import normal
from bench.house.tree import Tree


def test_ids(tree: Tree) -> dict[str, str]:
    """Make `tests.txt`: a line `FILE::NAME`, and below it a tab and the parameters of each."""
    arguments = ["-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests"]
    ended = tree.run(arguments, tree.path)
    if ended.code != 0:
        raise RuntimeError(f"the tests cannot be collected:\n{ended.out[-3000:]}")
    ids = [line for line in ended.out.splitlines() if "::" in line]
    known = {str(tree.path): "<tree>"}
    return {"tests.txt": grouped([normal(each, known) for each in ids])}


def grouped(ids: list[str]) -> str:
    """Write ids as lines, with the parameters of a test below its name."""
    found: dict[str, list[str]] = defaultdict(list)
    for each in ids:
        name, bracket, parameters = each.partition("[")
        found[name] += [f"\t[{parameters}"] if bracket else []
    return "".join(f"{line}\n" for name in sorted(found) for line in (name, *sorted(found[name])))


def ungrouped(text: str) -> list[str]:
    """Return the ids that `grouped` was given, sorted by name."""
    ids: list[str] = []
    name = ""
    for line in text.splitlines():
        if line.startswith("\t"):
            ids.append(name + line[1:])
            continue
        if name and (not ids or not ids[-1].startswith(f"{name}[")):
            ids.append(name)
        name = line
    return [*ids, name] if name and (not ids or not ids[-1].startswith(f"{name}[")) else ids
