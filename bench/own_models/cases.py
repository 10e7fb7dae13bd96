"""One short adaptation of each model, through its door, judged on data that it has not seen."""

import asyncio
import base64
import importlib
import inspect
import json
import os
import re
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from bench.own_models import speech
from cog_adapt import Recipe, Request, answer

_ROOT = Path(__file__).parents[2]
_TICKETS = _ROOT / "examples"


@dataclass(frozen=True)
class Outcome:
    """What an adaptation brought: held-out scores as shown, and its seconds."""

    before: str
    after: str
    seconds: float
    note: str = ""


def tabular(scratch: Path) -> Outcome:
    """Adapt prices of one town to 32 houses of another."""
    market = importlib.import_module("bench.own_models.tabular.market")
    market.write_weights(scratch / "model.safetensors")
    held_out = market.other_town(200, seed=2)

    def error(prices: Sequence[float]) -> str:
        pairs = zip(prices, held_out, strict=True)
        return f"MSE {statistics.fmean((price - row['price']) ** 2 for price, row in pairs):.2f}"

    model = {"MODEL": str(scratch / "model.safetensors")}
    with ready("bench.own_models.tabular.predict", scratch, model) as predictor:
        output = ask(predictor, rows=held_out, examples=market.other_town(32, seed=1))
    return _outcome(output, error, "32 houses, 60 steps")


def efficientnet(scratch: Path) -> Outcome:
    """Adapt to 8 pictures of each label of Fashion-MNIST."""
    pictures = importlib.import_module("bench.own_models.pictures")
    with ready("bench.own_models.efficientnet.predict", scratch) as predictor:
        labels = predictor.runner.task.labels(())
        rows = [
            {"input": base64.b64encode(png).decode(), "label": label}
            for png, label in pictures.clothes("train", labels, 8)
        ]
        held_out = [*pictures.clothes("t10k", labels, 10)]
        images = _files(scratch, [png for png, _ in held_out])
        output = ask(predictor, images=images, examples=rows)
    return _outcome(output, _accuracy([label for _, label in held_out]), "80 pictures, 5 steps")


def tiny_bert(scratch: Path) -> Outcome:
    """Adapt a two-layer encoder to 8 tickets of each label, by the shipped task and door."""
    folder = importlib.import_module("bench.own_models.tiny_bert.folder")
    folder.write_folder(scratch / "model")
    held_out = _tickets("tickets_heldout.jsonl")
    with ready("predict", scratch, {"MODEL": str(scratch / "model")}) as predictor:
        texts = [row["text"] for row in held_out]
        output = ask(predictor, texts=texts, examples=_tickets("tickets.jsonl"))
    return _outcome(output, _accuracy([row["label"] for row in held_out]), "48 tickets, 40 steps")


def smollm2(scratch: Path) -> Outcome:
    """Teach a language model a format in 48 pairs; then stream one answer through the door."""
    pairs = [
        {"input": row["text"], "target": f"TEAM: {row['label']}"}
        for name in ("tickets.jsonl", "tickets_heldout.jsonl")
        for row in _tickets(name)
    ]
    known, held_out = pairs[:48], pairs[48:][:24]
    options = importlib.import_module("bench.own_models.smollm2.task").Options(max_tokens=8)
    recipe = Recipe(max_steps=20, batch_size=8, learning_rate=5e-3)
    texts = [pair["input"] for pair in held_out]
    request = Request(texts, examples=known, recipe=recipe, options=options)

    def teams(answers: Sequence[str]) -> str:
        right = [said == pair["target"] for said, pair in zip(answers, held_out, strict=True)]
        formed = [re.fullmatch(r"TEAM: \w+", said) is not None for said in answers]
        return f"team {statistics.fmean(right):.2f}, format {statistics.fmean(formed):.2f}"

    with ready("bench.own_models.smollm2.predict", scratch) as predictor:
        done = asyncio.run(answer(predictor.runner, request))
        began = time.perf_counter()
        pieces = ask(predictor, text=texts[0], max_tokens=8, adapter=done.adapter)
        each = (time.perf_counter() - began) / len(pieces)
    if "".join(pieces) != done.predictions[0]:
        raise SystemExit(f"streamed {pieces!r}, predicted {done.predictions[0]!r}")
    note = f"48 pairs, 20 steps; the stream says the same, {each:.2f} s a piece"
    return _outcome(vars(done), teams, note)


def whisper(scratch: Path) -> Outcome:
    """Adapt to 12 sentences of jargon, as a synthetic voice says them."""
    rows = [
        {"input": base64.b64encode(speech.spoken(said)).decode(), "target": said}
        for said in speech.KNOWN
    ]
    sounds = _files(scratch, [speech.spoken(said) for said in speech.HELD_OUT])
    with ready("bench.own_models.whisper.predict", scratch) as predictor:
        output = ask(predictor, sounds=sounds, examples=rows)

    def error(written: Sequence[str]) -> str:
        return f"WER {speech.word_error_rate(speech.HELD_OUT, written):.2f}"

    return _outcome(output, error, "12 sentences, 10 steps")


@contextmanager
def ready(
    module: str, scratch: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Any]:
    """Set up the door of a module, its self-test included; end its model thread afterwards."""
    settings = {"WEIGHTS_DIR": str(scratch), **(environment or {})}
    with mock.patch.dict(os.environ, settings):
        predictor = importlib.import_module(module).Predictor()
        predictor.setup()
    with predictor.runner:
        yield predictor


def ask(predictor: Any, **inputs: object) -> Any:
    """Call a door's `run` as Cog does: what is left out has its default."""
    parameters = inspect.signature(predictor.run).parameters.values()
    defaults = {each.name: each.default.default for each in parameters}
    return asyncio.run(_collected(predictor.run(**(defaults | inputs))))


async def _collected(running: Any) -> Any:
    if inspect.isasyncgen(running):
        return [piece async for piece in running]
    return vars(await running)


def _outcome(output: Mapping[str, Any], score: Any, note: str) -> Outcome:
    before, after = score(output["before"]), score(output["predictions"])
    return Outcome(before, after, output["report"]["seconds"], note)


def _accuracy(labels: Sequence[str]) -> Any:
    def accuracy(answers: Sequence[Mapping[str, Any]]) -> str:
        right = [said["label"] == label for said, label in zip(answers, labels, strict=True)]
        return f"accuracy {statistics.fmean(right):.2f}"

    return accuracy


def _files(folder: Path, contents: Sequence[bytes]) -> list[Path]:
    files = [folder / f"input-{number}" for number in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    return files


def _tickets(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (_TICKETS / name).read_text("utf-8").splitlines()]
