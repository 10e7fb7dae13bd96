"""Equal bits on a device are promised in the mode only; skipped where there is no device."""

import gc
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from cog_adapt.runner.config import Recipe
from cog_adapt.runner.errors import InputError, SetupError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.requests.run_facts import facts_of
from cog_adapt.runner.scheduling.scheduler import once
from gradient_check.diagnosis.copies import Copies
from gradient_check.phases.census import Census
from gradient_check.phases.float32 import Float32
from gradient_check.tests.flows import flow_of, tower
from tests.cog_adapt.models import SHAPES, Images, Letters, examples, inputs, labels

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device answers here"),
]
NUMBER = max(0, torch.cuda.device_count() - 1)
LAST = f"cuda:{NUMBER}"
NEEDS_TWO = pytest.mark.skipif(NUMBER == 0, reason="there are no two CUDA devices here")


@pytest.fixture
def process(monkeypatch, cublas_workspace):
    """A process that was started with cuBLAS's workspace; its switches are put back."""
    before, current = Float32.current(), torch.cuda.current_device()
    yield monkeypatch
    before.put_back()
    torch.cuda.set_device(current)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_in_the_mode_a_seed_gives_the_same_bits_wherever_the_streams_are(
    make_runner, process, shape, precision
):
    runner = make_runner(SHAPES[shape](), device=LAST, precision=precision, deterministic=True)
    recipe = Recipe("all", max_steps=5, batch_size=4, seed=3, hold_out=0.3, learning_rate=0.02)
    ids = set()
    for number in range(2):
        torch.manual_seed(number)
        torch.cuda.manual_seed_all(number)
        done = runner.adapt(examples(shape, 18), recipe)
        ids.add(done.adapter.id)
        assert done.report.to_json()["bit_for_bit"] is True
    assert len(ids) == 1
    expected = {"deterministic_algorithms": True, "bit_for_bit": True}
    assert facts_of(runner)["determinism"] == expected


def test_without_the_mode_nothing_is_promised_and_the_request_is_refused(make_runner):
    runner = make_runner(Letters(), device=LAST)
    query = Query(inputs("letters"), None, labels("letters"), deterministic=True)
    with pytest.raises(InputError, match=f"on {LAST} without DETERMINISTIC=1"):
        runner.model.predictions.part(query)
    with pytest.raises(InputError, match="without DETERMINISTIC=1"):
        finished(runner.model.predictions.generating(query))
    done = runner.adapt(examples("letters"), Recipe("all", max_steps=1))
    assert done.report.bit_for_bit is False
    assert facts_of(runner)["determinism"]["bit_for_bit"] is False


def test_in_the_mode_the_request_is_answered_and_what_was_learnt_has_its_own_key(
    make_runner, process, tmp_path
):
    without = make_runner(Letters(), device=LAST)
    runner = make_runner(Letters(), device=LAST, deterministic=True, weights_dir=tmp_path / "b")
    query = Query(inputs("letters"), None, labels("letters"), deterministic=True)
    one, other = (finished(runner.model.predictions.part(query).working()) for _ in range(2))
    assert one == other
    assert runner.cache.origin != without.cache.origin


class Racing(Images):
    """Lets cuDNN choose kernels by a race, as much code for training does."""

    def load(self):
        torch.backends.cudnn.benchmark = True
        return super().load()


def test_in_the_mode_nothing_is_promised_where_the_task_lets_kernels_race(make_runner, process):
    process.setattr(torch.backends.cudnn, "benchmark", False)
    runner = make_runner(Racing(), device=LAST, deterministic=True)
    query = Query(inputs("images"), None, labels("images"), deterministic=True)
    with pytest.raises(InputError, match=r"torch\.backends\.cudnn\.benchmark is on"):
        runner.model.predictions.part(query)
    done = runner.adapt(examples("images"), Recipe("all", max_steps=1))
    assert done.report.bit_for_bit is False


def test_the_mode_after_cuda_has_started_needs_the_variable(make_runner, process):
    process.delenv("CUBLAS_WORKSPACE_CONFIG")
    torch.ones(1, device=LAST).item()
    with pytest.raises(SetupError, match="CUBLAS_WORKSPACE_CONFIG=:4096:8"):
        make_runner(Letters(), device=LAST, deterministic=True)


@pytest.mark.parametrize("is_on", [False, True])
def test_adaptation_has_attention_by_products_in_the_mode_also_where_it_is_recomputed(
    make_runner, process, is_on
):
    seen: list[bool] = []
    real = F.scaled_dot_product_attention

    def attend(*args: Any, **kwargs: Any) -> Any:
        seen.append(torch.backends.cuda.flash_sdp_enabled())
        return real(*args, **kwargs)

    runner = make_runner(Letters(), device=LAST, deterministic=is_on)
    process.setattr(F, "scaled_dot_product_attention", attend)
    recipe = Recipe("all", max_steps=1, checkpointing=True)
    runner.adapt(examples("letters"), recipe)
    assert set(seen) == {not is_on}
    assert torch.backends.cuda.flash_sdp_enabled()


def test_tf32_is_off_from_setup_on_and_the_census_sees_it_come_back(make_runner, process):
    torch.backends.cudnn.allow_tf32 = True
    runner = make_runner(Images(), device=LAST)
    assert torch.backends.cudnn.allow_tf32 is False
    torch.backends.cudnn.allow_tf32 = True
    [change] = runner.model.base.census.changes(runner.model.base.module)
    assert change.startswith("process flag float32 convolution precision was")


@NEEDS_TWO
def test_the_chosen_device_is_the_threads_and_stays_so(make_runner):
    runner = make_runner(Letters(), device=LAST)

    def on_thread(function, *args):
        return runner.scheduler.submit_short(once(function, *args)).wait()

    assert on_thread(torch.cuda.current_device) == NUMBER
    on_thread(torch.cuda.set_device, 0)  # as a task may do
    assert on_thread(torch.cuda.current_device) == NUMBER


@NEEDS_TWO
def test_another_device_is_never_touched(make_runner, process):
    gc.collect()  # what an earlier test left under way checks its base when it is dropped
    torch.cuda.set_device(0)
    before = torch.cuda.memory_allocated(0)
    torch.cuda.reset_peak_memory_stats(0)
    stream = torch.cuda.get_rng_state(0)
    runner = make_runner(Letters(), device=LAST)
    assert runner.self_test().passed
    adapter = runner.adapt(examples("letters"), Recipe("all", max_steps=2)).adapter
    assert runner.predict(inputs("letters"), adapter)
    assert torch.cuda.max_memory_allocated(0) == torch.cuda.memory_allocated(0) == before
    assert torch.equal(torch.cuda.get_rng_state(0), stream)


@NEEDS_TWO
def test_a_copy_on_another_device_is_no_copy_and_stops_no_check():
    module: Any = tower()
    module.table = module.first.weight.detach().to("cuda")
    module.fine = module.first.weight.detach().clone()
    text, _ = Copies(flow_of(module).diagnosis).kept(["first.weight"])
    assert "fine is a copy of first.weight" in text


def test_an_empty_buffer_beside_others_on_the_device_is_counted():
    module = torch.nn.Linear(2, 2).to(LAST)
    module.register_buffer("empty", torch.empty(0, device=LAST))
    census = Census.of(module)
    assert census.changes(module) == []
    with torch.no_grad():
        module.weight.add_(1)
    assert census.changes(module)
