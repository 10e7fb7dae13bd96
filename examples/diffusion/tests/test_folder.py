"""Folders of diffusers: what is drawn is what diffusers' pipelines draw, with adapters too."""

import asyncio
import base64
import io
import json
from dataclasses import replace
from itertools import pairwise

import diffusers
import numpy as np
import peft
import pytest
import torch
from diffusers.utils import logging
from PIL import Image
from transformers.utils import logging as transformers_logging

from cog_adapt import Example, InputError, ModelRunner, Query, RunnerSettings, WeightsError
from examples.diffusion.drawing import DrawOptions
from examples.diffusion.folder import Folder, chosen_task
from examples.diffusion.photos import gradient_bar
from examples.diffusion.task import Letters
from examples.diffusion.tests.pictures_of_letters import settings_in
from examples.diffusion.tests.tiny_folder import pipeline_of, write_flux, write_sd3

for each in (logging, transformers_logging):
    each.disable_progress_bar()
SIDE = 32
OPTIONS = DrawOptions(steps=28, guidance=3.5, seed=3, height=SIDE, width=SIDE, form="raw")
WRITERS = {
    "flux": write_flux,
    "flux without guidance": lambda folder: write_flux(folder, guidance_embeds=False),
    "sd3": write_sd3,
    "sd3 without T5": lambda folder: write_sd3(folder, has_t5=False),
}
PROMPT = "a cat, TOK"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The folder of each kind, written once."""
    made = {}

    def of(kind):
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp("folder")
            WRITERS[kind](made[kind])
        return str(made[kind])

    return of


@pytest.fixture(scope="module")
def runners(folders, tmp_path_factory):
    made = {}

    def of(kind):
        if kind not in made:
            settings = settings_in(tmp_path_factory.mktemp("weights"))
            made[kind] = ModelRunner(Folder(folders(kind), SIDE), settings)
        return made[kind]

    yield of
    for runner in made.values():
        runner.close()


def by_diffusers(loaded, options=OPTIONS, prompt=PROMPT):
    """The latents after each step of diffusers' pipeline, from the noise of our seed."""
    c, side = loaded.vae.config.latent_channels, SIDE // 2
    noise = torch.randn(c, side, side, generator=torch.Generator().manual_seed(options.seed))[None]
    is_flux = "Flux" in type(loaded).__name__
    latents = loaded._pack_latents(noise, 1, c, side, side) if is_flux else noise
    steps = []

    def keep(_pipeline, _step, _time, values):
        now = values["latents"]
        steps.append(loaded._unpack_latents(now, SIDE, SIDE, 2) if is_flux else now.clone())
        return {}

    loaded(
        prompt,
        height=SIDE,
        width=SIDE,
        num_inference_steps=options.steps,
        guidance_scale=options.guidance,
        latents=latents,
        output_type="latent",
        callback_on_step_end=keep,
    )
    return [step[0] for step in steps]


def examples(count=2):
    return [
        Example({"caption": f"{n} TOK", "picture": gradient_bar(n % 2)}, 0) for n in range(count)
    ]


def recipe_of(runner, **more):
    values = {"max_steps": 3, "learning_rate": 0.02, "rank": 4} | more
    return replace(runner.task.recipe, **values)


def drawn(runner, adapter=None, **options):
    return runner.predict([PROMPT], adapter, options=replace(OPTIONS, **options))[0]


@pytest.mark.parametrize("kind", WRITERS)
def test_what_is_drawn_is_what_diffusers_draws_over_all_steps(runners, folders, kind):
    loaded = pipeline_of(folders(kind))
    steps = by_diffusers(loaded)
    assert len(steps) == OPTIONS.steps
    for count in (1, 2, OPTIONS.steps):  # a run of fewer steps ends elsewhere
        options = replace(OPTIONS, steps=count)
        expected = steps[-1] if count == OPTIONS.steps else by_diffusers(loaded, options)[-1]
        found = drawn(runners(kind), steps=count)
        assert np.abs(found - expected.numpy()).max() < 1e-4


@pytest.mark.parametrize("kind", ["flux", "sd3"])
def test_an_adapter_draws_the_same_in_diffusers(runners, folders, tmp_path, kind):
    runner = runners(kind)
    adapter = runner.adapt(examples(), recipe_of(runner)).adapter
    content, _ = runner.files.write(adapter, "diffusers")
    (tmp_path / "pytorch_lora_weights.safetensors").write_bytes(content)
    loaded = pipeline_of(folders(kind))
    plain = by_diffusers(loaded)
    loaded.load_lora_weights(tmp_path)
    theirs = by_diffusers(loaded)
    found = drawn(runner, adapter)
    assert np.abs(found - theirs[-1].numpy()).max() < 1e-4
    assert (theirs[-1] - plain[-1]).abs().max() > 0.01


