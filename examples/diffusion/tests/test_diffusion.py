"""Letters on the packaged weights: what is learned and drawn, and what is refused."""

import asyncio
import base64
import io
import tarfile
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load

from cog_adapt import (
    Example,
    InputError,
    ModelRunner,
    Query,
    Recipe,
    Request,
    stream,
)
from examples.diffusion.drawing import EMPHASIS, NOISE, DrawOptions
from examples.diffusion.letters import TRIGGER, letters_of
from examples.diffusion.network import LETTERS
from examples.diffusion.tars import packed, unpacked
from examples.diffusion.task import Letters
from examples.diffusion.tests.pictures_of_letters import bar, settings_in, uri

FEW = Recipe(max_steps=2, batch_size=8, repeats=2, learning_rate=1e-3)
RAW = DrawOptions(steps=2, form="raw")


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    settings = settings_in(tmp_path_factory.mktemp("weights"))
    with ModelRunner(Letters(), settings) as runner:
        yield runner


def examples(width):
    return [Example({"letter": letter, "picture": bar(width)}, TRIGGER) for letter in "Il1"]


def test_the_self_test_passes(runner):
    assert runner.self_test().passed


def test_a_style_is_learned_and_drawn_and_repeats_bit_for_bit(runner):
    thick, again = (runner.adapt(examples(9), FEW).adapter for _ in range(2))
    assert thick.id == again.id
    thin = runner.adapt(examples(2), FEW).adapter
    drawn = [runner.predict(["Il"], each, options=RAW)[0] for each in (thick, again, thin)]
    assert (drawn[0] == drawn[1]).all()
    assert drawn[0].shape == (2, 32, 32)
    assert drawn[0].mean() > 1.5 * drawn[2].mean()
    (other,) = runner.predict(["Il"], thick, options=DrawOptions(steps=2, form="raw", seed=1))
    assert (drawn[0] != other).any()


def test_texts_of_several_adapters_share_a_forward_and_get_what_they_get_alone(runner):
    made = [runner.adapt(examples(width), FEW).adapter for width in (2, 5, 9)]
    texts = ("Hb", "a", "Xyz")
    alone = [runner.predict([t], a, options=RAW)[0] for t, a in zip(texts, made, strict=True)]

    async def together():
        asked = (Query([t], a, options=RAW) for t, a in zip(texts, made, strict=True))
        return await asyncio.gather(*(runner.predict_async(query) for query in asked))

    for _ in range(2):  # the first shared forward is compared with each adapter's own
        for (drawn,), expected in zip(asyncio.run(together()), alone, strict=True):
            assert np.abs(drawn.astype(int) - expected).max() <= 1


def test_the_base_draws_without_examples_and_guidance_moves_away_from_no_style(runner):
    (plain,) = runner.predict(["A"], options=RAW)
    adapter = runner.adapt(examples(9), FEW).adapter
    drawn = [
        runner.predict(["A"], adapter, options=DrawOptions(steps=2, form="raw", guidance=weight))[0]
        for weight in (0.0, 1.0, 2.0)
    ]
    away = [np.abs(each.astype(int) - drawn[0]).mean() for each in drawn]
    assert plain.shape == (1, 32, 32)
    assert 0 < away[1] < away[2]


@pytest.mark.parametrize("format", ["diffusers", "kohya"])
def test_a_file_of_another_program_draws_what_the_adapter_draws(runner, tmp_path, format):
    made = runner.adapt(examples(9), FEW).adapter
    content, _ = runner.files.write(made, format)
    path = tmp_path / "lora.safetensors"
    path.write_bytes(content)
    (ours,), (theirs,), (plain,) = (
        runner.predict(["Hb"], each, options=RAW) for each in (made, runner.files.read(path), None)
    )
    assert np.abs(ours.astype(int) - theirs).max() <= 1
    assert np.abs(ours.astype(int) - plain).max() > 9


def test_diffusers_draws_with_our_file_what_we_draw(runner):
    """The file is read by diffusers' own loader into the transformer of the base."""
    made = runner.adapt(examples(9), FEW).adapter
    tensors = load(runner.files.write(made, "diffusers")[0])
    module = runner.task.load().eval()
    module.transformer.load_lora_adapter(tensors, prefix="transformer")
    style = tensors["style.weight"].view(1, *module.style_shape)
    x = NOISE * torch.randn(2, 1, 32, 32, generator=torch.Generator().manual_seed(3))
    letter, levels = torch.tensor([0, 30]), torch.linspace(1, 0, 13).tolist()
    with torch.inference_mode():
        for sigma, following in pairwise(levels):
            level, tokens = torch.full((2,), sigma), style.expand(2, -1, -1)
            clean = module(x, level, letter, tokens, EMPHASIS)
            x = x + (following - sigma) * (x - clean) / sigma
    options = DrawOptions(steps=12, form="raw", seed=3)
    (drawn,) = runner.predict([LETTERS[0] + LETTERS[30]], made, options=options)
    expected = ((x.squeeze(1).clamp(-1, 1) + 1) * 127.5).round().byte().numpy()
    assert np.abs(drawn.astype(int) - expected).max() <= 1


