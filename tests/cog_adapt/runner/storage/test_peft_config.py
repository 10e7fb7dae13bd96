"""PEFT's config is read with care: plain LoRA only, and names of layers, never expressions."""

import json

import pytest

from cog_adapt.runner.errors import InputError
from cog_adapt.runner.storage.peft_config import read_config, read_scales, written_config


def config_of(**values):
    return read_config(json.dumps({"peft_type": "LORA", **values}).encode())


def test_what_is_written_is_read_with_the_same_scales():
    ranks = {"a.b": 3, "b": 3, "x.a.b": 7, "c-d": 1}
    scales = {"a.b": 2.0, "b": 1 / 3, "x.a.b": 0.1, "c-d": 5 / 7}
    config = written_config(ranks, scales, ["head"])
    assert read_scales(config_of(**config), ranks) == scales
    assert (config["r"], config["modules_to_save"]) == (3, ["head"])
    assert set(config["rank_pattern"]) == {r"^x\.a\.b", r"^c\-d"}


def test_an_adapter_without_pairs_has_a_config():
    config = written_config({}, {}, ["head"])
    assert (config["target_modules"], config["r"]) == ("dummy-target-modules", 8)


def test_an_alpha_is_the_first_patterns_that_fits_else_the_usual():
    config = config_of(lora_alpha=4, alpha_pattern={"b": 6, "a.b": 8})
    assert read_scales(config, {"a.b": 2, "x.b": 2, "xb": 2, "b": 2}) == {
        "a.b": 3.0,
        "x.b": 3.0,
        "xb": 2.0,
        "b": 3.0,
    }
    assert read_scales(config_of(lora_alpha=4, use_rslora=True), {"a": 4}) == {"a": 2.0}


@pytest.mark.parametrize("content", [b"", b"\xff", b"[" * 100_000, b"[1]", b"{}", b'"x"'])
def test_what_is_no_config_is_refused(content):
    with pytest.raises(InputError, match=r"is no JSON|peft_type is None"):
        read_config(content)


@pytest.mark.parametrize(
    "values",
    [
        {"use_dora": True},
        {"bias": "all"},
        {"lora_bias": True},
        {"fan_in_fan_out": True},
        {"trainable_token_indices": [1]},
        {"layer_replication": [[0, 1]]},
    ],
)
def test_more_than_plain_lora_is_refused_by_its_name(values):
    with pytest.raises(InputError, match=f"sets {next(iter(values))}; only plain LoRA is taken"):
        config_of(**values)
    with pytest.raises(InputError, match="peft_type is 'IA3'; only 'LORA'"):
        config_of(peft_type="IA3")


@pytest.mark.parametrize("pattern", ["(a+)+$", ".*", "a|b", "", "a b", "^", "x" * 5 + "?"])
def test_an_expression_is_refused(pattern):
    with pytest.raises(InputError, match="only names of layers are taken"):
        read_scales(config_of(alpha_pattern={pattern: 1}), {"a": 1})


@pytest.mark.parametrize("alpha", ["x", None, [], float("nan"), float("inf"), 10**400])
def test_an_alpha_that_is_no_number_is_refused(alpha):
    with pytest.raises(InputError, match=r"the lora_alpha of a is .*; it is a number up to"):
        read_scales(config_of(lora_alpha=alpha), {"a": 1})


def test_patterns_are_an_object_of_bounded_size():
    for patterns in ([1], {str(number): 1 for number in range(10_001)}):
        with pytest.raises(InputError, match="alpha_pattern is no object of at most 10,000"):
            read_scales(config_of(alpha_pattern=patterns), {"a": 1})
