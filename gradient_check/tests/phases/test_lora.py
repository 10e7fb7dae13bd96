"""LoRA is peft's LoRA with alpha = 2 r: the same numbers, forward and backward."""

import pytest
import torch
from torch import nn

from gradient_check.phases.lora import (
    LORA_A,
    LORA_B,
    LoRALinear,
    lora_tensors,
    pair_shapes,
    wrap_layer,
)

peft = pytest.importorskip("peft", reason="peft is not installed")

RANK = 3


def linear(bias=True):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Linear(8, 5, bias=bias).requires_grad_(False)


def convolution(kind, groups=1):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind(4, 6, 3, stride=2, padding=1, groups=groups).requires_grad_(False)


def ours(layer, a, b, scale=2.0):
    wrap_layer(layer, scale)
    layer.register_parameter(LORA_A, nn.Parameter(a.clone()))
    layer.register_parameter(LORA_B, nn.Parameter(b.clone()))
    return layer


def theirs(layer, a, b, scale=2.0):
    rank, alpha = len(a), scale * len(a)
    config = peft.LoraConfig(r=rank, lora_alpha=alpha, target_modules=["0"], lora_dropout=0.0)
    model = peft.get_peft_model(nn.Sequential(layer), config)
    adapted = model.base_model.model[0]
    with torch.no_grad():
        adapted.lora_A["default"].weight.copy_(a)
        adapted.lora_B["default"].weight.copy_(b)
    return adapted


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("leading", [(), (4,), (2, 4)])
def test_the_same_pair_gives_the_same_output_and_gradients_as_peft(bias, leading):
    draw = torch.Generator().manual_seed(1)
    a = torch.randn(RANK, 8, generator=draw)
    b = torch.randn(5, RANK, generator=draw)
    one, other = ours(linear(bias), a, b), theirs(linear(bias), a, b)
    x = torch.randn(*leading, 8, generator=draw)
    x_ours, x_theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    y_ours, y_theirs = one(x_ours), other(x_theirs)
    torch.testing.assert_close(y_ours, y_theirs)
    y_ours.square().sum().backward()
    y_theirs.square().sum().backward()
    torch.testing.assert_close(one.lora_a.grad, other.lora_A["default"].weight.grad)
    torch.testing.assert_close(one.lora_b.grad, other.lora_B["default"].weight.grad)
    torch.testing.assert_close(x_ours.grad, x_theirs.grad)
    assert one.weight.grad is None


@pytest.mark.filterwarnings("ignore:LoRA adapter added to ConvNd layer with groups")
@pytest.mark.parametrize("scale", [2.0, 0.5])
@pytest.mark.parametrize(("kind", "groups"), [(nn.Conv1d, 1), (nn.Conv2d, 2), (nn.Conv3d, 1)])
def test_a_convolution_with_a_pair_gives_the_output_and_gradients_of_peft(kind, groups, scale):
    draw = torch.Generator().manual_seed(1)
    shapes = pair_shapes(convolution(kind, groups), 4)
    assert shapes is not None
    a, b = (torch.randn(shape, generator=draw) for shape in shapes)
    one = ours(convolution(kind, groups), a, b, scale)
    other = theirs(convolution(kind, groups), a, b, scale)
    x = torch.randn(2, 4, *(5,) * len(one.kernel_size), generator=draw)
    y_ours, y_theirs = one(x), other(x)
    torch.testing.assert_close(y_ours, y_theirs)
    y_ours.square().sum().backward()
    y_theirs.square().sum().backward()
    torch.testing.assert_close(one.lora_a.grad, other.lora_A["default"].weight.grad)
    torch.testing.assert_close(one.lora_b.grad, other.lora_B["default"].weight.grad)


def test_only_the_layers_of_torch_itself_can_have_a_pair_of_a_rank_that_fits_their_groups():
    class Own(nn.Linear):
        pass

    assert pair_shapes(linear(), RANK) == ((RANK, 8), (5, RANK))
    assert pair_shapes(convolution(nn.Conv2d, 2), 4) == ((4, 4, 3, 3), (6, 2, 1, 1))
    assert pair_shapes(convolution(nn.Conv2d, 2), RANK) is None
    assert pair_shapes(Own(8, 5), RANK) is None
    assert pair_shapes(nn.ConvTranspose2d(4, 6, 3), RANK) is None
    assert pair_shapes(None, RANK) is None


def test_a_fresh_pair_changes_no_bit_of_the_output():
    layer = linear()
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    before = layer(x)
    pair = lora_tensors(layer, RANK, torch.Generator().manual_seed(0))
    assert pair[LORA_A].shape == (RANK, 8)
    assert pair[LORA_B].shape == (5, RANK)
    assert torch.equal(ours(layer, pair[LORA_A], pair[LORA_B])(x), before)


def test_a_pair_is_drawn_from_the_generator_and_as_peft_draws_it():
    first, second = (lora_tensors(linear(), RANK, torch.Generator().manual_seed(4)) for _ in "ab")
    assert torch.equal(first[LORA_A], second[LORA_A])
    bound = 1 / 8**0.5  # kaiming_uniform with a = sqrt(5)
    assert first[LORA_A].abs().max() <= bound
    assert first[LORA_A].abs().max() > 0.5 * bound


def test_drawing_leaves_the_processs_stream_alone():
    before = torch.get_rng_state()
    lora_tensors(linear(), RANK, torch.Generator().manual_seed(4))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_bfloat16_layer_answers_in_bfloat16_and_its_pair_trains_in_float32():
    layer = linear().bfloat16()
    pair = lora_tensors(layer, RANK, torch.Generator().manual_seed(0))
    assert {t.dtype for t in pair.values()} == {torch.float32}
    adapted = ours(layer, pair[LORA_A], torch.ones(5, RANK))
    out = adapted(torch.ones(2, 8, dtype=torch.bfloat16))
    assert out.dtype is torch.bfloat16
    out.float().sum().backward()
    assert adapted.lora_a.grad.dtype is torch.float32


def test_wrapping_keeps_names_and_weights_and_may_be_done_twice():
    layer = linear()
    weight = layer.weight
    wrap_layer(layer)
    wrap_layer(layer)
    assert type(layer) is LoRALinear
    assert layer.weight is weight
    assert set(dict(layer.named_parameters())) == {"weight", "bias"}
