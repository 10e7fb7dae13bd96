"""Equal bits on CUDA are a mode that is stated, or they are not promised."""

import os

import pytest
import torch
from torch import Tensor
from torch.backends import cuda

from gradient_check.phases.determinism import (
    is_repeatable,
    make_deterministic,
    mode_of,
    repeatable_attention,
    require_repeatable,
)
from gradient_check.phases.errors import InputError, SetupError
from gradient_check.phases.gradient_step import GradientStep
from gradient_check.phases.precision import Precision
from gradient_check.tests.models import TinyTransformer, seeded_module

CPU, CARD = torch.device("cpu"), torch.device("cuda", 0)
WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


@pytest.fixture(autouse=True)
def process(monkeypatch):
    """A process in which CUDA has not started; its switches are put back."""
    monkeypatch.delenv(WORKSPACE, raising=False)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    yield monkeypatch
    torch.use_deterministic_algorithms(False)


def test_the_mode_is_off_on_a_card_and_needless_on_the_cpu():
    assert is_repeatable(CPU)
    assert not is_repeatable(CARD)
    require_repeatable(CPU)
    assert mode_of(CPU) == mode_of(CARD) == ""
    with pytest.raises(InputError, match=r"on cuda:0 without DETERMINISTIC=1.*Leave `determinist"):
        require_repeatable(CARD)


def test_the_mode_sets_the_workspace_and_lets_what_cannot_repeat_raise():
    make_deterministic()
    assert os.environ[WORKSPACE] == ":4096:8"
    assert torch.get_deterministic_debug_mode() == 2
    assert not torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    assert is_repeatable(CARD)
    assert (mode_of(CPU), mode_of(CARD)) == ("", " deterministic")
    require_repeatable(CARD)


def test_half_of_the_mode_promises_nothing():
    torch.use_deterministic_algorithms(True)
    assert not is_repeatable(CARD)  # cuBLAS chooses its workspaces by the streams
    make_deterministic()
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert not is_repeatable(CARD)


def test_cuda_that_has_started_is_too_late_unless_the_workspace_was_set(process):
    process.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(SetupError, match=f"CUDA was started before.*{WORKSPACE}=:4096:8"):
        make_deterministic()
    assert torch.get_deterministic_debug_mode() == 0
    process.setenv(WORKSPACE, ":16:8")
    make_deterministic()
    assert is_repeatable(CARD)
    assert os.environ[WORKSPACE] == ":16:8"


def test_a_workspace_that_does_not_repeat_is_refused_by_its_value(process):
    process.setenv(WORKSPACE, ":0:0")
    with pytest.raises(SetupError, match=f"{WORKSPACE} is ':0:0'; allowed: :4096:8 or :16:8"):
        make_deterministic()


def attention():
    return (cuda.math_sdp_enabled(), cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled())


def test_attention_is_by_products_only_in_the_mode_and_on_a_card():
    before = attention()
    with repeatable_attention(CARD):
        assert attention() == before
    make_deterministic()
    with repeatable_attention(CPU):
        assert attention() == before
    with repeatable_attention(CARD):
        assert attention() == (True, False, False)
    assert attention() == before


@pytest.mark.parametrize("way", ["losses", "gradients", "__call__"])
def test_a_step_chooses_attention_from_its_forward_to_the_end_of_its_backward(process, way):
    """Where blocks are recomputed, backward runs them again."""
    seen: list[tuple[bool, ...]] = []

    def loss(module, batch: Tensor) -> Tensor:
        seen.append(attention())
        out = module(batch)[0]
        out.register_hook(lambda _: seen.append(attention()))
        return out.sum(-1)

    replica = seeded_module(TinyTransformer)
    step = GradientStep(replica, loss, torch.optim.AdamW, Precision(CPU), frozenset())
    process.setattr(
        "gradient_check.phases.gradient_step.repeatable_attention",
        lambda _: repeatable_attention(CARD),
    )
    make_deterministic()
    getattr(step, way)(torch.tensor([[1, 2, 3, 4, 5, 6]]), 0)
    assert set(seen) == {(True, False, False)}
    assert len(seen) == (1 if way == "losses" else 2)
