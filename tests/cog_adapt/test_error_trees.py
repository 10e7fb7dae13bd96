"""The trees of errors in the docstrings are the trees of classes, in every module below them."""

import ast
import re
from pathlib import Path

import pytest

from cog_adapt.runner import errors as of_runner
from cog_adapt.server import errors as of_server
from gradient_check.phases import errors as of_kernel

SERVER, RUNNER = (Path(str(each.__file__)).parent for each in (of_server, of_runner))
KERNEL = Path(str(of_kernel.__file__)).parents[1]
TREE = re.compile(r"^([│ ├└─]*)([A-Z]\w+)( .*)?$", re.MULTILINE)
BUILT_IN = re.compile(r"also (\w+)")


def drawn(errors):
    """Each error as often as it is drawn: its name, the one above it, what else it is."""
    above, found = {0: ""}, []
    for indent, name, text in TREE.findall(errors.__doc__.split("\n\n")[1]):
        level = len(indent) // 4
        above[level + 1] = name
        found.append((name, above[level], *BUILT_IN.findall(text)))
    return sorted(found)


def written(errors, folders):
    """The same of every public class that is one of these errors, wherever it is written."""
    tests = KERNEL / "tests"
    files = [f for each in folders for f in sorted(each.rglob("*.py")) if tests not in f.parents]
    classes = [
        node
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    (root,) = (each for each in drawn(errors) if not each[1])
    shown, left = {root[0]: root[0]}, [root[0]]
    found = [root]
    while left:
        name = left.pop()
        for node in classes:
            bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
            if name not in bases:
                continue
            is_public = not node.name.startswith("_")
            shown[node.name] = node.name if is_public else shown[name]
            left.append(node.name)
            others = [base for base in bases if base not in shown]
            found += [(node.name, shown[name], *others)] if is_public else []
    return sorted(found)


@pytest.mark.parametrize(
    ("errors", "folders", "least"),
    [
        (of_server, [SERVER], 10),
        (of_runner, [RUNNER, KERNEL], 10),  # the runner's tree goes on from the kernel's
        (of_kernel, [KERNEL], 7),
    ],
    ids=["server", "runner", "kernel"],
)
def test_every_error_is_drawn_once_where_it_stands(errors, folders, least):
    assert drawn(errors) == written(errors, folders)
    assert len(drawn(errors)) > least
