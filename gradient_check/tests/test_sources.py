"""Lines are the caller's: of definitions, stacks, errors, and of what switched gradients off."""

import contextlib
import copy
import functools
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gradient_check.findings.report import NOWHERE
from gradient_check.instruments import sources
from gradient_check.instruments.sources import (
    Stack,
    above,
    definition,
    is_callers,
    module_names,
    raised_at,
    stack_here,
    text_of,
    within,
)
from gradient_check.instruments.syntax import switched_off
from gradient_check.tests.flows import tower
from gradient_check.tests.present import present

HERE = os.path.relpath(__file__)


def line_of(text: str, which: int = 0) -> int:
    """The number of the line of this file that has this code."""
    with open(__file__) as file:
        found = [number for number, line in enumerate(file, 1) if line.strip() == text]
    return found[which]


@pytest.mark.parametrize(
    ("filename", "expected"),
    [
        (__file__, True),
        (torch.__file__, False),
        (sources.__file__, False),
        (sources.__file__.replace("instruments/sources", "phases/gradient_step"), False),
        (sources.__file__.replace("instruments/sources", "phases/lora"), False),
        (sources.__file__.replace("instruments/sources", "tests/models"), True),
        ("<string>", False),
        ("<frozen importlib>", False),
    ],
)
def test_code_of_torch_and_of_the_self_test_is_not_the_callers(filename, expected: bool) -> None:
    assert is_callers(filename) is expected


def test_a_program_around_the_check_may_name_files_of_its_own() -> None:
    filename = "/srv/program/training.py"
    assert is_callers(filename)
    sources.pass_over(filename)
    assert not is_callers(filename)


def test_a_line_is_shown_with_its_file_relative_to_the_working_directory() -> None:
    assert text_of((__file__, 1)).startswith(f'{HERE}:1: """Lines are the caller')
    assert text_of(("/nowhere/else.py", 3)) == "/nowhere/else.py:3: "
    assert text_of(("<ipython>", 3)) == "<ipython>:3: "


@functools.cache
@functools.lru_cache
def decorated() -> None:
    """Stands below two decorators."""


class Methodical:
    def method(self) -> None:
        """Has a line."""


def test_the_definition_of_a_function_is_its_def_line() -> None:
    def inner(a: int) -> None:
        pass

    assert present(definition(inner)).endswith("def inner(a: int) -> None:")
    assert present(definition(functools.partial(inner, 1))).endswith("def inner(a: int) -> None:")
    assert present(definition(Methodical().method)).endswith("def method(self) -> None:")
    shown = definition(lambda: "a lambda's line")
    assert present(shown).endswith("""shown = definition(lambda: "a lambda's line")""")
    twice: Any = decorated
    assert present(definition(twice)).endswith("def decorated() -> None:")
    once = torch.autograd.function.once_differentiable(inner)
    assert present(definition(once)).endswith("def inner(a: int) -> None:")
    assert definition(len) is None


class Looking(nn.Module):
    """Takes the stack in its forward."""

    stack: Stack

    def forward(self, x: Tensor) -> Tensor:
        self.stack = Stack(sys._getframe())
        return x


def test_a_stack_has_the_callers_lines_innermost_first_and_the_modules() -> None:
    looking = Looking()
    outer = nn.Sequential(looking)
    outer(torch.ones(1))
    stack = looking.stack
    assert stack.position == (__file__, line_of("self.stack = Stack(sys._getframe())"))
    assert (__file__, line_of("outer(torch.ones(1))")) in stack.callers
    assert stack.owners[0] == id(looking)
    assert id(outer) in stack.owners
    assert all(is_callers(filename) for filename, _ in stack.callers)


def test_the_recorders_own_frames_are_left_out() -> None:
    here = stack_here()
    assert here.position == (__file__, line_of("here = stack_here()"))
    assert Stack(None).position is None


class Lending(nn.Module):
    """Calls a module that it does not own."""

    def __init__(self, other: nn.Module) -> None:
        super().__init__()
        self.lent = [other]

    def forward(self, x: Tensor) -> Tensor:
        return self.lent[0](x)


def test_the_line_where_control_left_a_module() -> None:
    looking = Looking()
    lending = Lending(looking)
    lending(torch.ones(1))
    left = looking.stack.entry_from({id(lending): ""})
    assert left == (__file__, line_of("return self.lent[0](x)"))
    assert looking.stack.entry_from({}) is None
    inner = looking.stack.entry_from({id(looking): ""})
    assert inner == (__file__, line_of("self.stack = Stack(sys._getframe())"))


class Custom(torch.autograd.Function):
    stack: Stack

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        Custom.stack = Stack(sys._getframe())
        return x * 2

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient * 2


def test_the_forward_of_a_custom_function_is_told_from_others() -> None:
    Custom.apply(torch.ones(1))
    assert Custom.stack.in_custom_function
    assert not Stack(sys._getframe()).in_custom_function
    assert not apply().in_custom_function


def apply() -> Stack:
    """Has the name of the call that runs a custom function."""
    return Stack(sys._getframe())


