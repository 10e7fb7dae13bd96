"""Whatever a self-test does to the caller's module or the process is told and put back."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.modules import module as module_globals

from gradient_check.instruments.guard import Guard
from gradient_check.tests.models import ConvNet, seeded_module
from gradient_check.tests.states import module_state, process_state

CPU = torch.device("cpu")


@pytest.fixture
def module() -> Any:
    module: Any = seeded_module(ConvNet)
    module.head.weight.grad = torch.ones_like(module.head.weight)
    return module


def copies_of(module: Any) -> dict[str, torch.Tensor]:
    tensors = (*module.named_parameters(), *module.named_buffers())
    return {name: tensor.detach().clone() for name, tensor in tensors}


def write(module: Any) -> None:
    module.fc.weight.data.mul_(2)


def replace(module: Any) -> None:
    module.fc.weight = nn.Parameter(module.fc.weight.detach().clone())


def freeze(module: Any) -> None:
    module.fc.weight.requires_grad_(False)


def switch(module: Any) -> None:
    module.drop.training = not module.drop.training


def add(module: Any) -> None:
    module.fc.cache = 1


def remove(module: Any) -> None:
    del module.calls


def hook(module: Any) -> None:
    module.fc.register_forward_hook(lambda *_: None)


def lose_table(module: Any) -> None:
    module._table = None


CHANGES = {
    lose_table: "an attribute of ConvNet was replaced",
    write: "fc.weight was written to",
    replace: "fc.weight was replaced",
    freeze: "fc.weight.requires_grad is now False",
    switch: "an attribute of Dropout was replaced",
    add: "an attribute of Linear was replaced",
    remove: "an attribute of ConvNet was replaced",
    hook: "an attribute of Linear was replaced",
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_is_told_and_put_back(module: Any, change) -> None:
    module.calls, module._table = [1], {}
    before, copies = module_state(module), copies_of(module)
    guard = Guard(module, CPU)
    assert guard.module_changes() == []
    guard = Guard(module, CPU)
    change(module)
    assert any(CHANGES[change] in phrase for phrase in guard.module_changes())
    guard.restore(copies)
    assert module_state(module) == before


def test_nothing_done_is_nothing_told_and_nothing_undone(module: Any) -> None:
    before, process = module_state(module), process_state()
    guard = Guard(module, CPU)
    assert guard.leaked_gradients() == ()
    assert guard.module_changes() == guard.process_changes() == []
    guard.restore({})
    assert module_state(module) == before
    assert process_state() == process


def test_a_gradient_that_arrived_in_the_original_is_told_and_taken_away(module) -> None:
    guard = Guard(module, CPU)
    module.fc.bias.grad = torch.ones_like(module.fc.bias)
    assert guard.leaked_gradients() == ("fc.bias",)
    guard.put_back_gradients()
    assert module.fc.bias.grad is None


def test_a_gradient_that_was_added_to_is_told_and_put_back(module) -> None:
    kept = module.head.weight.grad
    guard = Guard(module, CPU)
    kept.add_(1)
    assert guard.leaked_gradients() == ("head.weight",)
    guard.put_back_gradients()
    assert module.head.weight.grad is kept
    assert torch.equal(kept, torch.ones_like(kept))


def test_a_gradient_that_was_replaced_is_told_and_put_back(module) -> None:
    kept = module.head.weight.grad
    guard = Guard(module, CPU)
    module.head.weight.grad = kept.clone()
    assert guard.leaked_gradients() == ("head.weight",)
    guard.restore({})
    assert module.head.weight.grad is kept


def test_the_gradients_of_strangers_are_remembered_once_and_put_back(module) -> None:
    bare, full = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    full.grad = kept = torch.ones(2)
    guard = Guard(module, CPU)
    guard.remember([bare, full])
    bare.grad, _ = torch.ones(2), kept.add_(1)
    guard.remember([bare, full])
    guard.restore({})
    assert bare.grad is None
    assert full.grad is kept
    assert torch.equal(kept, torch.ones(2))


FLAGS = {
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "float32 matmul precision": lambda: torch.set_float32_matmul_precision("high"),
    "anomaly detection": lambda: torch.set_anomaly_enabled(True),
    "deterministic algorithms": lambda: torch.use_deterministic_algorithms(True),
    "threads": lambda: torch.set_num_threads(2),
}


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_of_the_process_is_told_and_put_back(module: Any, flag: str) -> None:
    before, threads = process_state(), torch.get_num_threads()
    guard = Guard(module, CPU)
    FLAGS[flag]()
    told = guard.process_changes()
    guard.restore({})
    assert len(told) == 1
    assert told[0].startswith(f"{flag} was ")
    assert process_state() == before
    assert torch.get_num_threads() == threads


def test_algorithms_that_only_warn_do_so_after_a_restore_too(module: Any) -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        guard = Guard(module, CPU)
        torch.use_deterministic_algorithms(True)
        assert guard.process_changes() == ["deterministic algorithms was warn and is error"]
        guard.restore({})
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_global_hooks_are_put_back(module: Any) -> None:
    kept = module_globals.register_module_forward_hook(lambda *_: None)
    guard = Guard(module, CPU)
    kept.remove()
    more = module_globals.register_module_forward_hook(lambda *_: None)
    guard.restore({})
    hooks = module_globals._global_forward_hooks
    assert list(hooks) == [kept.id]
    more.remove()
    kept.remove()
    assert not hooks


def test_the_random_streams_are_put_back(module: Any) -> None:
    before = process_state()
    guard = Guard(module, CPU)
    torch.rand(1), random.random(), np.random.rand()
    assert process_state() != before
    guard.restore_streams()
    assert process_state() == before
    torch.rand(1)
    guard.restore({})
    assert process_state() == before
