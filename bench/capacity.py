"""What a core, and by counted operations a card, gives: the figures of docs/capacity.md.

    python -m bench.capacity --output docs/results/capacity.json

CPU seconds of adaptations by method and of predictions, with the floating-point operations that
torch counts in each, and the bytes of the adapters. A card's time is that of the operations at a
share of its peak, or of its kernels' starts, whichever is longer: computed, on no card.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from bench import data
from bench.report import Columns, Report, Row, Spread, arguments, seconds
from cog_adapt import Adapter, ModelRunner, Recipe, RunnerSettings
from cog_adapt.runner.devices.device import choose_precision
from cog_adapt.runner.scheduling.scheduler import once
from task import TextClassification

PER_LABEL, TEXTS = 8, 32
PEAK, SHARE = 989e12, 0.3  # an H100's bfloat16 without sparsity, and what large matrices get of it
LAUNCH = 5e-6  # seconds of a kernel's start, which bound a small model
RECIPES = {
    "closed form": Recipe(method="head"),
    "LoRA, 20 steps": Recipe(method="lora", max_steps=20),
    "auto": Recipe(method="auto"),
}
COLUMNS: Columns = {
    "what": str,
    "CPU s": seconds,
    "a core": str,
    "GFLOP": "{:.1f}".format,
    "kernels": "{:,.0f}".format,
    "a card, computed": str,
    "adapter's bytes": str,
}


def main() -> None:
    """Measure, and print the table."""
    chosen = arguments(__doc__)
    split, recipes, rounds = data.split(PER_LABEL, 0), RECIPES, 5
    if chosen.quick:
        split, rounds = data.split(2, 0), 1
        recipes = {name: replace(recipe, max_steps=2) for name, recipe in RECIPES.items()}
    settings = RunnerSettings.from_environment()
    with tempfile.TemporaryDirectory() as scratch:
        # No features are kept, so that each round pays for its own.
        alone = {"weights_dir": Path(scratch), "feature_bytes": 1}
        with ModelRunner(TextClassification(), settings.model_copy(update=alone)) as runner:
            rows = [*measure(runner, split, recipes, rounds)]
    facts = {"examples": len(split.train), "a card's peak": PEAK, "of which": SHARE}
    report = Report("What a core and a card give", COLUMNS, rows, facts)
    report.publish(choose_precision(settings), chosen.output)


def measure(
    runner: ModelRunner, split: data.Split, recipes: Mapping[str, Recipe], rounds: int
) -> Iterator[Row]:
    """Yield a row for each method, and for predictions by the last one's adapter."""
    adapter: Adapter | None = None
    for name, recipe in recipes.items():
        made = []
        for seed in range(rounds):
            adapt = partial(runner.adapt, split.train, replace(recipe, seed=seed))
            made.append(_timed(adapt))
        adapter = made[-1][1].adapter
        counted = _counted(runner, partial(runner.adapt, split.train, replace(recipe, seed=99)))
        size = len(adapter.to_bytes()) if adapter else 0
        yield _row(f"an adaptation, {name}", [each for each, _ in made], counted, size=size)
    texts = split.texts[:TEXTS]
    one = partial(runner.predict, texts[:1], adapter)
    for name, ask, count in (
        ("a prediction, alone", one, 1),
        ("a prediction, of 32 in a request", partial(runner.predict, texts, adapter), TEXTS),
    ):
        ask()
        spent = [_timed(ask)[0] / count for _ in range(4 * rounds)]
        yield _row(name, spent, _counted(runner, ask), of=count)


def _row(what: str, spent: list[float], counted: "_Counter", *, size: int = 0, of: int = 1) -> Row:
    spread = Spread.of(spent)
    each, unit = (3600, "an hour") if size else (1, "a second")
    return {
        "what": what,
        "CPU s": spread,
        "a core": f"{each / spread.median:,.0f} {unit}",
        "GFLOP": counted.operations / of / 1e9,
        "kernels": counted.kernels / of,
        "a card, computed": f"{each * of / counted.card_seconds:,.0f} {unit}",
        "adapter's bytes": f"{size:,}" if size else "",
    }


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    done = work()
    return time.process_time() - began, done


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts as `FlopCounterMode` does, without its global hooks: the base's census sees those."""

    operations = 0
    kernels = 0

    @property
    def card_seconds(self) -> float:
        """The time on a card, computed."""
        return max(self.operations / (PEAK * SHARE), self.kernels * LAUNCH)

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        kwargs = kwargs or {}
        count = flop_registry.get(call._overloadpacket)  # torch's own name for it
        if count is None:
            with self:  # such as `linear`, which stays whole in inference mode
                result = call.decompose(*args, **kwargs)
            if result is NotImplemented:
                self.kernels += not call.is_view
                result = call(*args, **kwargs)
            return result
        result = call(*args, **kwargs)
        self.operations += count(*args, **kwargs, out_val=result)
        self.kernels += 1
        return result


def _counted(runner: ModelRunner, work: Callable[[], object]) -> "_Counter":
    """Count what the model thread computes meanwhile; a mode holds on its own thread alone."""
    counter: Any = _Counter()  # type: ignore[no-untyped-call]

    def switch(number: int) -> None:
        if number:
            counter.__enter__()
        else:
            counter.__exit__(None, None, None)

    runner.scheduler.submit_long(once(switch, 1)).wait()
    try:
        work()
    finally:
        runner.scheduler.submit_long(once(switch, 0)).wait()
    counted: _Counter = counter
    return counted


if __name__ == "__main__":
    main()
