"""Only `modes.py` switches modes: nobody else in the sources, and ruff says so too."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODES = ROOT / "gradient_check" / "phases" / "modes.py"
SOURCES = [
    *sorted(
        path
        for path in (ROOT / "cog_adapt").rglob("*.py")
        if "client" not in path.relative_to(ROOT).parts  # no torch: its `train` starts a training
    ),
    *sorted(
        path
        for path in (ROOT / "gradient_check").rglob("*.py")
        if not {"exam", "tests"} & {*path.relative_to(ROOT).parts}
    ),
    *(
        path
        for name in ("predict.py", "train.py", "task.py", "encoder.py")
        if (path := ROOT / name).exists()
    ),
    *sorted((ROOT / "server").rglob("*.py")),
    *sorted(
        path
        for path in (ROOT / "examples").rglob("*.py")
        if "tests" not in path.relative_to(ROOT).parts  # which compute by hand what is compared
    ),
]
SWITCHES = {
    *("no_grad", "enable_grad", "inference_mode", "set_grad_enabled", "_set_grad_enabled"),
    *("autocast", "set_autocast_enabled", "set_autocast_dtype", "set_autocast_cache_enabled"),
    *("autocast_increment_nesting", "autocast_decrement_nesting", "clear_autocast_cache"),
    *("set_multithreading_enabled", "_force_original_view_tracking", "_InferenceMode"),
}
WORDS = {*SWITCHES, ".eval", ".train", ".training"}  # a source without any of them needs no look


def name_of(path):
    return str(path.relative_to(ROOT))


def modules_in(tree):
    """The names that a source's imports bind."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    names = (alias for node in imports for alias in node.names)
    return {(alias.asname or alias.name).partition(".")[0] for alias in names}


def root_of(node):
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def switches_in(text):
    """Where a source switches a mode, as (line, name)."""
    if not any(word in text for word in WORDS):
        return []
    tree = ast.parse(text)
    modules = modules_in(tree)
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=attr) if attr in SWITCHES and root_of(node) in modules:
                found.append((node.lineno, attr))
            case ast.ImportFrom(names=names):
                found += [(node.lineno, n.name) for n in names if n.name in SWITCHES]
            case ast.Call(func=ast.Attribute(attr="eval" | "train" as attr)):
                found.append((node.lineno, f".{attr}()"))
            case ast.Attribute(value=owner, attr="training", ctx=ast.Store()) if (
                ast.unparse(owner) != "self"  # an attribute of its own that has this name
            ):
                found.append((node.lineno, ".training ="))
    return sorted(found)


def test_only_modes_switches_modes():
    found = {name_of(path): switches_in(path.read_text()) for path in SOURCES if path != MODES}
    assert {name: switches for name, switches in found.items() if switches} == {}


@pytest.mark.parametrize(
    "line",
    [
        "with torch.no_grad(): pass",
        "from torch import no_grad",
        "from torch import inference_mode as quiet",
        "torch.set_grad_enabled(False)",
        "torch.autograd.grad_mode.enable_grad",
        "switch = grads.no_grad",
        "@torch.inference_mode()\ndef f(): pass",
        "with torch.autocast('cpu'): pass",
        "from torch.amp import autocast",
        "torch.set_autocast_enabled('cpu', True)",
        "module.eval()",
        "self.model.layers[0].train(False)",
        "part.training = True",
    ],
)
def test_the_check_of_modes_sees(line):
    assert switches_in(f"import torch\nimport torch.autograd as grads\n{line}")


def test_modes_itself_is_where_they_are_switched():
    names = {name for _, name in switches_in(MODES.read_text())}
    assert {"no_grad", "enable_grad", "inference_mode", "autocast", ".eval()"} <= names


BANNED = [
    "import torch\n\nwith torch.no_grad():\n    pass\n",
    "from torch import no_grad\n\nno_grad()\n",
    "import torch\n\ntorch.set_grad_enabled(False)\n",
    "import torch\n\nwith torch.autocast('cpu'):\n    pass\n",
    "from torch.autograd.grad_mode import enable_grad\n\nenable_grad()\n",
    "import torch as t\n\nt.inference_mode()\n",
]


def ruff(text, filename):
    return subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--select", "TID251", "--output-format", "concise"]
        + ["--stdin-filename", filename, "-"],
        input=text,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )


@pytest.mark.parametrize("text", BANNED)
def test_ruff_refuses_a_mode_switched_elsewhere_and_says_where_it_belongs(text):
    done = ruff(text, "cog_adapt/runner/elsewhere.py")
    assert done.returncode == 1, done
    assert "TID251" in done.stdout
    assert "only gradient_check/phases/modes.py switches modes" in done.stdout


def test_ruff_lets_modes_switch_them():
    assert ruff(BANNED[0], "gradient_check/phases/modes.py").returncode == 0