def test_auto_draws_in_the_style_as_it_is_read_before_any_step(runner, capsys):
    recorded: dict[str, Any] = {}
    scope = SimpleNamespace(context={}, record_metric=recorded.__setitem__)
    given = [{"caption": letter, "image": uri(bar(9))} for letter in "ILilJjTt"]
    recipe = replace(FEW, method="auto", max_steps=4)
    options = DrawOptions(steps=2)
    request = Request(inputs=["Il"], examples=given, recipe=recipe, options=options)

    async def drawn():
        return [piece async for piece in stream(runner, request, scope)]

    (picture,) = asyncio.run(drawn())
    (early,) = recorded["early"]["predictions"]
    rows = [*map(Letters().example, given)]
    read = runner.adapt(rows, replace(FEW, stop_after=0)).adapter
    assert early == runner.predict(["Il"], read, options=options)[0]
    decision = recorded["adaptation.report"]["decision"]
    assert [*decision["candidates"]][:2] == ["start", "head"]
    assert (picture == early) == (decision["chosen"] == "start")
    logged = capsys.readouterr().out
    assert "early" in logged
    assert early not in logged


def test_a_text_is_drawn_while_its_style_is_learned(runner):
    options = DrawOptions(steps=3, seed=4, height=64)
    recipe = replace(FEW, max_steps=4, previews=1)
    given = [{"caption": letter, "image": uri(bar(7))} for letter in "Il1"]
    recorded = []
    scope = SimpleNamespace(context={}, record_metric=lambda *pair: recorded.append(pair))
    request = Request(inputs=["Il"], examples=given, recipe=recipe, options=options)

    async def drawn():
        return [piece async for piece in stream(runner, request, scope)]

    (picture,) = asyncio.run(drawn())
    (shown,) = [value for name, value in recorded if name == "early"]
    rows = [*map(Letters().example, given)]
    half = runner.adapt(rows, replace(FEW, max_steps=4, stop_after=2)).adapter
    assert shown["predictions"] == runner.predict(["Il"], half, options=options) != [picture]
    assert (shown["expected"], shown["step"]) == ("after 2 of 4 steps", 2)


def test_previews_come_before_the_picture(runner):
    options = DrawOptions(steps=6, previews=2, height=64)

    async def pieces():
        return [each async for each in runner.generate_async(Query(["No 7"], options=options))]

    found = asyncio.run(pieces())
    assert len(found) == 3
    sizes = {Image.open(io.BytesIO(base64.b64decode(each.split(",")[1]))).size for each in found}
    assert all(height == 64 for _, height in sizes)


@pytest.mark.parametrize(
    ("text", "height", "width"),
    [
        ("A" + "\n" * 16_000, 128, "x 2,048,000"),
        ("A" + " " * 15_000 + "B", 128, "660,280 x 128"),
        ("Ab", 4096, "x 4,096"),
    ],
)
def test_a_picture_that_would_be_too_large_is_refused_before_any_step(runner, text, height, width):
    with pytest.raises(InputError, match=rf"{width} pixels; the limits are 4,000,000"):
        runner.predict([text], options=DrawOptions(steps=1, height=height))


@pytest.mark.parametrize(
    ("name", "value"),
    [("steps", 0), ("steps", 10**9), ("steps", "x"), ("previews", -1), ("guidance", float("nan"))],
)
def test_options_out_of_bounds_are_refused(name, value):
    with pytest.raises(InputError, match=rf"{name} is .*it lies in \d+ to \d+"):
        DrawOptions(**{name: value})
    with pytest.raises(InputError, match="the format is 'gif'; send one of png"):
        DrawOptions(form="gif")


@pytest.mark.parametrize("form", ["png", "webp", "jpg"])
def test_a_picture_has_the_format_that_is_asked(runner, form):
    (picture,) = runner.predict(["ab\ncd"], options=DrawOptions(steps=1, form=form, height=40))
    head, _, content = picture.partition(",")
    image = Image.open(io.BytesIO(base64.b64decode(content)))
    assert image.format.lower() in head
    assert image.height == 80


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Straße", "the prompt has 'ß', which the base cannot draw"),
        ("", "the prompt has 0 letters"),
        ("a" * 65, "the prompt has 65 letters; give 1 to 64"),
        ("\u202e\u0000", "which the base cannot draw"),
    ],
)
def test_a_text_that_cannot_be_drawn_is_refused(runner, text, said):
    with pytest.raises(InputError, match=said):
        letters_of(text)
    with pytest.raises(InputError):
        runner.predict([text], options=RAW)


def test_a_tar_holds_an_adapter_and_gives_it_back(tmp_path):
    weights = tmp_path / "a.safetensors"
    weights.write_bytes(b"an adapter")
    assert unpacked(packed(b"an adapter")).read_bytes() == b"an adapter"
    assert unpacked(weights) == weights
    with tarfile.open(tmp_path / "b.tar", "w") as archive:
        archive.add(weights, "output/other.safetensors")
    with pytest.raises(InputError, match=r"the .tar has no lora.safetensors"):
        unpacked(tmp_path / "b.tar")
