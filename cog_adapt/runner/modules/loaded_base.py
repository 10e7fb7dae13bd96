"""A base: the module as it was loaded, a template of it, and the census that guards it.

The base is never written. Once it differs from its census, its answers cannot be trusted, and it
gives no more. This module knows no adapter and no request.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.device import choose_precision, failure_of, fit_weights
from cog_adapt.runner.errors import UnavailableError
from cog_adapt.runner.modules.adapters import base_digest
from cog_adapt.runner.task.decoding import encoded
from cog_adapt.runner.task.task import Task, load_module, on_device, options_of_probe
from gradient_check.phases.census import Census, heal
from gradient_check.phases.modes import run_inference, run_setup
from gradient_check.phases.precision import Precision
from gradient_check.phases.replicas import freeze, make_template

logger = logging.getLogger(__name__)


class LoadedBase:
    """The base on its device.

    Attributes:
        module: the base; in eval mode, frozen.
        template: a copy of its structure, from which replicas are made.
        digest: of its weights.
        healed: the tensors that had to be copied, since they were made in inference mode.
        damage: why answers cannot be trusted: its difference from the census, or a failed device;
            empty while all is well.
        device_failure: why its device is unusable in this process; empty while it works.

    Raises:
        SetupError: the device, the precision or the module cannot be used.
    """

    def __init__(self, task: Task, settings: RunnerSettings) -> None:
        module, precision, healed = _load(task, settings)
        self.module = module
        self.precision = precision
        self.healed = healed
        freeze(self.module)
        self.template = make_template(self.module)
        self.census = Census.of(self.module)
        self.digest = base_digest(dict(self.module.named_parameters()))
        self.damage: tuple[str, ...] = ()
        self.device_failure = ""

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Compare the base with its census at the end, in any case.

        If the device has failed, its tensors cannot be read, and the first error is raised.
        """
        try:
            yield
        except Exception:
            self.look_at_device()
            raise
        finally:
            if not self.device_failure:
                self.check()

    def look_at_device(self) -> None:
        """Record a device that has failed for good; called after work on it has failed."""
        failure = "" if self.device_failure else failure_of(self.precision.device)
        if failure:
            device = self.precision.device
            self.device_failure = f"the device {device} failed: {failure.rstrip('.')}"
            self.damage = (self.device_failure,)
            logger.error("%s. It answers nothing in this process any more.", self.device_failure)

    def explained(self, error: BaseException) -> BaseException:
        """Return the error for the caller of failed work: its own, or that the device failed."""
        if isinstance(error, Exception):
            self.look_at_device()
        if not self.device_failure or isinstance(error, UnavailableError):
            return error
        failed = self._unavailable()
        failed.__cause__ = error
        return failed

    def check(self) -> None:
        """Compare the base with its census (UnavailableError, now and later, if it differs)."""
        if changes := self.census.changes(self.module):
            self.damage = tuple(changes)
            self.refuse_when_damaged()

    def refuse_when_damaged(self) -> None:
        """Raise `UnavailableError` once the base has changed or its device has failed."""
        if self.damage:
            raise self._unavailable()

    def _unavailable(self) -> UnavailableError:
        if self.device_failure:
            return UnavailableError(
                f"{self.device_failure}. It answers nothing in this process any more: restart it. "
                "CUDA_LAUNCH_BLOCKING=1 lets the failing line be named; an index out of range is "
                "the usual cause."
            )
        return UnavailableError(
            f"the base model changed: {'; '.join(self.damage[:5])}. No answer of this process "
            "can be trusted; restart it, and let the model write to nothing but itself."
        )


def _load(task: Task, settings: RunnerSettings) -> tuple[nn.Module, Precision, list[str]]:
    """Load the base; return it with its precision, and the tensors that had to be copied."""
    precision = choose_precision(settings)
    base = run_setup(load_module, task)
    healed = heal(base)
    if healed:
        logger.warning("tensors born in inference mode were copied: %s", healed)
    base = run_setup(base.to, precision.device)
    precision = fit_weights(precision, base, settings.precision)
    if any(is_lazy(parameter) for parameter in base.parameters()):
        _materialize(base, task, precision)
    return base, precision, healed


def _materialize(base: nn.Module, task: Task, precision: Precision) -> None:
    """Let lazy layers determine their shapes in one forward."""
    probe = task.probe()
    batch = on_device(encoded(task, [e.input for e in probe]), precision.device)
    labels = task.labels(probe)
    run_inference(task.predict, base, precision, "no_grad", batch, labels, options_of_probe(task))


def moved(tensors: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Return named tensors on a device."""
    return {name: tensor.to(device) for name, tensor in tensors.items()}
