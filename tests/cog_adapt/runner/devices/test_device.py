"""What was asked for, or a clear error; never less."""

from contextlib import contextmanager
from typing import Any

import pytest
import torch

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices import device
from cog_adapt.runner.devices.device import choose_precision
from cog_adapt.runner.errors import SetupError
from gradient_check.phases.precision import Precision

WITHOUT_CUDA_BUILD = pytest.mark.skipif(
    torch.version.cuda is not None, reason="this torch is a build with CUDA"
)


@WITHOUT_CUDA_BUILD
@pytest.mark.parametrize("name", ["cuda", "cuda:0", "cuda:3"])
def test_cuda_on_a_build_without_it_is_a_setup_error(name):
    with pytest.raises(SetupError, match=rf"DEVICE is '{name}', but torch .* without CUDA.*"):
        choose_precision(RunnerSettings(device=name))


def test_the_error_names_both_remedies(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(SetupError, match="Install the CUDA build, or set DEVICE=cpu"):
        choose_precision(RunnerSettings(device="cuda"))


def test_a_cuda_build_without_a_device_is_told_from_one_without_cuda(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SetupError, match=r"no CUDA device answers.*nvidia-smi.*--gpus all"):
        choose_precision(RunnerSettings(device="cuda"))


def test_a_device_number_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(SetupError, match=r"DEVICE is 'cuda:2', but the devices here are cuda:0 to"):
        choose_precision(RunnerSettings(device="cuda:2"))


def test_a_build_without_kernels_for_the_card_is_named_as_such(two_cards, monkeypatch):
    def no_kernel(*_, **__):
        raise RuntimeError("no kernel image is available for execution on the device")

    monkeypatch.setattr(torch, "ones", no_kernel)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Old Card")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (3, 5))
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_90"])
    with pytest.raises(
        SetupError, match=r"Old Card \(cuda:0, compute capability 3\.5\) ran no kernel"
    ) as e:
        choose_precision(RunnerSettings(device="cuda"))
    assert "sm_90" in str(e.value)


def test_a_full_card_is_not_taken_for_one_without_kernels(two_cards, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 MiB.\nadvice")

    monkeypatch.setattr(torch, "ones", full)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Small Card")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    told = r"Small Card .* has no memory left: CUDA out of memory.*Other"
    with pytest.raises(SetupError, match=told):
        choose_precision(RunnerSettings(device="cuda"))


def test_auto_is_the_cpu_in_float32_where_there_is_no_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_precision(RunnerSettings()) == Precision(torch.device("cpu"), torch.float32)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)],
)
def test_a_precision_is_taken_as_asked(name, dtype):
    chosen = choose_precision(RunnerSettings(device="cpu", precision=name))
    assert chosen.compute is dtype
    assert chosen.autocasts == (name != "fp32")
    assert chosen.scaled == (name == "fp16")
    assert str(chosen) == f"cpu/{name}"


@pytest.fixture
def two_cards(monkeypatch):
    """A machine with two CUDA devices, as far as the calls tell; what is asked of them."""
    asked: dict[str, Any] = {"prepared": [], "used": [], "bf16": [True, True], "current": 0}

    def has_bf16(*, including_emulation):
        assert including_emulation is False
        return asked["bf16"][asked["current"]]

    @contextmanager
    def current(device):
        asked["current"] = device.index
        yield
        asked["current"] = 0

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", has_bf16)
    monkeypatch.setattr(torch.cuda, "device", current)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda card: f"Card {card.index}")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    monkeypatch.setattr(device, "use_device", asked["used"].append)
    for flag in ("benchmark", "deterministic", "allow_tf32"):  # which are put back
        monkeypatch.setattr(torch.backends.cudnn, flag, getattr(torch.backends.cudnn, flag))
    ones = torch.ones

    def on_card(*shape, device):
        asked["prepared"].append(device)
        return ones(*shape)

    monkeypatch.setattr(torch, "ones", on_card)
    return asked


@pytest.mark.parametrize(
    ("name", "chosen"), [("auto", 0), ("cuda", 0), ("cuda:0", 0), ("cuda:1", 1)]
)
def test_the_card_that_was_named_is_prepared(two_cards, name, chosen):
    precision = choose_precision(RunnerSettings(device=name))
    assert precision == Precision(torch.device("cuda", chosen), torch.bfloat16)
    assert two_cards["used"] == [torch.device("cuda", chosen)]
    assert {*two_cards["prepared"]} == {torch.device("cuda", chosen)}  # a kernel ran there


def test_a_card_without_bfloat16_computes_in_float32_unless_told_otherwise(two_cards):
    two_cards["bf16"] = [True, False]
    assert choose_precision(RunnerSettings(device="cuda:1")).compute is torch.float32
    assert (
        choose_precision(RunnerSettings(device="cuda:1", precision="fp16")).compute is torch.float16
    )
    assert choose_precision(RunnerSettings(precision="bf16")).compute is torch.bfloat16


def test_bfloat16_is_refused_by_name_where_the_card_has_none(two_cards):
    two_cards["bf16"] = [True, False]
    told = (
        r"PRECISION is 'bf16', but Card 1 \(cuda:1, compute capability 7.5\) has no bfloat16.*fp16"
    )
    with pytest.raises(SetupError, match=told):
        choose_precision(RunnerSettings(device="cuda:1", precision="bf16"))


def test_auto_says_that_a_build_with_cuda_found_no_card(monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for version, warned in ((None, False), ("13.0", True)):
        monkeypatch.setattr(torch.version, "cuda", version)
        assert choose_precision(RunnerSettings()).device.type == "cpu"
        assert ("no CUDA device answers" in caplog.text) is warned


def test_the_cpu_is_taken_where_it_was_named_though_there_is_a_card(two_cards):
    precision = choose_precision(RunnerSettings(device="cpu"))
    assert precision == Precision(torch.device("cpu"), torch.float32)
    assert two_cards["prepared"] == []


def test_the_numbers_of_the_cards_there_are_are_told(two_cards):
    with pytest.raises(SetupError, match=r"the devices here are cuda:0 to cuda:1\. Name one"):
        choose_precision(RunnerSettings(device="cuda:2"))


def test_a_number_too_large_for_torch_is_told_too(two_cards):
    with pytest.raises(SetupError, match=r"DEVICE is 'cuda:99999999999', but the devices here are"):
        choose_precision(RunnerSettings(device="cuda:99999999999"))


def test_a_card_is_asked_for_algorithms_that_repeat_and_round_as_float32(two_cards, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", False)
    choose_precision(RunnerSettings(device="cuda"))
    assert torch.backends.cudnn.benchmark is False
    assert torch.backends.cudnn.deterministic is True
    assert torch.backends.cudnn.allow_tf32 is False
