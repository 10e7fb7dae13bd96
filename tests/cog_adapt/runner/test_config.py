"""Settings and recipes are checked when they are made, and say what is allowed."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from cog_adapt.runner.config import METHODS, Recipe, RunnerSettings
from cog_adapt.runner.errors import ConfigError, InputError


def test_settings_are_read_from_the_environment():
    environment = {
        "DEVICE": "cpu",
        "PRECISION": "bf16",
        "SERVE_MODE": "no_grad",
        "BATCH_SIZE": "7",
        "SERVED_ADAPTERS": "3",
        "WEIGHTS_DIR": "/tmp/w",
        "ADAPTER_MEMORY_BYTES": "10",
        "ADAPTER_OWNER_MEMORY_BYTES": "11",
        "ADAPTER_DISK_BYTES": "12",
        "ADAPTER_OWNER_DISK_BYTES": "13",
        "ADAPTER_DAYS": "14",
        "ADAPTER_STORE": "s3://bucket/folder",
        "SERVED_ADAPTER_BYTES": "15",
        "CHECKPOINT_DAYS": "2",
        "CHECKPOINT_BYTES": "9",
        "CHECKPOINT_OWNER_BYTES": "4",
        "ADAPTATION_MEMORY_BYTES": "5",
        "DETERMINISTIC": "1",
        "COMPILE_BLOCKS": "1",
    }
    assert RunnerSettings.from_environment(environment) == RunnerSettings(
        device="cpu",
        precision="bf16",
        serve_mode="no_grad",
        batch_size=7,
        served_adapters=3,
        weights_dir=Path("/tmp/w"),
        adapter_memory_bytes=10,
        adapter_owner_memory_bytes=11,
        adapter_disk_bytes=12,
        adapter_owner_disk_bytes=13,
        adapter_days=14,
        adapter_store="s3://bucket/folder",
        served_adapter_bytes=15,
        checkpoint_days=2,
        checkpoint_bytes=9,
        checkpoint_owner_bytes=4,
        adaptation_memory_bytes=5,
        deterministic=True,
        compile_blocks=True,
    )
    assert not RunnerSettings.from_environment({"DETERMINISTIC": "0"}).deterministic


def test_what_is_absent_or_empty_keeps_its_default():
    assert RunnerSettings.from_environment({"DEVICE": ""}) == RunnerSettings()


def test_settings_that_a_program_makes_take_nothing_from_the_environment(monkeypatch):
    monkeypatch.setenv("BATCH_SIZE", "7")
    assert RunnerSettings().batch_size == 32
    assert RunnerSettings.from_environment().batch_size == 7


def test_every_wrong_setting_is_named_at_once_and_an_unknown_one_too():
    with pytest.raises(ConfigError, match=r"DEVICE is 'gpu'.*\n.*BATCH_SIZE is 0"):
        RunnerSettings(device="gpu", batch_size=0)
    unknown: dict[str, Any] = {"devise": "cpu"}
    with pytest.raises(ConfigError, match=r"DEVISE is no setting; docs/settings\.md lists"):
        RunnerSettings(**unknown)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COMPILE_BLOCKS", "yes"),
        ("COMPILE_BLOCKS", "true"),
        ("RECEIPT_KEY", "/no/such/file"),
        ("BATCH_SIZE", "1_000"),
        ("BATCH_SIZE", "1.0"),
        ("DEVICE", "gpu"),
        ("DEVICE", "cuda:x"),
        ("DEVICE", "CPU"),
        ("PRECISION", "fp8"),
        ("SERVE_MODE", "train"),
        ("BATCH_SIZE", "0"),
        ("BATCH_SIZE", "many"),
        ("BATCH_SIZE", "1.5"),
        ("SERVED_ADAPTERS", "-1"),
        ("SERVED_ADAPTER_BYTES", "-1"),
        ("ADAPTER_MEMORY_BYTES", "much"),
        ("ADAPTER_OWNER_MEMORY_BYTES", "-1"),
        ("ADAPTER_DISK_BYTES", "1.5"),
        ("ADAPTER_OWNER_DISK_BYTES", "-1"),
        ("ADAPTER_DAYS", "-1"),
        ("ADAPTER_STORE", "bucket"),
        ("DETERMINISTIC", "yes"),
        ("SELF_TEST", "no"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(name, value):
    with pytest.raises(ConfigError, match=rf"{name} is .*; allowed: .*environment"):
        RunnerSettings.from_environment({name: value})


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("many", "'many'"),
        ("1.5", "'1.5'"),
        ("1e3", "'1e3'"),
        ("9" * 5_000, "'9{199}… of 5,002 characters"),
    ],
)
def test_what_is_no_whole_number_is_named_as_it_was_set(value, shown):
    with pytest.raises(ConfigError, match=f"BATCH_SIZE is {shown}; allowed: whole number"):
        RunnerSettings.from_environment({"BATCH_SIZE": value})


@pytest.mark.parametrize(
    "method", [*METHODS, "match:*", "match:encoder.[01].*,*.bias", "match:[!a]?"]
)
def test_every_method_makes_a_recipe(method):
    assert Recipe(method).method == method


@pytest.mark.parametrize("method", ["full", "LORA", "match", "matches:.*"])
def test_an_unknown_method_is_refused(method):
    with pytest.raises(InputError, match=rf"method is '{method}'; allowed: auto, lora, head"):
        Recipe(method)


@pytest.mark.parametrize(
    "globs", ["(", ".*", "fc.+", "a|b", "a{2}", "", "a,,b", "a\nb", "[", "[]", r"\w", "^a$", "a,.*"]
)
def test_an_expression_is_refused_and_told_what_a_glob_is(globs):
    with pytest.raises(InputError, match="no regular expression: \\* stands for any characters"):
        Recipe(f"match:{globs}")


def test_a_long_pattern_is_refused_and_not_shown():
    Recipe(f"match:{'a' * 200}")
    with pytest.raises(InputError, match="1,000,000 characters .* the limit is 200") as caught:
        Recipe(f"match:{'a' * 1_000_000}")
    assert len(str(caught.value)) < 200
    with pytest.raises(InputError) as caught:
        Recipe("x" * 1_000_000)
    assert len(str(caught.value)) < 300


NAN = float("nan")
BOUNDS: dict[str, tuple[Any, Any, list[Any]]] = {
    "rank": (0, 1024, [-1, 1025, NAN, True]),
    "max_steps": (1, 100_000, [0, -1, 100_001]),
    "batch_size": (1, 4096, [0, 4097]),
    "blocks": (0, 10_000, [-1, 10_001]),
    "seed": (0, 2**63 - 1, [-1, 2**63]),
    "hold_out": (0.0, 0.5, [-0.1, 0.6, NAN]),
    "weight_decay": (0.0, 1.0, [-1.0, 2.0]),
    "learning_rate": (1e-8, 1.0, [-0.1, 1e-9, 2.0, NAN, float("inf")]),
    "budget_seconds": (0.001, 86_400.0, [0.0, -1.0, NAN, 1e9]),
    "clip_norm": (1e-6, 1e6, [0.0, NAN, float("inf")]),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_number_at_its_bounds_is_taken_and_beyond_them_refused(name):
    low, high, refused = BOUNDS[name]
    for value in (low, high):
        assert getattr(Recipe(**{name: value}), name) == value
    for value in refused:
        with pytest.raises(InputError, match=rf"{name} is .*; allowed: {low} to {high}"):
            Recipe(**{name: value})


def test_values_are_frozen():
    recipe, settings = Recipe(), RunnerSettings()
    with pytest.raises(dataclasses.FrozenInstanceError):
        recipe.rank = 2  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        settings.device = "cpu"


@pytest.mark.parametrize("name", ["BATCH_SIZE", "SERVED_ADAPTERS", "CHECKPOINT_DAYS"])
def test_one_is_the_least_of_what_is_counted(name):
    settings = RunnerSettings.from_environment({name: "1"})
    assert getattr(settings, name.lower()) == 1
    with pytest.raises(ConfigError, match=f"{name} is 0"):
        RunnerSettings.from_environment({name: "0"})


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:0", "cuda:12"])
def test_every_form_of_device_is_taken(device):
    assert RunnerSettings(device=device).device == device
