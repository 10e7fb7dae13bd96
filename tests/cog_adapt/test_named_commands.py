"""Every command that an error or a remedy names is run: in a project here, or where the table says.

A command is what stands in backticks in a text of the program, or a remedy of `doctor`.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cog_adapt.command import new
from tests.cog_adapt.command.test_new import environment

ROOT = Path(__file__).parents[2]
OURS = ("cog_adapt", "gradient_check", "server", "examples")
LEFT_OUT = ("gradient_check/tests", "gradient_check/exam")
IS_COMMAND = re.compile(r"(rm -rf|make|cog-adapt|pip|python3?|[A-Z_]+=… make|…? ?-m) ")
IN_PROJECT = {
    "make setup": "make --dry-run setup",
    "make setup, or python -m cog_adapt weights": f"{sys.executable} -m cog_adapt weights",
    "make setup, or …": f"{sys.executable} -m pip install --dry-run -r requirements.txt",
    "rm -rf .venv && make PYTHON=python3.11 setup": "make --dry-run PYTHON=python3.11 setup",
    "python -m cog_adapt weights": f"{sys.executable} -m cog_adapt weights",
    "python -m cog_adapt doctor": f"{sys.executable} -m cog_adapt doctor",
    "cog-adapt new": f"{sys.executable} -m cog_adapt new another",
    "cog-adapt new my-model": f"{sys.executable} -m cog_adapt new my-model",
    "PORT=… make serve": "PORT=5001 make --dry-run serve",
    "WEIGHTS_DIR=… make serve": "WEIGHTS_DIR=other make --dry-run serve",
    "… -m pip install -r …": f"{sys.executable} -m pip install --dry-run -r requirements.txt",
}
"""A command as it is named, and as it is run here: without writing into `.venv`."""
ELSEWHERE = {
    "cog-adapt …": ("bench/first_hour.py", '"cog-adapt selftest"'),
    "cog-adapt adapters give NAME OWNER": ("tests/cog_adapt/command/test_adapters.py", '"give"'),
    "cog-adapt adapters move-to-store": (
        "tests/cog_adapt/command/test_adapters.py",
        '"move-to-store"',
    ),
    "cog-adapt doctor": ("bench/first_hour.py", '"cog-adapt doctor"'),
    "python -m server": ("tests/cog_adapt/command/test_new.py", '"-m", "server"'),
    "python -m cog_adapt.command.settings > docs/settings.md": (
        "tests/cog_adapt/command/test_settings.py",
        "settings.md",
    ),
    "make page": ("tests/cog_adapt/page/test_built.py", "run `make page`"),  # sees what it wrote
    "pip install 'cog-adapt[remote]'": ("requirements-dev.txt", "obstore=="),
    "pip install boto3": ("requirements-dev.txt", "moto[server]=="),  # which needs it
    "pip install lightning": ("requirements-dev.txt", "lightning=="),
    "pip install transformers accelerate": ("requirements-dev.txt", "accelerate=="),
}
"""A command, the file that runs it or installs the same, and a text of that file."""
WALKED = ('steps("make setup", setup', "_served(kind, steps=steps, command=serve")


def texts(tree):
    """The strings of a module that are no docstrings, `…` for what is filled in."""
    inside: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inside.add(node.value)
        if isinstance(node, ast.JoinedStr):
            inside.update(node.values)
            parts = [p.value if isinstance(p, ast.Constant) else "…" for p in node.values]
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            yield re.sub(r"\{[a-z_]+\}", "…", node.value)


def named():
    """The commands that the sources name."""
    files = [p for name in OURS for p in (ROOT / name).rglob("*.py")] + [*ROOT.glob("*.py")]
    for path in files:
        where = path.relative_to(ROOT).as_posix()
        if where.startswith(LEFT_OUT) or "/tests/" in where:
            continue
        for text in texts(ast.parse(path.read_text())):
            found = re.findall(r"`([^`]+)`", text)
            found += [text] if where == "cog_adapt/command/doctor.py" else []
            yield from (each for each in found if IS_COMMAND.match(each))


def test_every_command_that_is_named_is_run():
    assert {*named()} == IN_PROJECT.keys() | ELSEWHERE.keys()


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("named") / "project"
    new.write_project(folder, "tabular")
    return folder


@pytest.mark.parametrize("command", IN_PROJECT)
def test_it_runs_in_a_project(project, command):
    done = subprocess.run(
        IN_PROJECT[command],
        shell=True,
        cwd=project,
        env=environment(PORT="0"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", ELSEWHERE)
def test_it_is_run_where_the_table_says(command):
    file, text = ELSEWHERE[command]
    assert text in (ROOT / file).read_text()


def test_the_first_hour_runs_setup_and_serve_as_they_are_printed():
    walk = (ROOT / "bench" / "first_hour.py").read_text()
    assert [text for text in WALKED if text not in walk] == []
    recipes = subprocess.run(
        ["make", "--dry-run", "quick", "ENV="], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "bench.first_hour --quick" in recipes.stdout
