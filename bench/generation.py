"""Measures generation: tokens a second beside transformers, several requests and adapters at once.

Contestants take turns in one process, and medians are compared. Memory is measured over many
answers and cancels, and 48 pairs are taught as a peft loop would teach them.
"""

import asyncio
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from bench.generation_twin import teach_by_hand
from bench.report import Columns, Report, arguments
from bench.selftest_cost import resident
from cog_adapt import (
    Adapter,
    CausalLM,
    ModelRunner,
    Query,
    Recipe,
    RunnerSettings,
    TextOptions,
    read_examples,
)
from cog_adapt.lm.models import model_name
from cog_adapt.runner.devices.device import choose_precision

_TICKETS = Path(__file__).parents[1] / "examples"
_PROMPT = "Write a long story about a lighthouse keeper and the sea."
_AT_ONCE = 8
_PAIRS, _HELD_OUT = 48, 24
_RECIPE = Recipe(max_steps=20, batch_size=8, learning_rate=2e-3)
COLUMNS: Columns = {"what": str, "here": str, "beside": str, "ratio": str, "goal": str}


class Endless(CausalLM):
    """Answers use all tokens that they may have, so that contestants make equally many."""

    def __init__(self) -> None:
        super().__init__()
        self._ends = frozenset()


def main() -> None:
    """Measure, and write the table."""
    chosen = arguments(main.__doc__)
    load = f"{os.getloadavg()[0]:.1f}"
    rounds, tokens = (1, 8) if chosen.quick else (5, 48)
    with tempfile.TemporaryDirectory() as scratch:
        settings = RunnerSettings(device="cpu", weights_dir=Path(scratch))
        with ModelRunner(Endless(), settings) as runner:
            rows = [
                _alone(runner, rounds, tokens),
                _together(runner, rounds, tokens, [None] * _AT_ONCE, "8 requests"),
                _together(runner, rounds, tokens, _adapters(runner), "8 adapters"),
                _memory(runner, 50 if chosen.quick else 1000),
            ]
        if not chosen.quick:
            rows.append(_teaching(settings))
    facts = {"threads": torch.get_num_threads(), "load at the start": load, "tokens": tokens}
    precision = choose_precision(RunnerSettings(device="cpu"))
    Report("Generation", COLUMNS, rows, facts).publish(precision, chosen.output)


def _alone(runner: ModelRunner, rounds: int, tokens: int) -> dict[str, Any]:
    """Compare one request with `transformers.generate`."""
    name = model_name()
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(name)
    chat = [{"role": "user", "content": _PROMPT}]
    given = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )

    def theirs() -> None:
        model.generate(
            **given, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0
        )

    def ours() -> None:
        runner.predict([_PROMPT], options=TextOptions(tokens))

    here, beside = _in_turns(rounds, ours, theirs)
    return _rates("1 request, beside transformers.generate", here, beside, tokens, ">= 0.9")


def _together(
    runner: ModelRunner, rounds: int, tokens: int, adapters: Sequence[Adapter | None], what: str
) -> dict[str, Any]:
    """Compare requests at once with the same one after the other."""
    options = TextOptions(tokens)
    queries = [
        Query([f"{_PROMPT} Part {n}."], adapter, options=options)
        for n, adapter in enumerate(adapters)
    ]

    async def at_once() -> None:
        await asyncio.gather(*map(runner.predict_async, queries))

    def in_a_row() -> None:
        for query in queries:
            runner.predict(query.inputs, query.adapter, options=options)

    here, beside = _in_turns(rounds, lambda: asyncio.run(at_once()), in_a_row)
    goal = ">= 2.5" if adapters[0] is None else ">= 2"
    return _rates(f"{what}, beside one after the other", here, beside, tokens * _AT_ONCE, goal)


def _adapters(runner: ModelRunner) -> list[Adapter | None]:
    pairs = read_examples(_TICKETS / "tickets.jsonl").examples[:2]
    recipes = [Recipe(max_steps=1, seed=seed, learning_rate=1e-3) for seed in range(_AT_ONCE)]
    return [runner.adapt(pairs, recipe).adapter for recipe in recipes]


