"""Models of pictures on the device, in bfloat16: they learn, draw, and pass the self-test."""

import pytest

from cog_adapt import Example, ModelRunner, RunnerSettings

pytest.importorskip("diffusers", reason="diffusers is not installed")
pytest.importorskip("examples.diffusion", reason="this repository has no model of pictures")


@pytest.fixture(params=["letters", "flux", "sd3"])
def task(request, tmp_path, device):
    """Tasks of the kind, and an example of each."""
    from examples.diffusion.folder import Folder
    from examples.diffusion.letters import PROBE
    from examples.diffusion.photos import gradient_bar
    from examples.diffusion.task import Letters
    from examples.diffusion.tests.tiny_folder import write_flux, write_sd3

    if request.param == "letters":
        return Letters(), Example(PROBE[0], "TOK"), "I", {}
    {"flux": write_flux, "sd3": write_sd3}[request.param](tmp_path / "folder")
    example = Example({"caption": "a TOK", "picture": gradient_bar(0)}, 0)
    return Folder(str(tmp_path / "folder"), 32), example, "a TOK", {"height": 32, "width": 32}


def test_it_learns_draws_and_passes_the_self_test(task, tmp_path):
    from examples.diffusion.drawing import chosen

    model, example, prompt, size = task
    settings = RunnerSettings(device="cuda", weights_dir=tmp_path / "weights")
    with ModelRunner(model, settings) as runner:
        assert str(runner.precision) == "cuda:0/bf16"
        report = runner.self_test()
        assert report.passed, report.reports
        recipe = chosen(model.recipe, max_steps=2, rank=2)
        adapter = runner.adapt([example], recipe).adapter
        options = chosen(model.options, steps=2, **size)
        plain, learned = (runner.predict([prompt], a, options=options) for a in (None, adapter))
    assert plain[0].startswith("data:image/png")
    assert plain != learned


def test_frozen_text_encoders_stay_on_the_cpu_where_that_is_asked(task, tmp_path, monkeypatch):
    from examples.diffusion.drawing import chosen

    model, example, prompt, size = task
    if not size:
        pytest.skip("letters have no text encoder")
    monkeypatch.setenv("TEXT_ENCODERS", "cpu")
    places = {n: p.device.type for n, p in model.load().to("cuda").named_parameters()}
    assert {place for n, place in places.items() if n.startswith("text_encoder")} == {"cpu"}
    assert {place for n, place in places.items() if not n.startswith("text_encoder")} == {"cuda"}
    settings = RunnerSettings(device="cuda", weights_dir=tmp_path / "weights")
    with ModelRunner(model, settings) as runner:
        report = runner.self_test()
        assert report.passed, report.reports
        adapter = runner.adapt([example], chosen(model.recipe, max_steps=2, rank=2)).adapter
        options = chosen(model.options, steps=2, **size)
        drawn = runner.predict([prompt], adapter, options=options)
    assert drawn[0].startswith("data:image/png")
