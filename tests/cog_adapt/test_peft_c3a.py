"""The page on the wrong gradient of peft's C3A: its code shows the fault, and the mend is right."""

import re
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from cog_adapt import check_gradients
from gradient_check.tests.present import present

peft = pytest.importorskip("peft", reason="peft is not installed")

PAGE = (Path(__file__).parents[2] / "gradient_check" / "docs" / "peft-c3a.md").read_text()
pytestmark = pytest.mark.skipif(
    version("peft") != "0.21.2", reason="the page is about version 0.21.2 of peft"
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(autouse=True)
def _backward_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the library's backward back, which the mend replaces."""
    function = import_module("peft.tuners.c3a.utils").BlockCircularConvolution
    monkeypatch.setattr(function, "backward", vars(function)["backward"])


@pytest.mark.parametrize(("code", "shown"), [(0, 0), (1, 2)], ids=["the fault", "the mend"])
def test_the_page_s_code_prints_what_the_page_shows(code: int, shown: int, capsys: Any) -> None:
    exec(blocks("python")[code], {})
    assert capsys.readouterr().out == blocks("text")[shown]


def last_loss(seed: int) -> float:
    """The loss of four C3A layers after 200 steps."""
    torch.manual_seed(seed)
    layers = [part for _ in range(4) for part in (nn.Linear(16, 16), nn.Tanh())]
    config = peft.C3AConfig(
        target_modules=["0", "2", "4", "6"], block_size=16, init_weights="gaussian"
    )
    model = peft.get_peft_model(nn.Sequential(*layers, nn.Linear(16, 1)), config)
    inputs = torch.randn(256, 16)
    targets = torch.sin(3 * inputs[:, :1])
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.05)
    for _ in range(200):
        loss = (model(inputs) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def test_training_ends_lower_with_the_mend() -> None:
    as_it_is = last_loss(0)
    exec(blocks("python")[1], {})
    assert last_loss(0) < 0.9 * as_it_is


def test_the_reproduction_is_short_and_needs_peft_and_torch_alone() -> None:
    code = [line for line in blocks("python")[0].splitlines() if line.strip()]
    assert len(code) <= 24
    imported = re.findall(r"^(?:from|import) (\w+)", "\n".join(code), re.MULTILINE)
    assert set(imported) == {"torch", "peft"}


def test_the_check_names_the_backward_of_the_library() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    config = peft.C3AConfig(target_modules=["0", "2"], block_size=4, init_weights="gaussian")
    model = peft.get_peft_model(net, config)
    report = check_gradients(model, torch.randn(16, 8), lambda y: y.square().mean(), trainable="c3")
    (found,) = (finding for finding in report.findings if finding.level == "FAIL")
    assert found.code == "gradient-wrong"
    assert "peft/tuners/c3a/utils.py:40: def backward" in present(found.line)
    assert blocks("text")[-1].split("Where: ")[1].split() == (
        f"{found.module}, {present(found.line)[present(found.line).index('peft/') :]}".split()
    )