@pytest.mark.parametrize("kind", ["flux", "sd3"])
@pytest.mark.parametrize("alpha", [4, 2])
def test_what_diffusers_trains_draws_the_same_here(runners, folders, tmp_path, kind, alpha):
    """The file is made as diffusers' own scripts make it: peft's pairs, saved by the pipeline."""
    loaded = pipeline_of(folders(kind))
    torch.manual_seed(1)
    names = ["to_k", "to_q", "to_v", "to_out.0", "add_k_proj", "add_q_proj", "add_v_proj"]
    config = peft.LoraConfig(
        r=4, lora_alpha=alpha, init_lora_weights=False, target_modules=[*names, "to_add_out"]
    )
    loaded.transformer.add_adapter(config)
    theirs = by_diffusers(loaded)
    collated = diffusers.training_utils._collate_lora_metadata({"transformer": loaded.transformer})
    type(loaded).save_lora_weights(
        tmp_path,
        transformer_lora_layers=peft.get_peft_model_state_dict(loaded.transformer),
        **collated,
    )
    runner = runners(kind)
    adapter = runner.files.read(tmp_path / "pytorch_lora_weights.safetensors")
    assert np.abs(drawn(runner, adapter) - theirs[-1].numpy()).max() < 1e-4
    assert np.abs(drawn(runner) - theirs[-1].numpy()).max() > 0.01


@pytest.mark.parametrize("kind", WRITERS)
def test_the_self_test_passes(runners, kind):
    assert runners(kind).self_test().passed


@pytest.mark.parametrize("kind", ["flux", "sd3"])
def test_pictures_are_learned_again_bit_for_bit(runners, kind):
    runner = runners(kind)
    recipe = recipe_of(runner, max_steps=20, batch_size=2, repeats=2)
    adaptation, again = (runner.adapt(examples(), recipe) for _ in range(2))
    losses = [step.loss for step in adaptation.report.steps]
    assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])
    assert adaptation.adapter.id == again.adapter.id


def test_pictures_of_several_adapters_and_sizes_are_drawn_as_alone(runners):
    runner = runners("flux")
    adapters = [runner.adapt(examples(), recipe_of(runner, seed=n)).adapter for n in range(2)]
    asked = [(None, 32, 2), (adapters[0], 32, 2), (adapters[1], 32, 3), (adapters[0], 48, 2)]
    queries = [
        Query([PROMPT], a, options=replace(OPTIONS, width=width, steps=steps, seed=n))
        for n, (a, width, steps) in enumerate(asked)
    ]
    alone = [asyncio.run(runner.predict_async(query))[0] for query in queries]

    async def together():
        return await asyncio.gather(*(runner.predict_async(query) for query in queries))

    for _ in range(2):  # the first shared forward is compared with each adapter's own
        for (found,), expected in zip(asyncio.run(together()), alone, strict=True):
            assert found.shape == expected.shape
            assert np.abs(found - expected).max() < 1e-4


def test_guidance_is_away_from_the_empty_text(runners):
    weights = [drawn(runners("sd3"), guidance=weight, steps=4) for weight in (0.0, 1.0, 4.0)]
    away = [np.abs(each - weights[0]).mean() for each in weights]
    assert 0 < away[1] < away[2]


@pytest.mark.parametrize("form", ["png", "webp", "jpg"])
def test_previews_come_before_the_picture(runners, form):
    options = replace(OPTIONS, steps=6, previews=2, form=form, width=48)

    async def pieces():
        query = Query([PROMPT], options=options)
        return [each async for each in runners("flux").generate_async(query)]

    found = asyncio.run(pieces())
    images = [Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) for uri in found]
    assert [image.size for image in images] == [(48, 32)] * 3
    assert all(one.tobytes() != other.tobytes() for one, other in pairwise(images))


def test_the_base_paints_class_pictures_that_are_trained_on(runners):
    runner = runners("flux")
    kept = runner.adapt(examples(), recipe_of(runner, extra_examples=2)).adapter
    plain = runner.adapt(examples(), recipe_of(runner)).adapter
    assert kept.id != plain.id
    task, module = runner.task, runner.task.load()
    decoded = [Example(task.decode_input(each.input), 0) for each in examples()]
    with torch.no_grad():
        made = [e for e in task.extra_examples(module, decoded, 3) if e is not None]
    assert [e.input.caption for e in made] == ["0", "1", "0"]
    assert all(e.input.pixels.shape == (3, task.side, task.side) for e in made)


@pytest.mark.parametrize(("height", "width"), [(4096, 32), (32, 2)])
def test_a_size_out_of_bounds_is_refused(runners, height, width):
    with pytest.raises(InputError, match=r"each side is 4 to 2048. Ask for another size"):
        drawn(runners("flux"), height=height, width=width)


@pytest.mark.parametrize("content", [None, {"_class_name": "StableDiffusionPipeline"}])
def test_a_folder_of_another_kind_is_refused_in_words(tmp_path, content):
    if content:
        (tmp_path / "model_index.json").write_text(json.dumps(content))
    with pytest.raises(WeightsError, match=r"this kind takes FluxPipeline and StableDiffusion3"):
        ModelRunner(Folder(str(tmp_path)), RunnerSettings(device="cpu", weights_dir=tmp_path))


def test_model_chooses_the_task(monkeypatch, folders):
    monkeypatch.delenv("MODEL", raising=False)
    assert isinstance(chosen_task(), Letters)
    monkeypatch.setenv("MODEL", folders("flux"))
    assert isinstance(chosen_task(), Folder)
