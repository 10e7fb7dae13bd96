"""`python -m gradient_check path.py:make`: the check for who has no test suite."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gradient_check.__main__ import main

ROOT = Path(__file__).parents[2]
NETS = """
import torch
from torch import nn
from beside import SIZE


class Cut(nn.Sequential):
    def forward(self, inputs):
        return self[1](self[0](inputs).detach())


def parts(kind):
    torch.manual_seed(0)
    net = kind(nn.Linear(SIZE, 8), nn.Linear(8, 3))
    return net, (torch.randn(4, SIZE), torch.tensor([0, 1, 2, 0])), nn.CrossEntropyLoss()


def healthy():
    return parts(nn.Sequential)


def cut():
    return parts(Cut)


def with_options():
    return (*parts(Cut), {"trainable": "^1"})


def by_name():
    module, probe, loss = parts(nn.Sequential)
    return {"module": module, "probe": probe, "loss": loss, "seed": 3}


def with_a_gap():
    module, probe, loss = parts(nn.Sequential)
    return nn.Sequential(module, Scaled()), probe, loss


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, logits):
        return logits + 1e-9 * self.scale * logits


def raising():
    raise RuntimeError("no weights here")


def two():
    return parts(nn.Sequential)[:2]


def misspelt():
    return (*parts(nn.Sequential), {"trainabel": "1"})


def wrong_probe():
    module, _, loss = parts(nn.Sequential)
    return module, torch.ones(4, SIZE), loss


number = 3
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nets.py, and a file beside it that it imports."""
    path = tmp_path_factory.mktemp("nets")
    (path / "nets.py").write_text(NETS)
    (path / "beside.py").write_text("SIZE = 6\n")
    (path / "broken.py").write_text("import torch\n\nlayer = torch.nn.Linaer(2, 2)\n")
    return path


@pytest.fixture(autouse=True)
def _in_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each test in that folder, with paths and modules put back after it."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("beside", "checked_nets", "checked_broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_a_model_that_passes_is_exit_code_0(capsys: Any) -> None:
    assert main(["nets.py:healthy"]) == 0
    assert capsys.readouterr().out.startswith("gradient self-test passed: 4 trained tensors")


def test_a_fault_is_exit_code_1_and_its_line_is_named_in_the_file(folder: Path) -> None:
    command = [sys.executable, "-m", "gradient_check", "nets.py:cut"]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "FAIL graph-cut" in done.stdout
    assert "nets.py:9: return self[1](self[0](inputs).detach())" in done.stdout


def test_the_report_as_json_is_what_the_call_returns(capsys: Any) -> None:
    assert main(["nets.py:cut", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] is False
    assert report["findings"][0]["code"] == "graph-cut"


@pytest.mark.parametrize("maker", ["with_options", "by_name"])
def test_options_may_come_with_the_arguments_or_by_name(maker: str) -> None:
    assert main([f"nets.py:{maker}"]) == 0


def test_strict_fails_where_the_proof_has_gaps(capsys: Any) -> None:
    assert main(["nets.py:with_a_gap"]) == 0
    assert main(["nets.py:with_a_gap", "--strict"]) == 1
    assert "FAIL unverified-strict" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("nets.py", "'nets.py' names no function of a file. Write `path.py:make`."),
        ("absent.py:make", "absent.py is no file."),
        ("nets.py:absent", "nets.py has no 'absent'. Define `def absent():`; let it return"),
        ("nets.py:number", "nets.py:number is a int. Name a function; let it return"),
        ("nets.py:two", "nets.py:two returned a tuple of 2; let it return"),
        ("nets.py:raising", "nets.py:raising raised RuntimeError: no weights here. Where: nets.py"),
        ("broken.py:make", "Where: broken.py:3: layer = torch.nn.Linaer(2, 2)"),
        ("nets.py:misspelt", "unexpected keyword argument 'trainabel'"),
        ("nets.py:wrong_probe", "Pass `(inputs, targets)` as the probe"),
    ],
)
def test_a_wrong_call_is_exit_code_2_and_a_sentence(
    target: str, sentence: str, capsys: Any
) -> None:
    assert main([target]) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
