"""Warns of batch norms that would get a single value for each channel in training.

The test runs norms in eval mode, as an adaptation does, so it does not trigger their error.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from gradient_check.findings.examination import Examination
from gradient_check.findings.report import count, some


@contextmanager
def warning_of_single_rows(
    exam: Examination, module: nn.Module, replica: nn.Module
) -> Iterator[None]:
    """Watch the inputs of the module's training batch norms in a forward of the replica.

    Args:
        exam: gets the warning.
        module: the caller's, whose `training` flags count.
        replica: its forward is run inside.
    """
    found: dict[str, None] = {}

    def look(name: str) -> Any:  # noqa: ANN401 - a hook
        def hook(part: _BatchNorm, args: tuple[Any, ...]) -> None:
            if args and args[0].numel() == part.num_features:
                found[name] = None

        return hook

    own = dict(module.named_modules())
    parts = [(n, p) for n, p in replica.named_modules() if isinstance(p, _BatchNorm)]
    handles = [
        part.register_forward_pre_hook(look(name))
        for name, part in parts
        if name in own and own[name].training
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
    if found:
        exam.add(
            "WARN",
            "one-row-norm",
            f"{count(found, 'batch norm')} with one value for each channel: {some(list(found))}. "
            "The test runs norms in eval mode; in train mode they refuse a single value. Give a "
            "probe of more rows, or train with norms in eval mode.",
            module=next(iter(found)),
        )
