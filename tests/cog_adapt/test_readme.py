"""What the README shows is true; `test_commands.py` runs its commands."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from cog_adapt.command.main import COMMANDS
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.selftest.task_file import load_task

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SELF_TEST = (ROOT / "docs" / "self-test.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README + SELF_TEST, re.DOTALL)


def test_the_trap_raises_as_shown():
    (trap,) = (block for block in BLOCKS if block.startswith("@torch"))
    scope: dict[str, Any] = {"torch": torch}
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
    scope: dict[str, Any] = {
        "Shapes": lambda: task,
        "ModelRunner": lambda given: ModelRunner(given, settings),
        "Recipe": Recipe,
        "examples": [Example(row, number % 10) for number, row in enumerate(inputs)],
        "inputs": inputs,
    }
    exec(use, scope)
    losses = scope["adaptation"].report.to_json()["losses"]
    assert losses[-1] < losses[0]


def test_the_commands_are_there():
    makefiles = "\n".join((ROOT / name).read_text() for name in ("Makefile", "package.mk"))
    recipes = set(re.findall(r"^([a-z]+):", makefiles, re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z]+)", README, re.MULTILINE)) <= recipes
    commands = re.findall(r"(?:python -m server|cog-adapt) ([a-z]+)", README)
    assert commands
    assert set(commands) <= {*COMMANDS}
    assert {
        path for path in re.findall(r"`(docs/[^`*]+)`", README) if not (ROOT / path).exists()
    } == set()


def test_the_tree_names_what_is_there():
    (tree,) = re.findall(r"## Tree\n\n```\n(.*?)```", README, re.DOTALL)
    folder = Path()
    for line in tree.splitlines():
        indented = line.startswith("  ")
        names = re.split(r"\s{2,}", line.strip())[0].split()
        if not indented:
            folder = Path(names[0]) if names[0].endswith("/") else Path()
        for name in names:
            assert (ROOT / (folder / name if indented else name)).exists(), name


def test_it_is_short():
    assert len(README.splitlines()) <= 130
