"""The random numbers of a forward: the calls that draw them, and their repetition.

All threads share the default generators. So concurrent inferences get the draws of a recorded one,
and any other difference between them is no noise.
"""

import threading
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from gradient_check.findings.examination import Examination
from gradient_check.instruments.recording import name_of
from gradient_check.instruments.sources import stack_here, text_of
from gradient_check.instruments.subject import Subject
from gradient_check.phases.randomness import random_state


class RecordedDraws(TorchFunctionMode):
    """Records the calls on this thread that draw from the default generators.

    Attributes:
        results: of these calls, by their number among all calls.
        names: of the functions called, in their order.
        lines: where each was called, as `file:line: code`.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device
        self.count = 0
        self.results: dict[int, Any] = {}
        self.names: list[str] = []
        self.lines: list[str | None] = []

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401 - PyTorch's protocol
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Run one call, and record whether it drew."""
        index, self.count = self.count, self.count + 1
        before = random_state(self.device)
        result = func(*args, **(kwargs or {}))
        after = random_state(self.device)
        if not all(torch.equal(a, b) for a, b in zip(before, after, strict=True)):
            self.results[index] = _copied(result)
            self.names.append(name_of(func))
            position = stack_here().position
            self.lines.append(text_of(position) if position else None)
        return result

    @property
    def are_of_dropout(self) -> bool:
        """Whether there are draws, all of them by dropout."""
        return bool(self.names) and all("dropout" in name for name in self.names)


def judge_noise(subject: Subject, exam: Examination) -> RecordedDraws:
    """Record an inference's draws that depend on the seed; warn unless they are declared."""
    draws = RecordedDraws(subject.options.precision.device)
    subject.loss.recorder = draws
    try:
        subject.serve(subject.base, subject.seed)
    finally:
        subject.loss.recorder = None
    if subject.options.random_loss:
        return draws
    if draws.are_of_dropout:
        exam.add(
            "WARN",
            "random-inference",
            "inference depends on the random seed. Give dropout its module's `training` flag.",
            line=draws.lines[0],
        )
        return draws
    noisy = (n for n, name in enumerate(draws.names) if "dropout" not in name)
    exam.add(
        "WARN",
        "random-loss",
        "the loss draws noise: with another seed it differs at the same values. If that is "
        "intended (a diffusion's steps, a sample of a VAE), declare `random_loss=True`, and in a "
        "task draw the noise from `cog_adapt.row_generators()`; otherwise remove it.",
        line=next((draws.lines[n] for n in noisy), None),
    )
    return draws


class DrawsAgain:
    """A context in which calls return recorded draws, on all threads but one.

    Args:
        draws: recorded in a forward with the same calls.
    """

    def __init__(self, draws: RecordedDraws) -> None:
        self.draws = draws
        self.apart = threading.get_ident()
        self._thread = threading.local()

    def __enter__(self) -> None:
        if threading.get_ident() != self.apart:
            self._thread.mode = _Again(self.draws)
            self._thread.mode.__enter__()

    def __exit__(self, *raised: object) -> None:
        if threading.get_ident() != self.apart:
            self._thread.mode.__exit__(*raised)


class _Again(TorchFunctionMode):
    def __init__(self, draws: RecordedDraws) -> None:
        super().__init__()
        self.draws = draws
        self.count = 0

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401 - PyTorch's protocol
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        index, self.count = self.count, self.count + 1
        if index not in self.draws.results:
            return func(*args, **(kwargs or {}))
        result = self.draws.results[index]
        if name_of(func).endswith("_") and args and isinstance(result, Tensor):
            return args[0].copy_(result)
        return _copied(result)


def _copied(result: Any) -> Any:  # noqa: ANN401
    return tree_map_only(Tensor, lambda tensor: tensor.detach().clone(), result)
