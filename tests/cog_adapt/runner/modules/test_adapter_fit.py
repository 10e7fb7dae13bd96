"""An adapter that does not belong to the model is refused, whatever is wrong with it."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from cog_adapt.runner.errors import WeightsError
from cog_adapt.runner.modules.adapter_fit import check_fits
from cog_adapt.runner.modules.adapters import Adapter

BASE = "0123456789abcdef"
HEAD = r"head\..*"


@pytest.fixture
def template():
    parts = {"query": nn.Linear(4, 6), "norm": nn.BatchNorm1d(6), "head": nn.Linear(6, 1)}
    template = nn.ModuleDict(parts)
    template.ids = nn.Parameter(torch.tensor([0]), requires_grad=False)
    return template


@pytest.fixture
def adapter():
    tensors = {
        "query.lora_a": torch.ones(2, 4),
        "query.lora_b": torch.zeros(6, 2),
        "norm.weight": torch.ones(6),
        "head.weight": torch.ones(3, 6),
        "head.bias": torch.ones(3),
    }
    return Adapter(tensors, ("a", "b", "c"), "lora", BASE)


def test_an_adapter_of_this_base_fits(adapter, template):
    check_fits(adapter, BASE, template, HEAD)


def test_finite_values_whose_sum_is_not_finite_are_used(adapter, template):
    large = {**adapter.tensors, "head.bias": torch.full((3,), 3e38)}
    check_fits(replace(adapter, tensors=large), BASE, template, HEAD)


def test_a_head_may_join_a_model_that_has_none(adapter, template):
    extra = {**adapter.tensors, "norm.head": torch.ones(3, 2)}
    check_fits(replace(adapter, tensors=extra), BASE, template, rf"{HEAD}|norm\.head")


def test_an_adapter_of_another_base_is_refused(adapter, template):
    with pytest.raises(WeightsError, match=f"was made on base {BASE}, and this is base ffff"):
        check_fits(adapter, "ffff", template, HEAD)


@pytest.mark.parametrize(
    ("name", "tensor", "reason"),
    [
        ("gone.weight", torch.ones(1), "no place"),
        ("norm.forward", torch.ones(1), "no place"),
        ("norm.", torch.ones(1), "no place"),
        ("query.extra", torch.ones(1), "no place"),
        ("gone.lora_a", torch.ones(2, 4), "no linear layer"),
        ("norm.lora_a", torch.ones(2, 6), "no linear layer"),
        ("head.lora_a", torch.ones(2, 6), "lacks the other half"),
        ("query.lora_a", torch.ones(4), "no matrix"),
        ("query.lora_a", torch.ones(2, 5), r"shape \(2, 5\), not \(2, 4\)"),
        ("query.lora_b", torch.ones(5, 2), r"shape"),
        ("query.lora_b", torch.ones(6, 3), r"shape"),
        ("query.lora_a", torch.ones(2, 4, dtype=torch.float64), "float64"),
        ("norm.weight", torch.ones(5), r"shape \(5,\), not \(6,\)"),
        ("norm.weight", torch.ones(6, dtype=torch.float16), "float16"),
        ("norm.weight", torch.ones(6).to(torch.float8_e4m3fn), "float8_e4m3fn"),
        ("norm.num_batches_tracked", torch.tensor(10**9), "is a buffer, which no adaptation"),
        ("norm.running_var", torch.ones(6), "is a buffer, which no adaptation trains"),
        ("ids", torch.tensor([1]), r"is torch.int64 in the model, which no adaptation trains"),
        ("head.weight", torch.ones(2, 6), r"shape \(2, 6\), not \(3, 6\)"),
        ("head.weight", torch.ones(3, 5), r"shape"),
        ("head.bias", torch.tensor([1.0, float("nan"), 0.0]), "not finite"),
        ("head.bias", torch.tensor([1.0, float("inf"), 0.0]), "not finite"),
        ("head.bias", torch.tensor([1.0, float("inf"), -float("inf")]), "not finite"),
    ],
)
def test_a_tensor_that_does_not_fit_is_refused_by_name(adapter, template, name, tensor, reason):
    wrong = replace(adapter, tensors={**adapter.tensors, name: tensor})
    with pytest.raises(WeightsError, match=rf"tensor .* .*{reason}"):
        check_fits(wrong, BASE, template, HEAD)


def test_a_tie_is_known_under_each_of_its_names(adapter, template):
    template["twin"] = nn.Linear(4, 6)
    template["twin"].weight = template["query"].weight
    tensors = {"twin.weight": torch.ones(6, 4)}
    check_fits(replace(adapter, tensors=tensors), BASE, template, HEAD)


def test_spectral_norms_vectors_belong_to_its_weight(adapter, template):
    template["spectral"] = parametrizations.spectral_norm(nn.Linear(4, 6))
    name = "spectral.parametrizations.weight.0._u"
    tensors = {**adapter.tensors, name: torch.ones(6)}
    check_fits(replace(adapter, tensors=tensors), BASE, template, HEAD)
    with pytest.raises(WeightsError, match=r"shape \(5,\), not \(6,\)"):
        check_fits(replace(adapter, tensors={name: torch.ones(5)}), BASE, template, HEAD)


@pytest.fixture
def convolution(template, adapter):
    template["conv"] = nn.Conv2d(4, 6, 3, groups=2)
    pair = {"conv.lora_a": torch.ones(4, 4, 3, 3), "conv.lora_b": torch.ones(6, 2, 1, 1)}
    return replace(adapter, tensors={**adapter.tensors, **pair}, scales={"conv": 0.5})


def test_a_pair_of_a_convolution_fits(convolution, template):
    check_fits(convolution, BASE, template, HEAD)


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ((3, 4, 3, 3), (6, 2, 1, 1), "groups do not divide"),
        ((4, 2, 3, 3), (6, 2, 1, 1), r"shape \(4, 2, 3, 3\), not \(4, 4, 3, 3\)"),
        ((4, 4, 3, 3), (6, 4, 1, 1), r"shape \(6, 4, 1, 1\), not \(6, 2, 1, 1\)"),
        ((4, 4), (6, 2, 1, 1), "no matrix"),
        ((0, 4, 3, 3), (6, 0, 1, 1), "has no entries"),
    ],
)
def test_a_pair_that_does_not_fit_its_convolution_is_refused(convolution, template, a, b, reason):
    pair = {"conv.lora_a": torch.ones(a), "conv.lora_b": torch.ones(b)}
    wrong = replace(convolution, tensors={**convolution.tensors, **pair})
    with pytest.raises(WeightsError, match=rf"conv.lora_. .*{reason}"):
        check_fits(wrong, BASE, template, HEAD)


@pytest.mark.parametrize(
    ("scales", "reason"),
    [
        ({"norm": 1.0}, "the scale of 'norm' belongs to no pair"),
        ({"query": float("nan")}, "the scale of 'query' is nan"),
        ({"query": 1e9}, "the scale of 'query' is 1000000000.0; it is a number up to 1,000,000"),
        ({"query": "2"}, "the scale of 'query' is '2'"),
    ],
)
def test_a_scale_that_is_no_number_of_a_pair_is_refused(adapter, template, scales, reason):
    with pytest.raises(WeightsError, match=reason):
        check_fits(replace(adapter, scales=scales), BASE, template, HEAD)
