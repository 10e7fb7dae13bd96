"""The last line that called a process-wide switch is noted while it is watched."""

import sys

import torch
from torch import Tensor, nn

from gradient_check.diagnosis.watching import Watching
from gradient_check.findings.report import NOWHERE
from gradient_check.instruments.sources import module_names
from gradient_check.tests.flows import tower
from gradient_check.tests.present import present


def reseeding(self: nn.Module, h: Tensor) -> Tensor:
    torch.manual_seed(3)
    return h


def setting_threads(self: nn.Module, h: Tensor) -> Tensor:
    torch.set_num_threads(torch.get_num_threads())
    return h


def casting(self: nn.Module, h: Tensor) -> Tensor:
    torch.set_autocast_enabled("cpu", False)
    return h


def watched(spoil, *, casts: bool = False) -> Watching:
    module = tower(spoil)
    with torch.random.fork_rng(devices=[]), Watching(module_names(module), casts=casts) as watching:
        module(torch.ones(3, 6))
    return watching


def test_a_switch_in_python_is_placed_in_its_module_and_line() -> None:
    place = watched(reseeding).place
    assert place.module == "blocks.1 (Spoilt)"
    assert "torch.manual_seed(3)" in present(place.line)


def test_a_switch_in_c_is_too() -> None:
    place = watched(setting_threads).place
    assert place.module == "blocks.1 (Spoilt)"
    assert "torch.set_num_threads" in present(place.line)


def test_autocast_is_watched_alone_and_only_if_asked_for() -> None:
    assert "torch.set_autocast_enabled" in present(watched(casting, casts=True).place.line)
    assert watched(casting).place == NOWHERE
    assert watched(reseeding, casts=True).place == NOWHERE
    assert watched(setting_threads, casts=True).place == NOWHERE


def test_a_forward_that_switches_nothing_has_no_place() -> None:
    assert watched(None).place == NOWHERE


def test_the_profile_that_was_there_is_put_back() -> None:
    def profile(*_: object) -> None:
        """Another one's."""

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        with Watching({}):
            assert sys.getprofile() is not profile
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(before)


def test_the_last_of_several_switches_is_noted() -> None:
    def both(self: nn.Module, h: Tensor) -> Tensor:
        torch.set_num_threads(torch.get_num_threads())
        torch.random.manual_seed(4)
        return h.sin()

    assert "torch.random.manual_seed(4)" in present(watched(both).place.line)
