"""What a runner knows of its adaptations goes with what it came from."""

import pytest
import torch

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.errors import ConfigError
from cog_adapt.runner.known.adaptation_cache import AdaptationCache
from cog_adapt.runner.storage.store import AdapterStore
from tests.cog_adapt.models import Letters
from tests.cog_adapt.runner.asking import Asker


@pytest.fixture
def store(tmp_path):
    return AdapterStore(tmp_path)


def test_the_model_and_the_task_are_its_origin(store):
    one, other = (
        AdaptationCache(Letters(), model, RunnerSettings(), store) for model in ("a", "b")
    )
    assert one.origin != other.origin
    for each in (one, other):
        assert each.signer is None
        each.close()


def test_features_go_with_the_adapter_that_brought_them(make_runner):
    runner = make_runner(Letters())
    features = runner.cache.kept.features
    done = Asker(runner).now()
    features.put("", ["a"], [torch.zeros(2)])
    features.bring("", ["a"], done.adapter)
    assert runner.gauges()["feature_cache_bytes"] > 8  # with its examples' encoded rows
    runner.adapters.remove("", done.adapter)
    assert features.get("", ["a"]) == [None]
    assert runner.gauges()["feature_cache_bytes"] == 0


def test_a_key_that_is_no_key_ends_the_setup(tmp_path, store):
    (tmp_path / "key.pem").write_text("no key")
    with pytest.raises(ConfigError, match="RECEIPT_KEY is .*key.pem"):
        AdaptationCache(
            Letters(), "a", RunnerSettings(receipt_key=str(tmp_path / "key.pem")), store
        )
