"""A Lightning callback that checks a run's gradients before its first step."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from gradient_check.findings.report import GradientReport
from gradient_check.hooks.first_step import FirstStep, OnFailure
from gradient_check.phases.errors import ConfigError

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError as error:
    raise ImportError(
        "gradient_check.hooks.lightning needs Lightning: `pip install lightning`."
    ) from error

_AUTOCAST = {"16-mixed": "fp16", "bf16-mixed": "bf16"}


class GradientFlowCheck(Callback):  # type: ignore[misc] # Lightning is optional, and untyped here
    """Checks the gradients of `training_step` with the real first batch, on copies of the module.

    The parameters that require a gradient are checked. Training continues exactly as without the
    check. Values that the copies log are dropped.
    """

    def __init__(
        self,
        loss: Callable[[LightningModule, Any], Any] | None = None,
        *,
        on_failure: OnFailure = "raise",
        **options: Any,  # noqa: ANN401 - the options of check_gradients
    ) -> None:
        """Make the callback.

        Args:
            loss: `(module, batch) -> losses`; by default `training_step`.
            on_failure: "raise" GradientFlowError, whose message is the report, or "warn" with it.
            **options: those of `check_gradients`.
        """
        self._loss = loss
        self._first_step = FirstStep(on_failure, options)

    @property
    def report(self) -> GradientReport | None:
        """The report of the check; None before it."""
        return self._first_step.report

    def on_train_batch_start(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        batch: Any,  # noqa: ANN401 - whatever the data loader gives
        batch_idx: int,
    ) -> None:
        """Check the gradients, before the first batch of this callback only."""
        if self.report is not None:
            return
        loss = self._loss or _training_step(trainer, pl_module, batch_idx)
        precision = _AUTOCAST.get(str(trainer.precision))
        self._first_step.check(pl_module, batch, loss, precision)


def _training_step(
    trainer: Trainer, module: LightningModule, batch_idx: int
) -> Callable[[nn.Module, Any], Any]:
    """Return the loss that `training_step` computes on a copy of the module."""
    if not module.automatic_optimization:
        raise ConfigError(
            f"{type(module).__name__} optimizes by hand, so its training_step is no loss. Pass "
            "`loss=`, a function of the module and the batch."
        )
    takes_index = len(inspect.signature(module.training_step).parameters) > 1
    rest = (batch_idx,) if takes_index else ()

    def loss(module: LightningModule, batch: Any) -> Any:  # noqa: ANN401
        _attach(module, trainer)
        output = module.training_step(batch, *rest)
        return output["loss"] if isinstance(output, dict) else output

    return loss


def _attach(module: LightningModule, trainer: Trainer) -> None:
    """Attach a copy of the module to its trainer, without logging.

    It stays attached: two threads may run one copy at a time.
    """
    module.trainer = trainer
    module.log = module.log_dict = _log_nothing


def _log_nothing(*_: object, **__: object) -> None:
    """Drop a logged value of a copy of the module."""
