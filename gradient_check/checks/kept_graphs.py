"""Reports a later step's failing backward, and the line that stored a graph for it."""

from torch import Tensor, nn

from gradient_check.checks.flow import GradientFlow
from gradient_check.diagnosis.retention import place_of_keeping
from gradient_check.findings.examination import describe
from gradient_check.findings.report import Place
from gradient_check.instruments.recording import Recorder


def report_later_backward(flow: GradientFlow, error: Exception) -> None:
    """Report an error of a backward after the first one succeeded."""
    keeper = keeper_of(flow.subject.replica)
    kept = keeping_of(flow)
    place = kept if kept.line else flow.diagnosis.backward_raised(error)
    flow.exam.add(
        "FAIL",
        "backward",
        f"the backward of a second step raised {describe(error)}. {remedy(str(error))}"
        + (f" {keeper} keeps a graph: detach it." if keeper else "")
        + (
            " A later forward uses a value that the named line stored in an earlier forward."
            if kept.line
            else ""
        ),
        module=keeper or place.module,
        line=place.line,
    )


def keeping_of(flow: GradientFlow) -> Place:
    """Return the line that stores a result with its graph, which a later forward reuses."""
    return place_of_keeping(flow.diagnosis.forward, _is_older)


def _is_older(tensor: Tensor, earlier: Recorder, later: Recorder) -> bool:
    """Return whether the later of two forwards made no part of a tensor's graph."""
    return tensor.grad_fn is not None and not (
        id(tensor) in later.made or later.maker(tensor.grad_fn)
    )


def keeper_of(replica: nn.Module) -> str | None:
    """Return the attribute that holds a tensor with its graph, or None."""
    for name, part in replica.named_modules():
        attribute = next((a for a, value in vars(part).items() if _holds_graph(value)), None)
        if attribute is not None:
            return f"{name or '(root)'}.{attribute}"
    return None


def is_torchs_own(keeper: str, replica: nn.Module) -> bool:
    """Return whether PyTorch itself keeps an attribute, computed anew in each forward.

    Examples are the weight of old spectral norm or pruning, and a recurrent net's list of weights.
    """
    path, _, name = keeper.rpartition(".")
    part = replica.get_submodule("" if path == "(root)" else path)
    is_list = name == "_flat_weights" and isinstance(part, nn.RNNBase)
    return is_list or f"{name}_orig" in part._parameters


def _holds_graph(value: object) -> bool:
    values = value if isinstance(value, list | tuple) else [value]
    values = list(value.values()) if isinstance(value, dict) else values
    return any(isinstance(v, Tensor) and v.grad_fn is not None for v in values)


def remedy(text: str) -> str:
    """Return the advice for an error of backward."""
    if "number of gradients" in text or "invalid gradient" in text:
        return "Return one gradient for each input of forward, of its shape, or None."
    if "second time" in text:
        return "Call backward in the training step alone, and store no graph for a second forward."
    if "modified by an inplace operation" in text:
        return "Do not write to tensors that the graph saved."
    return (
        "The named code, a hook or a function's backward, raised the error: correct that code, or "
        "leave it out of training."
    )
