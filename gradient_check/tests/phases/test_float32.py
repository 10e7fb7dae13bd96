"""How float32 is computed is read, made exact for a while, and put back, by whatever name."""

from typing import Any

import pytest
import torch

from gradient_check.phases.float32 import Float32, exact_float32

BACKENDS: Any = torch.backends
MATMUL = BACKENDS.cuda.matmul
CONV = BACKENDS.cudnn.conv


@pytest.fixture(autouse=True)
def process():
    """Puts the switches back."""
    before = Float32.current()
    yield
    before.put_back()
    assert Float32.current() == before


def by_the_newer_name(backend):
    def switch():
        backend.fp32_precision = "tf32"

    return switch


def allow_convolutions():
    torch.backends.cudnn.allow_tf32 = True


SWITCHES = {
    "products, older name": lambda: torch.set_float32_matmul_precision("high"),
    "products, newer name": by_the_newer_name(MATMUL),
    "convolutions, older name": allow_convolutions,
    "convolutions, newer name": by_the_newer_name(CONV),
}


@pytest.fixture
def exact():
    """All switches at the exact values."""
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    return Float32.current()


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_is_told_and_put_back(exact, switch):
    SWITCHES[switch]()
    now = Float32.current()
    assert now != exact
    changed = {name for name, words in now.in_words().items() if exact.in_words()[name] != words}
    what = "matmul" if switch.startswith("products") else "convolution"
    assert changed == {f"float32 {what} precision"}
    exact.put_back()
    assert Float32.current() == exact


@pytest.mark.parametrize("switch", SWITCHES)
def test_float32_is_exact_inside_and_as_it_was_afterwards(exact, switch):
    SWITCHES[switch]()
    before = Float32.current()
    with pytest.raises(KeyError):
        fail_inside()
    assert Float32.current() == before


def fail_inside():
    with exact_float32():
        assert "tf32" not in Float32.current().backends
        assert Float32.current().products == "highest"
        raise KeyError


def test_a_switch_above_the_others_is_met_too(exact):
    BACKENDS.fp32_precision = "tf32"
    try:
        with exact_float32():
            assert "tf32" not in Float32.current().backends
    finally:
        BACKENDS.fp32_precision = "none"