def _memory(runner: ModelRunner, count: int) -> dict[str, Any]:
    """Begin answers, and leave half of them, many times."""

    async def some(many: int) -> None:
        for number in range(many):
            query = Query([{"text": "Hi"}], options=TextOptions(2 + number % 2))
            pieces = runner.generate_async(query)
            await anext(pieces)
            if number % 2:
                await pieces.aclose()
            else:
                [piece async for piece in pieces]

    asyncio.run(some(count // 10))
    gc.collect()
    before = resident()
    asyncio.run(some(count))
    runner.predict([{"text": "Hi"}], options=TextOptions(1))  # a tick, which closes who left last
    gc.collect()
    grown = (resident() - before) / 2**20
    kept = runner.gauges()["generation_bytes"]
    return {
        "what": f"memory over {count} answers and cancels",
        "here": f"{grown:+.1f} MB; {kept:.0f} bytes of caches",
        "beside": "",
        "ratio": "",
        "goal": "flat",
    }


def _teaching(settings: RunnerSettings) -> dict[str, Any]:
    """Teach a format, here and by a peft loop, in turns."""
    rows = [
        {"prompt": example.input, "completion": f"TEAM: {example.target}"}
        for name in ("tickets.jsonl", "tickets_heldout.jsonl")
        for example in read_examples(_TICKETS / name).examples
    ]
    known, held_out = rows[:_PAIRS], rows[_PAIRS:][:_HELD_OUT]
    task = CausalLM()
    examples = [task.example(row) for row in known]
    texts = [row["prompt"] for row in held_out]
    took: dict[str, list[float]] = {"here": [], "beside": []}
    formed: dict[str, float] = {}
    with ModelRunner(task, settings) as runner:
        formed["before"] = _formed(runner.predict(texts, options=TextOptions(8)))
        for seed in range(3):
            began = time.perf_counter()
            adapter = runner.adapt(examples, _seeded(seed)).adapter
            took["here"].append(time.perf_counter() - began)
            formed["here"] = _formed(runner.predict(texts, adapter, options=TextOptions(8)))
            seconds, answers = teach_by_hand(known, texts, _RECIPE, seed)
            took["beside"].append(seconds)
            formed["beside"] = _formed(answers)
    here, beside = (statistics.median(took[who]) for who in ("here", "beside"))
    return {
        "what": "48 pairs, beside peft's loop: seconds, and answers in the format",
        "here": f"{here:.1f} s, {formed['before']:.2f} -> {formed['here']:.2f}",
        "beside": f"{beside:.1f} s, {formed['beside']:.2f}",
        "ratio": f"{here / beside:.2f}",
        "goal": "<= 0.6; 0 -> 1.00",
    }


def _seeded(seed: int) -> Recipe:
    return Recipe(max_steps=20, batch_size=8, learning_rate=_RECIPE.learning_rate, seed=seed)


def _formed(answers: Sequence[str]) -> float:
    return statistics.fmean(answer.startswith("TEAM: ") for answer in answers)


def _in_turns(
    rounds: int, one: Callable[[], None], other: Callable[[], None]
) -> tuple[list[float], list[float]]:
    """Return the seconds of each, in rounds of both, after a round that does not count."""
    took: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for seconds, run in zip(took, (one, other), strict=True):
            began = time.perf_counter()
            run()
            seconds += [time.perf_counter() - began] if number else []
    return took


def _rates(
    what: str, here: Sequence[float], beside: Sequence[float], tokens: int, goal: str
) -> dict[str, Any]:
    ratio = statistics.median(b / a for a, b in zip(here, beside, strict=True))
    return {
        "what": what,
        "here": _spread([tokens / seconds for seconds in here]),
        "beside": _spread([tokens / seconds for seconds in beside]),
        "ratio": f"{ratio:.2f}",
        "goal": goal,
    }


def _spread(rates: Sequence[float]) -> str:
    return f"{statistics.median(rates):.1f} tokens/s ({min(rates):.1f} to {max(rates):.1f})"


if __name__ == "__main__":
    main()
