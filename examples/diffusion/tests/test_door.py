"""The door draws letters at a part of what was learned."""

import asyncio
import base64
import inspect
from types import SimpleNamespace

from cog_adapt import Example, ModelRunner, Recipe
from examples.diffusion.drawing import DrawOptions
from examples.diffusion.letters import TRIGGER
from examples.diffusion.predict import Predictor
from examples.diffusion.task import Letters
from examples.diffusion.tests.pictures_of_letters import bar, settings_in


def test_the_door_draws_at_a_part_of_what_was_learned_unless_it_is_asked(monkeypatch, tmp_path):
    door = Predictor()
    door.task = Letters()
    door.runner = runner = ModelRunner(door.task, settings_in(tmp_path))
    given = [Example({"letter": letter, "picture": bar(9)}, TRIGGER) for letter in "Il1"]
    recipe = Recipe(max_steps=12, batch_size=8, repeats=2, learning_rate=5e-3)
    adapter = runner.adapt(given, recipe).adapter
    assert adapter is not None
    runner.store.put(adapter, "")
    scope = SimpleNamespace(context={}, record_metric=lambda *_: None)
    monkeypatch.setattr(Predictor, "scope", scope)
    values = {
        name: each.default.default
        for name, each in inspect.signature(Predictor.run).parameters.items()
        if hasattr(each.default, "default")
    }
    values |= {"prompt": "Il", "adapter": adapter.id, "seed": 3, "num_inference_steps": 4}

    async def drawn(scale):
        (path,) = [path async for path in door.run(**values | {"lora_scale": scale})]
        return path.read_bytes()

    unasked, part, whole = (asyncio.run(drawn(scale)) for scale in (None, Letters.lora_scale, 1.0))
    (expected,) = runner.predict(["Il"], adapter, options=DrawOptions(steps=4, seed=3))
    assert whole == base64.b64decode(expected.split(",")[1])
    assert unasked == part != whole
    runner.close()
