"""What the README shows is true."""

import re
from pathlib import Path

import pytest
import torch

from runner.config import Recipe, RunnerSettings
from runner.examples import Example
from runner.model_runner import ModelRunner
from runner.selftest import load_task

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_trap_raises_as_shown():
    (trap,) = (block for block in BLOCKS if block.startswith("@torch"))
    scope = {"torch": torch}
    exec(trap, scope)
    weights = torch.ones(2, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        scope["predict"](weights, torch.ones(2))


def test_a_model_of_ones_own_adapts_and_passes_the_self_test(tmp_path):
    (own,) = (block for block in BLOCKS if "class Shapes(Task)" in block)
    (use,) = (block for block in BLOCKS if "ModelRunner(Shapes())" in block)
    path = tmp_path / "shapes.py"
    path.write_text(own)
    task = load_task(f"{path}:Shapes")
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path)
    inputs = torch.rand(20, 64, generator=torch.Generator().manual_seed(0)).tolist()
    scope = {
        "Shapes": lambda: task,
        "ModelRunner": lambda given: ModelRunner(given, settings),
        "Recipe": Recipe,
        "examples": [Example(row, number % 10) for number, row in enumerate(inputs)],
        "inputs": inputs,
    }
    exec(use, scope)
    losses = scope["adaptation"].report.to_json()["losses"]
    assert losses[-1] < losses[0]


def test_the_settings_table_names_every_setting():
    for name in RunnerSettings.__dataclass_fields__:
        assert f"`{name.upper()}`" in README


def test_the_tree_names_what_is_there():
    root = Path(__file__).parent.parent
    (tree,) = re.findall(r"## Tree\n\n```\n(.*?)```", README, re.DOTALL)
    folder = Path()
    for line in tree.splitlines():
        indented = line.startswith("  ")
        names = re.split(r"\s{2,}", line.strip())[0].split()
        if not indented:
            folder = Path(names[0]) if names[0].endswith("/") else Path()
        for name in names:
            assert (root / (folder / name if indented else name)).exists(), name


def test_it_is_short():
    assert len(README.splitlines()) <= 150
