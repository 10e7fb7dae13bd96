"""Step 7: runs a training forward and its backward as a step does, and judges the forward."""

import math

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.single_rows import warning_of_single_rows
from gradient_check.diagnosis.kept_values import maker_of_inference_tensor
from gradient_check.diagnosis.nonfinite_values import nonfinite_place
from gradient_check.diagnosis.stand_ins import StandIns
from gradient_check.findings.examination import Numbers, attempted, describe
from gradient_check.findings.report import Place
from gradient_check.instruments.probe_loss import LossShapeError
from gradient_check.instruments.sources import is_in_library
from gradient_check.phases.errors import ModeError


def judge_forward(flow: GradientFlow) -> Numbers:
    """Run a forward and a backward as a step does; judge the forward."""
    subject, exam = flow.subject, flow.exam
    try:
        with (
            subject.held.noting(subject.step.scaler.is_enabled()),
            warning_of_single_rows(exam, flow.guard.module, subject.replica),
        ):
            flow.loss = subject.gradients(flow.observe)
    except LossShapeError as error:
        place = flow.diagnosis.forward.escape()
        exam.add(
            "FAIL",
            "loss-shape",
            f"{error}. Return a float tensor: a scalar, or one loss for each example.",
            module=place.module,
            line=place.line,
        )
        return {}
    except Exception as error:  # noqa: BLE001 - the code under test may raise anything
        finished = subject.loss.finished  # read before a diagnosis runs other forwards
        _judge_error(flow, error)
    else:
        finished = subject.loss.finished
    _judge_tampering(flow)
    if finished:
        _judge_loss(flow)
    if finished and math.isfinite(flow.loss):
        exam.grounds.add("loss")
        _find_declared(flow)
    return {"loss": flow.loss}


def _find_declared(flow: GradientFlow) -> None:
    """Find the starts of the declared blocks, which all comparisons hold."""
    find = flow.slopes.find
    attempted(lambda: find(flow.subject, flow.diagnosis.names, flow.kinds), None)
    flow.stand_ins = StandIns(flow.subject, sites=flow.slopes.sites)


def _judge_error(flow: GradientFlow, error: Exception) -> None:
    if flow.subject.loss.finished:
        if flow.has_graph:
            flow.backward_error = error
        return
    if isinstance(error, ModeError):  # the forward before this one froze every parameter
        return
    hint, place = "", flow.diagnosis.forward.raised(error)
    if "nference tensor" in str(error):
        hint, place = _explain_inference_tensor(flow, place)
    flow.exam.add(
        "FAIL",
        "train-forward",
        f"the training forward raised {describe(error)}.{hint}",
        module=place.module,
        line=place.line,
    )


def _explain_inference_tensor(flow: GradientFlow, user: Place) -> tuple[str, Place]:
    """Return where an inference tensor comes from, as a sentence and as a place."""
    place = flow.diagnosis.forward.inference_mode()
    if place.line:
        return (
            " The forward itself runs a part in inference mode, and no gradient can pass the "
            "results. Remove that mode; for an untrained part use no_grad.",
            place,
        )
    hint = (
        " Training uses a tensor that an inference made and "
        f"stored{flow.diagnosis.forward.kept_tensors()}: store none, or serve under no_grad "
        "(serve_mode, or SERVE_MODE in the environment)."
    )
    maker = maker_of_inference_tensor(flow.diagnosis.forward)
    return (f"{hint} The named call makes that tensor.", maker) if maker.line else (hint, user)


def _judge_tampering(flow: GradientFlow) -> None:
    for name, text in flow.subject.loss.tampering.items():
        code = "thread-mode" if name in ("grad mode", "inference mode", "autocast") else None
        place = flow.diagnosis.forward.tampering(name)
        is_librarys = name == "the random seed" and is_in_library(place.line)
        flow.exam.add(
            "WARN" if is_librarys else "FAIL",
            code or "flags-changed",
            f"the forward did not restore state that it changed: {text}. Use a context manager "
            "that ends inside the forward.",
            module=place.module,
            line=place.line,
        )


def _judge_loss(flow: GradientFlow) -> None:
    """Judge whether the losses have an allowed shape and are finite; name the line at fault."""
    subject, exam, forward = flow.subject, flow.exam, flow.diagnosis.forward
    if not subject.loss.shape_fits:
        shape = subject.loss.shape  # read before a diagnosis runs other forwards
        place = forward.losses()
        exam.add(
            "FAIL",
            "loss-shape",
            f"the losses have shape {shape}; allowed: () or one loss for each example. Reduce "
            "over everything but the examples.",
            module=place.module,
            line=place.line,
        )
    if not math.isfinite(flow.loss):
        place = nonfinite_place(forward)
        exam.add(
            "FAIL",
            "loss-nonfinite",
            f"the loss is {flow.loss} before any update. Look for a division, logarithm or "
            "root of zero, or an overflow.",
            module=place.module,
            line=place.line,
        )
