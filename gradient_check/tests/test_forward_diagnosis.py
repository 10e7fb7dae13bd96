"""Questions about a forward are answered with the module and the line."""

from typing import Any

import pytest
import torch
from torch import Tensor

from gradient_check import check_gradients
from gradient_check.diagnosis.base_writes import place_of_write
from gradient_check.diagnosis.forward_diagnosis import ForwardDiagnosis
from gradient_check.diagnosis.nonfinite_values import nonfinite_place
from gradient_check.exam.known.hosts import squares
from gradient_check.findings.report import NOWHERE
from gradient_check.tests.flows import subject_of, tower
from gradient_check.tests.present import present


def diagnosis_of(spoil=None, **rest) -> ForwardDiagnosis:
    return ForwardDiagnosis(subject_of(tower(spoil), **rest))


def test_a_recorded_forward_gives_its_losses_and_leaves_no_recorder() -> None:
    diagnosis = diagnosis_of(lambda self, h: torch.tanh(h) if self.training else torch.sin(h))
    recorder, losses = diagnosis.record()
    assert present(losses).requires_grad
    names = [event.name for event in recorder.events]
    assert names.count("tanh") == 4
    assert "sin" not in names
    recorder, losses = diagnosis.record(training=False)
    assert "sin" in [event.name for event in recorder.events]
    assert losses is not None
    loss = diagnosis.subject.loss
    assert (loss.recorder, loss.observer) == (None, None)


def test_a_forward_that_raises_is_recorded_up_to_there() -> None:
    diagnosis = diagnosis_of(lambda self, h: h.missing)
    recorder, losses = diagnosis.record()
    assert losses is None
    assert "tanh" in [event.name for event in recorder.events]


def test_the_last_value_that_left_torch_is_placed() -> None:
    def leaving(self: Any, h: Tensor) -> Tensor:
        h.sum().item()
        return h * h.mean().item()

    place = diagnosis_of(leaving).escape()
    assert place.module == "blocks.1 (Spoilt)"
    assert "h * h.mean().item()" in present(place.line)
    assert diagnosis_of().escape() == NOWHERE


@pytest.mark.parametrize("call", ["requires_grad_", "attribute"])
def test_the_line_that_freezes_a_parameter_is_placed(call: str) -> None:
    def freezing(self: Any, h: Tensor) -> Tensor:
        self.linear.bias.requires_grad_(False)
        if call == "attribute":
            self.linear.weight.requires_grad = False
        else:
            self.linear.weight.requires_grad_(False)
        return h

    diagnosis = diagnosis_of(freezing)
    place = diagnosis.freezes(["blocks.1.linear.weight"])
    assert place.module == "blocks.1 (Spoilt)"
    assert "self.linear.weight.requires_grad" in present(place.line)
    assert diagnosis.freezes(["head.weight"]) == NOWHERE


def test_an_error_is_placed_in_replica_or_base() -> None:
    def raising(self: Any, h: Tensor) -> Tensor:
        raise ValueError("here")

    diagnosis = diagnosis_of(raising)
    subject = diagnosis.subject
    for run in (subject.forward, lambda: subject.serve(subject.base)):
        with pytest.raises(ValueError, match="here") as caught:
            run()
        place = diagnosis.raised(caught.value)
        assert place.module == "blocks.1 (Spoilt)"
        assert 'raise ValueError("here")' in present(place.line)


def test_the_first_call_that_makes_nan_of_finite_values_is_placed() -> None:
    def spoiling(self: Any, h: Tensor) -> Tensor:
        mask = torch.full((6,), float("inf"))
        h = h + (h * 0).log()
        return h * 2 + mask

    place = nonfinite_place(diagnosis_of(spoiling))
    assert place.module == "blocks.1 (Spoilt)"
    assert "(h * 0).log()" in present(place.line)
    assert nonfinite_place(diagnosis_of()) == NOWHERE


def leaving_grad_off(self: Any, h: Tensor) -> Tensor:
    torch.set_grad_enabled(False)
    return h


def leaving_autocast(self: Any, h: Tensor) -> Tensor:
    torch.autocast("cpu", torch.bfloat16).__enter__()
    return h


def reseeding(self: Any, h: Tensor) -> Tensor:
    torch.manual_seed(3)
    return h


@pytest.mark.parametrize(
    ("spoil", "what", "line"),
    [
        (leaving_grad_off, "grad mode", "torch.set_grad_enabled(False)"),
        (leaving_autocast, "autocast", "__enter__()"),
        (reseeding, "the random seed", "torch.manual_seed(3)"),
    ],
)
def test_the_line_that_changed_a_mode_or_flag_is_placed(spoil, what: str, line: str) -> None:
    place = diagnosis_of(spoil).tampering(what)
    assert place.module == "blocks.1 (Spoilt)"
    assert line in present(place.line)


def test_what_nothing_changed_has_no_place() -> None:
    diagnosis = diagnosis_of()
    for what in ("grad mode", "autocast", "the random seed"):
        assert diagnosis.tampering(what) == NOWHERE


def test_a_write_to_weights_is_placed_and_to_activations_is_none() -> None:
    def writing(self: Any, h: Tensor) -> Tensor:
        h = h.clone().add_(1)
        self.linear.weight.data.mul_(0.9)
        return h

    place = place_of_write(diagnosis_of(writing), ["blocks.1.linear.weight"])
    assert place.module == "blocks.1 (Spoilt)"
    assert "self.linear.weight.data.mul_(0.9)" in present(place.line)
    sound = diagnosis_of(lambda self, h: h.clone().add_(1))
    assert place_of_write(sound, ["blocks.1.linear.weight"]) == NOWHERE


def test_a_write_to_a_buffer_is_placed() -> None:
    module = tower(lambda self, h: (self.mean.add_(1), h)[1])
    module.blocks[1].register_buffer("mean", torch.zeros(6))
    place = place_of_write(ForwardDiagnosis(subject_of(module)), ["blocks.1.mean"])
    assert "self.mean.add_(1)" in present(place.line)


def test_inference_tensors_of_the_class_are_named_in_a_phrase() -> None:
    diagnosis = diagnosis_of()
    assert diagnosis.kept_tensors() == ""
    replica: Any = diagnosis.subject.replica
    with torch.inference_mode():
        type(replica.blocks[1]).kept = torch.ones(1)
    assert diagnosis.kept_tensors() == " (Spoilt.kept)"


def test_a_parameters_owner_is_named() -> None:
    diagnosis = diagnosis_of(loss=squares)
    assert diagnosis.owner(["blocks.1.linear.weight", "head.bias"]) == "blocks.1.linear (Linear)"
    assert diagnosis.names[id(diagnosis.subject.replica)] == "(root) (Tower)"


@pytest.mark.skipif(
    "stand-in" in (torch.version.cuda or ""), reason="a stand-in of a device has no torch.compile"
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # of the compiler's own
def test_a_detach_in_compiled_code_has_its_line() -> None:
    module: Any = torch.compile(tower(lambda self, h: h.detach().tanh()), backend="eager")
    report = check_gradients(module, torch.ones(3, 6), lambda out: out.square().mean())
    (finding,) = (f for f in report.findings if f.level == "FAIL")
    assert finding.code in ("graph-cut", "no-gradient")
    assert "h.detach().tanh()" in present(finding.line)