@pytest.mark.parametrize("reentrant", [True, False])
def test_the_line_that_called_a_checkpoint_is_known_inside_it(reentrant: bool) -> None:
    looking = Looking()
    x = torch.ones(1, requires_grad=True)
    checkpoint(looking, x, use_reentrant=reentrant)
    found = (__file__, line_of("checkpoint(looking, x, use_reentrant=reentrant)"))
    assert looking.stack.checkpoint() == found
    assert not looking.stack.in_custom_function
    looking(x)
    assert looking.stack.checkpoint() is None


def with_block() -> Stack:
    with torch.no_grad():
        return Stack(sys._getframe())


@torch.no_grad()
def under_decorator() -> Stack:
    return Stack(sys._getframe())


def after_a_call() -> Stack:
    torch.set_grad_enabled(False)
    stack = Stack(sys._getframe())
    torch.set_grad_enabled(True)
    return stack


@contextlib.contextmanager
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def in_a_block_of_ones_own() -> Stack:
    with without_gradients():
        return Stack(sys._getframe())


def in_an_entered_mode() -> Stack:
    mode = torch.no_grad()
    mode.__enter__()
    stack = Stack(sys._getframe())
    mode.__exit__(None, None, None)
    return stack


def with_nothing() -> Stack:
    return Stack(sys._getframe())


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (with_block, "with torch.no_grad():"),
        (under_decorator, "@torch.no_grad()"),
        (after_a_call, "torch.set_grad_enabled(False)"),
        (in_a_block_of_ones_own, "with without_gradients():"),
        (in_an_entered_mode, "mode.__enter__()"),
    ],
)
def test_the_line_that_switched_gradients_off_is_found(function, line: str) -> None:
    assert function().grad_off() == (__file__, line_of(line))


def test_a_switch_after_the_line_or_of_another_function_is_none() -> None:
    assert with_nothing().grad_off() is None
    last = line_of("torch.set_grad_enabled(True)")
    assert switched_off(__file__, last) == (__file__, line_of("torch.set_grad_enabled(False)"))
    assert switched_off(__file__, line_of("torch.set_grad_enabled(False)")) is None
    assert switched_off("/nowhere.py", 1) is None


def test_only_the_function_of_a_line_is_looked_at_and_all_of_it(tmp_path) -> None:
    path = tmp_path / "nested.py"
    path.write_text(
        "@torch.no_grad()\n"
        "def outer(x):\n"
        "    def inner(x):\n"
        "        return x * 2\n"
        "    with open(x):\n"
        "        return inner(x)\n"
    )
    assert switched_off(str(path), 4) is None
    assert switched_off(str(path), 6) == (str(path), 1)


def test_the_nearest_matching_line_above() -> None:
    last = line_of("torch.set_grad_enabled(True)")
    assert above((__file__, last), r"Stack\(") == (__file__, last - 1)
    assert above((__file__, last), r"enabled\(True") == (__file__, last)
    assert above((__file__, last), r"Stack\(", reach=1) == (__file__, last)


def test_what_is_above_is_of_the_same_function() -> None:
    first = line_of("def test_what_is_above_is_of_the_same_function() -> None:")
    assert above((__file__, first + 1), r"reach=1") == (__file__, first + 1)


def test_the_first_matching_line_of_a_function() -> None:
    first = line_of("def test_the_first_matching_line_of_a_function() -> None:")
    assert within((__file__, first + 3), "first [+] 3") == (__file__, first + 2)
    assert within((__file__, first + 3), "nothing of it" * 2) == (__file__, first + 3)
    assert within((__file__, first + 1), "no such text".upper()) == (__file__, first + 1)


def test_the_standard_library_is_nobodys_fault() -> None:
    assert not is_callers(copy.__file__)
    assert is_callers(pytest.__file__)


def failing(self: Any, h: Tensor) -> Tensor:
    return h @ torch.ones(5, 5)


def test_an_error_is_placed_at_the_innermost_module_and_the_callers_last_line() -> None:
    module = tower(failing)
    with pytest.raises(RuntimeError) as caught:
        module(torch.ones(3, 6))
    trace = caught.value.__traceback__
    place = raised_at(trace, module_names(module))
    assert place.module == "blocks.1 (Spoilt)"
    assert "h @ torch.ones(5, 5)" in present(place.line)
    assert raised_at(trace, {id(module): "all"}).module == "all"
    assert raised_at(None, {}) == NOWHERE


def test_modules_are_named_by_path_and_class() -> None:
    module = tower()
    names = module_names(module)
    assert names[id(module)] == "(root) (Tower)"
    assert names[id(module.blocks[0].linear)] == "blocks.0.linear (Linear)"
    assert len(names) == len(list(module.modules()))


def test_a_line_of_a_library_is_known() -> None:
    assert sources.is_in_library(f"{torch.__file__}:3: import torch")
    assert not sources.is_in_library(f"{HERE}:3: import torch")
    assert not sources.is_in_library(None)
