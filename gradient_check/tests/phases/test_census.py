"""The census sees every kind of change to a base, and healing makes tensors fit for autograd."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.modules import module as module_globals

from gradient_check.phases.census import Census, checksums, heal, is_healthy
from gradient_check.phases.modes import under_inference_mode
from gradient_check.tests.models import CachingMlp, ConvNet, TinyTransformer, seeded_module


@pytest.fixture
def base():
    return seeded_module(ConvNet).eval().requires_grad_(False)


def weight(base):
    return base.fc.weight


def swap_two_values(base):
    row = weight(base).data.view(-1)
    row[0], row[1] = row[1].clone(), row[0].clone()


def swap_two_distant_values(base):
    row = weight(base).data.view(-1)
    row[0], row[128] = row[128].clone(), row[0].clone()


def negate_a_zero(base):
    weight(base).data[0, 0] = -weight(base).data[0, 0]


def change_a_nan(base):
    weight(base).data.view(torch.int32)[0, 1] = 0x7FC00001


def write_through_numpy(base):
    weight(base).detach().numpy()[0, 2] += np.float32(1e-6)


def flip_the_lowest_bit(base):
    weight(base).data.view(torch.int32)[3, 3] ^= 1


def write_and_write_back(base):
    with torch.no_grad():
        weight(base).add_(0)


CHANGES = {
    "data write": (lambda b: weight(b).data.mul_(1.5), "fc.weight (checksum)"),
    "numpy write": (write_through_numpy, "fc.weight (checksum)"),
    "one bit": (flip_the_lowest_bit, "fc.weight (checksum)"),
    "minus zero": (negate_a_zero, "fc.weight (checksum)"),
    "another nan": (change_a_nan, "fc.weight (checksum)"),
    "two values swapped": (swap_two_values, "fc.weight (checksum)"),
    "two values swapped far apart": (swap_two_distant_values, "fc.weight (checksum)"),
    "a write undone": (write_and_write_back, "fc.weight (version)"),
    "another parameter": (
        lambda b: setattr(b.fc, "weight", nn.Parameter(weight(b).clone(), requires_grad=False)),
        "fc.weight (identity)",
    ),
    "other memory": (
        lambda b: setattr(weight(b), "data", weight(b).data.clone()),
        "fc.weight (address)",
    ),
    "requires_grad": (lambda b: weight(b).requires_grad_(True), "fc.weight (requires_grad)"),
    "a gradient": (
        lambda b: setattr(weight(b), "grad", torch.ones_like(weight(b))),
        "fc.weight (has_grad)",
    ),
    "a buffer": (lambda b: b.norm.running_mean.data.add_(1), "norm.running_mean (checksum)"),
    "an integer buffer": (
        lambda b: b.norm.num_batches_tracked.add_(1),
        "norm.num_batches_tracked (checksum)",
    ),
    "a new parameter": (
        lambda b: b.register_parameter("more", nn.Parameter(torch.ones(1))),
        "more (identity) is new",
    ),
    "a lost buffer": (lambda b: b.norm._buffers.pop("running_var"), "running_var (identity) is go"),
    "training": (lambda b: setattr(b.drop, "training", True), "module drop"),
    "another module": (lambda b: setattr(b, "drop", nn.Dropout(0.2).eval()), "module drop"),
    "a forward hook": (lambda b: b.fc.register_forward_hook(lambda *_: None), "module fc"),
    "a backward hook": (lambda b: b.fc.register_full_backward_hook(lambda *_: None), "module fc"),
    "a forward pre-hook": (lambda b: b.fc.register_forward_pre_hook(lambda *_: None), "module fc"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_named(base, change):
    weight(base).data[0, 0] = 0.0
    weight(base).data[0, 1] = float("nan")
    census = Census.of(base)
    act, name = CHANGES[change]
    act(base)
    changes = census.changes(base)
    assert any(name in sentence for sentence in changes), changes


def test_a_hook_is_named_by_its_number_and_a_librarys_is_none(base):
    census = Census.of(base)
    base.fc.register_forward_hook(torch.nn.utils.parametrizations.weight_norm)
    assert census.changes(base) == []
    base.fc.register_forward_hook(lambda *_: None)
    assert census.changes(base) == ["module fc (hooks) was 0 and is 1"]


def test_nothing_changed_is_nothing_to_tell(base):
    weight(base).data[0, 1] = float("nan")
    census = Census.of(base)
    base(torch.ones(2, 8))
    assert census.changes(base) == []


@pytest.fixture
def process():
    """Puts back what the process keeps once."""
    yield
    torch.set_default_dtype(torch.float32)
    torch.autograd.set_detect_anomaly(False)
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("highest")
    module_globals._global_forward_hooks.clear()
    torch.set_num_threads(1)


FLAGS = {
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "anomaly detection": lambda: torch.autograd.set_detect_anomaly(True),
    "deterministic algorithms": lambda: torch.use_deterministic_algorithms(True),
    "float32 matmul precision": lambda: torch.set_float32_matmul_precision("high"),
    "global_forward_hooks": lambda: module_globals.register_module_forward_hook(lambda *_: None),
    "threads": lambda: torch.set_num_threads(2),
}


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("flag", FLAGS)
def test_what_the_process_sets_for_all_threads_is_named(base, process, flag):
    census = Census.of(base)
    FLAGS[flag]()
    assert any(flag in sentence for sentence in census.changes(base))


def test_a_cache_that_the_model_keeps_for_itself_is_no_change():
    base = seeded_module(CachingMlp).eval()
    census = Census.of(base)
    with torch.inference_mode():
        base(torch.ones(1, 8))
    assert base.cache is not None
    assert census.changes(base) == []


def test_a_tied_parameter_is_watched_under_each_name():
    base = seeded_module(TinyTransformer)
    census = Census.of(base)
    base.output.weight = nn.Parameter(base.output.weight.detach().clone())
    changes = census.changes(base)
    assert any("output.weight (identity) was" in sentence for sentence in changes)
    assert not any("embedding.weight" in sentence for sentence in changes)


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int8, torch.int64]
    + [torch.bool, torch.complex64],
)
@pytest.mark.parametrize("size", [1, 3, 64, 129, 1000])
def test_a_checksum_changes_with_any_element_of_any_dtype(dtype, size):
    tensor = torch.arange(size).to(dtype)
    before = checksums({"t": tensor})["t"]
    for index in {0, size // 2, size - 1}:
        other = tensor.clone()
        other[index] = 0 if other[index] else 1
        assert checksums({"t": other})["t"] != before


def test_a_checksum_does_not_depend_on_memory_layout():
    tensor = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    moved = torch.zeros(31)[1:].view(6, 5).copy_(tensor)  # an address that is no multiple of 8
    assert len({*checksums({"a": tensor, "b": tensor.t().clone().t(), "c": moved}).values()}) == 1


def test_empty_and_meta_tensors_have_a_checksum():
    sums = checksums({"empty": torch.empty(0), "meta": torch.empty(3, device="meta")})
    assert sums == {"empty": 0, "meta": 0}


def test_a_checksum_is_taken_of_tensors_born_in_inference_mode():
    tensor = under_inference_mode(torch.ones, 5)
    assert checksums({"t": tensor}) == checksums({"t": torch.ones(5)})
    assert under_inference_mode(checksums, {"t": torch.ones(5)}) == checksums({"t": torch.ones(5)})


def test_known_checksums_are_not_read_again(base):
    census = Census.of(base)
    known = {name: entry.checksum for name, entry in census.tensors.items()}
    name = next(iter(known))
    with torch.no_grad():
        base.get_parameter(name).data.add_(1)
    assert any("checksum" in change for change in census.changes(base))
    assert census.changes(base, known) == []
    assert Census.of(base, {name: 5}).tensors[name].checksum == 5


def train_once(module, x):
    module.train()
    module.zero_grad()
    module(x).sum().backward()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    optimizer.step()


def test_a_module_built_in_inference_mode_trains_after_healing():
    module: Any = under_inference_mode(seeded_module, ConvNet)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    assert not is_healthy(module.fc.weight)
    names = heal(module)
    assert set(names) == set(before)
    assert all(is_healthy(t) for t in (*module.parameters(), *module.buffers()))
    assert all(torch.equal(t, before[n]) for n, t in module.state_dict().items())
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in module.parameters())
    train_once(module, torch.ones(4, 8))


def test_a_zombie_is_told_and_healed():
    """Cast in place outside, a tensor born in inference mode denies it, and cannot be trained."""
    module: Any = under_inference_mode(seeded_module, ConvNet).double()
    assert not module.fc.weight.is_inference()
    assert not is_healthy(module.fc.weight)
    heal(module)
    assert is_healthy(module.fc.weight)
    assert module.fc.weight.dtype is torch.float64
    train_once(module, torch.ones(4, 8, dtype=torch.float64))


def test_healing_keeps_ties():
    module = under_inference_mode(seeded_module, TinyTransformer)
    assert set(heal(module)) >= {"embedding.weight", "output.weight"}
    assert module.output.weight is module.embedding.weight


def test_healing_inside_inference_mode_heals():
    module = under_inference_mode(seeded_module, ConvNet)
    under_inference_mode(heal, module)
    assert all(is_healthy(t) for t in (*module.parameters(), *module.buffers()))


def test_a_healthy_module_keeps_its_tensors():
    module = seeded_module(ConvNet)
    tensors = list(map(id, (*module.parameters(), *module.buffers())))
    assert heal(module) == []
    assert list(map(id, (*module.parameters(), *module.buffers()))) == tensors


def test_lazy_parameters_are_left_to_their_first_forward():
    module = nn.Sequential(nn.LazyLinear(3))
    assert heal(module) == []


@pytest.mark.parametrize("width", [64, 128, 256, 384, 512, 768, 1024, 1536, 4096])
def test_swapped_rows_change_a_checksum(width):
    tensor = torch.randn(4, width, generator=torch.Generator().manual_seed(0))
    assert checksums({"t": tensor}) != checksums({"t": tensor[[0, 2, 1, 3]]})
