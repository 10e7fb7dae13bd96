"""Whatever could make a pass untrue changes the conditions; nothing else does."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.selftest import conditions
from cog_adapt.runner.selftest.conditions import conditions_of
from gradient_check.phases.precision import Precision
from gradient_check.tests.models import seeded_module
from tests.cog_adapt.models import Images, Letters

CPU = RunnerSettings(device="cpu")
TASK = """
import own_conditions_helper
from tests.cog_adapt.models import Images


class Own(Images):
    pass
"""


def of(task, settings=CPU):
    return conditions_of(LoadedModel(task, settings))


def changed(before, after):
    return {name for name in before if before[name] != after[name]}


def test_they_are_the_same_for_the_same_model_and_name_all_that_counts():
    found = of(Letters())
    assert found == of(Letters())
    assert set(found) == {
        "base", "structure", "task", "package", "libraries", "python", "torch", "cuda", "cudnn",
        "driver", "card", "precision", "flags",
    }  # fmt: skip
    assert found["torch"] == torch.__version__
    assert "torch" in found["libraries"]


class OtherWeights(Images):
    def load(self):
        return seeded_module(self.module, seed=1)


class OtherStructure(Images):
    def load(self):
        module: Any = super().load()
        module.norm.eps = 0.5
        return module


def test_other_weights_another_structure_and_another_task_change_them():
    plain = of(Images())
    assert {"base", "task"} <= changed(plain, of(OtherWeights()))
    assert "base" not in changed(plain, of(OtherStructure()))
    assert "structure" in changed(plain, of(OtherStructure()))


def test_a_plain_value_of_the_task_changes_them_and_an_object_does_not():
    task: Any = Images()
    task.tokenizer = object()
    assert not changed(of(Images()), of(task))
    task.lora_targets = "head"
    assert changed(of(Images()), of(task)) == {"task"}
    other: Any = Images()
    other.folder = Path("weights")
    assert changed(of(Images()), of(other)) == {"task"}


def test_the_precision_and_how_it_serves_change_them():
    plain = of(Images())
    others = (
        RunnerSettings(device="cpu", precision="bf16"),
        RunnerSettings(device="cpu", serve_mode="no_grad"),
    )
    for settings in others:
        assert changed(plain, of(Images(), settings)) == {"precision"}


@pytest.fixture
def own_files(tmp_path, monkeypatch):
    """A task's file and a neighbour that it imports; a function that loads the task."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_conditions_task.py").write_text(TASK)
    (tmp_path / "own_conditions_helper.py").write_text("x = 1\n")
    import own_conditions_task  # type: ignore[import-not-found]

    yield tmp_path, own_conditions_task.Own
    for name in ("own_conditions_task", "own_conditions_helper"):
        sys.modules.pop(name)


@pytest.mark.parametrize("name", ["own_conditions_task", "own_conditions_helper"])
def test_the_code_of_the_task_and_of_what_it_imports_changes_them(own_files, name):
    folder, kind = own_files
    before = of(kind())
    file = folder / f"{name}.py"
    file.write_text(file.read_text() + "# changed\n")
    assert changed(before, of(kind())) == {"task"}


def test_the_code_of_the_package_changes_them(tmp_path, monkeypatch):
    plain = of(Images())
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "module.py").write_text("x = 1\n")
    monkeypatch.setattr(conditions, "PACKAGES", (tmp_path,))
    assert "package" in changed(plain, of(Images()))


@pytest.mark.parametrize(
    ("name", "attribute"),
    [("torch", "torch.__version__"), ("cuda", "torch.version.cuda")],
)
def test_a_version_changes_them(monkeypatch, name, attribute):
    plain = of(Images())
    monkeypatch.setattr(attribute, "0.0")
    assert name in changed(plain, of(Images()))


def test_cudnn_and_a_librarys_version_change_them(monkeypatch):
    plain = of(Images())
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 1)
    assert changed(plain, of(Images())) == {"cudnn"}
    monkeypatch.setattr(sys.modules["torch"], "__version__", "0")
    assert {"torch", "libraries"} <= changed(plain, of(Images()))


def test_the_driver_and_the_card_change_them(tmp_path, monkeypatch):
    plain = of(Images())
    driver = tmp_path / "version"
    driver.write_text("NVRM version: 570\nGCC\n")
    monkeypatch.setattr(conditions, "DRIVER", driver)
    assert changed(plain, of(Images())) == {"driver"}
    card = types.SimpleNamespace(name="H100", major=9, minor=0, total_memory=80)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: card)
    model = LoadedModel(Images(), CPU)
    model.base.precision = Precision(torch.device("cuda", 0))
    assert conditions_of(model)["card"] == "H100 9.0 80"


@pytest.mark.parametrize(
    ("function", "value", "undo"),
    [
        (torch.set_float32_matmul_precision, "medium", "highest"),
        (torch.use_deterministic_algorithms, True, False),
        (torch.set_num_threads, 2, 1),
    ],
)
def test_a_flag_of_precision_changes_them(function, value, undo):
    plain = of(Images())
    function(value)
    try:
        assert changed(plain, of(Images())) == {"flags"}
    finally:
        function(undo)
