"""The entries of declared blocks: modules, by a hook, and custom functions, by replacements."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from gradient_check.instruments.crossings import Crossings


class CrossingPoints:
    """The modules and custom functions of some crossings."""

    def __init__(self, crossings: Crossings) -> None:
        self.crossings = crossings
        self._slots: dict[int, int] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Intercept the values that enter modules and custom functions, for a while."""
        with ExitStack() as stack:
            for module, pattern in self.crossings.sites.modules.items():
                handle = module.register_forward_pre_hook(self._entering(pattern), with_kwargs=True)
                stack.callback(handle.remove)
            for kind in self.crossings.sites.kinds:
                stack.enter_context(replaced(kind, self._functions_of(kind)))
            yield

    def _entering(self, pattern: str) -> Callable[..., Any]:
        def enter(_: nn.Module, args: Any, kwargs: Any) -> Any:  # noqa: ANN401
            return tree_map_only(Tensor, lambda t: self.crossings.enter(t, pattern), (args, kwargs))

        return enter

    def _functions_of(self, kind: Any) -> dict[str, Callable[..., Any]]:  # noqa: ANN401
        """Return the replacements of a custom function's own functions."""
        run, back, note = kind.forward, kind.backward, kind.setup_context
        has_context = note is torch.autograd.Function.setup_context

        def forward(*args: Any) -> Any:  # noqa: ANN401 - a custom function takes anything
            pattern = self.crossings.sites.functions.get(self.crossings.calls)
            self.crossings.calls += 1
            if pattern is None:
                return run(*args)
            given = args[1:] if has_context else args
            entered = [self.crossings.enter_function(each, pattern) for each in given]
            self._slots = {n: slot for n, (_, slot) in enumerate(entered) if slot is not None}
            if has_context:
                args[0].crossings = self._slots
            return run(*args[: int(has_context)], *(value for value, _ in entered))

        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ANN401
            ctx.crossings, self._slots = self._slots, {}
            note(ctx, inputs, output)

        def backward(ctx: Any, *gradients: Any) -> Any:  # noqa: ANN401
            result = back(ctx, *gradients)
            found = result if isinstance(result, tuple) else (result,)
            for place, number in getattr(ctx, "crossings", {}).items():
                self.crossings.keep(number, found[place])
            return result

        own: dict[str, Callable[..., Any]] = {"forward": forward, "backward": backward}
        return own if has_context else {**own, "setup_context": setup_context}


@contextmanager
def replaced(kind: Any, functions: dict[str, Callable[..., Any]]) -> Iterator[None]:  # noqa: ANN401
    """Replace static functions of a class, for a while."""
    before = {name: kind.__dict__.get(name) for name in functions}
    for name, function in functions.items():
        setattr(kind, name, staticmethod(function))
    try:
        yield
    finally:
        for name, own in before.items():
            delattr(kind, name) if own is None else setattr(kind, name, own)
