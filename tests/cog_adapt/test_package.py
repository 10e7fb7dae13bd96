"""The public names of the package: what they cost, and that those outside use no others."""

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import cog_adapt
from gradient_check.tests.present import present

ROOT = Path(__file__).parents[2]
DOORS = [
    *(ROOT / name for name in ("predict.py", "train.py")),
    *ROOT.glob("task.py"),
    *ROOT.glob("encoder.py"),
    *sorted((ROOT / "server").rglob("*.py")),
    *sorted((ROOT / "examples").rglob("*.py")),
    *sorted((ROOT / "tests").glob("test_*.py")),
]
FRAMEWORKS = {"fastapi", "starlette", "uvicorn", "sqlalchemy", "typer"}


def modules_after(code: str) -> set[str]:
    """The modules of a fresh interpreter that has run some code in the repository."""
    command = f"import sys; {code}; import json; print(json.dumps([*sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_package_imports_nothing():
    assert modules_after("import cog_adapt") - modules_after("pass") == {"cog_adapt"}


def test_the_command_imports_nothing_before_it_knows_which():
    ours = {"cog_adapt", "cog_adapt.__main__", "cog_adapt.command", "cog_adapt.command.main"}
    assert modules_after("import cog_adapt.__main__") - modules_after("pass") == ours


def test_the_server_needs_no_torch():
    code = (
        "from cog_adapt import Settings, create_app, serve; import cog_adapt.server.command.serve"
    )
    assert modules_after(code).isdisjoint({"torch", "numpy", "transformers"})


def test_check_gradients_needs_torch_alone():
    modules = modules_after("from cog_adapt import check_gradients")
    assert modules.isdisjoint(
        FRAMEWORKS | {"rich", "transformers", "safetensors", "cog", "pydantic"}
    )
    assert "torch" in modules


def test_a_public_name_is_what_a_type_checker_finds_in_its_module():
    tree = ast.parse(Path(cog_adapt.__file__).read_text())
    imports = [
        node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 0
    ]
    seen = {
        name.asname: present(node.module)
        for node in imports
        for name in node.names
        if present(node.module).startswith("cog_adapt.")
    }
    assert seen.keys() == {*cog_adapt.__all__}
    for name, module in seen.items():
        assert getattr(cog_adapt, str(name)) is getattr(import_module(module), str(name))
        assert name in dir(cog_adapt)


@pytest.mark.parametrize(
    ("name", "now"),
    [
        ("Question", "cog_adapt.Request"),
        ("train_async", "cog_adapt.train"),
        ("default_adapter", "ModelRunner"),
    ],
)
def test_an_old_name_says_what_it_is_now(name, now):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; it is {now}"):
        getattr(cog_adapt, name)


def test_another_name_is_an_error():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        cog_adapt.Nothing  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="Nothing"):
        from cog_adapt import Nothing  # type: ignore[attr-defined]  # noqa: F401


def parts_of_the_package(text):
    """The modules of the package that a source imports, itself not."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("cog_adapt.")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cog_adapt."):
            found.add(present(node.module))
        elif isinstance(node, ast.ImportFrom) and node.module == "cog_adapt":
            found |= {alias.name for alias in node.names} - {*cog_adapt.__all__}
    return found


@pytest.mark.parametrize("path", DOORS, ids=lambda path: str(path.relative_to(ROOT)))
def test_who_stands_outside_imports_public_names_only(path):
    assert parts_of_the_package(path.read_text()) == set()


@pytest.mark.parametrize(
    "line",
    [
        "import cog_adapt.runner",
        "from cog_adapt.server.main import serve",
        "from cog_adapt import x",
    ],
)
def test_the_check_of_imports_sees(line):
    assert parts_of_the_package(line)
