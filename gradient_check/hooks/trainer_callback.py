"""A Hugging Face `TrainerCallback` that checks a run's gradients before its first step."""

from typing import Any

from torch import nn

from gradient_check.findings.report import GradientReport
from gradient_check.hooks.first_step import FirstStep, OnFailure

try:
    from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState
    from transformers import TrainingArguments as Arguments
except ImportError as error:
    raise ImportError(
        "gradient_check.hooks.trainer_callback needs Transformers: "
        "`pip install transformers accelerate`."
    ) from error


class GradientFlowCheck(TrainerCallback):  # type: ignore[misc] # optional, and untyped here
    """Checks the gradients of `compute_loss` with the real first batch, on copies of the model.

    The parameters that require a gradient are checked. Training continues exactly as without the
    check. The trainer passes no batch to its callbacks: the check waits for the first call of
    `compute_loss`, and so gets the batch and the loss of the step.
    """

    def __init__(
        self,
        trainer: Trainer,
        *,
        on_failure: OnFailure = "raise",
        **options: Any,  # noqa: ANN401 - the options of check_gradients
    ) -> None:
        """Make the callback.

        Args:
            trainer: the trainer that it is added to: `trainer.add_callback(...)`.
            on_failure: "raise" GradientFlowError, whose message is the report, or "warn" with it.
            **options: those of `check_gradients`.
        """
        self._trainer = trainer
        self._first_step = FirstStep(on_failure, options)

    @property
    def report(self) -> GradientReport | None:
        """The report of the check; None before it."""
        return self._first_step.report

    def on_step_begin(
        self, args: Arguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Replace `compute_loss` for the first call of the first step."""
        if self.report is not None:
            return
        trainer = self._trainer
        own, compute_loss = vars(trainer).get("compute_loss"), trainer.compute_loss
        precision = "bf16" if args.bf16 else "fp16" if args.fp16 else None

        def check_first(model: nn.Module, inputs: Any, **given: Any) -> Any:  # noqa: ANN401
            del trainer.compute_loss
            if own is not None:
                trainer.compute_loss = own

            def loss(module: nn.Module, batch: Any) -> Any:  # noqa: ANN401
                return compute_loss(module, batch, **given)

            self._first_step.check(trainer.model, inputs, loss, precision)
            return compute_loss(model, inputs, **given)

        trainer.compute_loss = check_first
