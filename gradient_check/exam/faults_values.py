"""Faults of values and modes: roots at zero, hooks, recomputation, what inference keeps."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gradient_check.exam.case import Case, Questions, numbers, off_target, rows
from gradient_check.exam.faults_wrappers import Two

questions = Questions("faults")
SERIES, TABLE = rows(3, 6, 4), rows(6, 5)
PICTURES, IDS = rows(2, 3, 8, 8), numbers(12, 3, 6)


@questions.fault("grad-nonfinite")
def singular_vectors_of_equal_values() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.leave = nn.Parameter(torch.ones(())), nn.Linear(4, 2)

        def forward(self, series: Tensor) -> Tensor:
            basis = torch.linalg.svd(self.scale * torch.eye(4) + 0 * series[0, :4])[0]  # fault
            return self.leave(series.mean(1) @ basis)

    return Case(Net(), SERIES)


@questions.fault("grad-nonfinite")
def a_masked_row_is_divided_by_its_zero_sum() -> Case:
    class Net(Two):
        def middle(self, values: Tensor) -> Tensor:
            values = values * (torch.arange(6) > 0)[:, None]
            shares = values / values.sum(1, keepdim=True)  # fault
            return torch.where(torch.isfinite(shares), shares, 0.0)

    return Case(Net(), TABLE)


@questions.fault("gradient-wrong")
def a_recomputation_sees_other_weights() -> Case:
    class Doubling(Function):
        @staticmethod
        def forward(context: Any, values: Tensor) -> Tensor:
            context.save_for_backward(values)
            return values.square()

        @staticmethod
        def backward(context: Any, *gradients: Tensor) -> Tensor:  # fault
            return gradients[0] * context.saved_tensors[0]

    class Net(Two):
        def middle(self, values: Tensor) -> Tensor:
            return checkpoint(Doubling.apply, values, use_reentrant=False)

    return Case(Net(), TABLE)


@questions.fault("gradient-wrong")
def a_module_hook_of_the_full_backward_scales() -> Case:
    def scale(part: nn.Module, into: Any, out: Any) -> Any:  # fault
        return tuple(None if g is None else 0.5 * g for g in into)

    module = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    module[1].register_full_backward_hook(scale)
    return Case(module, TABLE)


@questions.fault("backward")
def a_relu_in_place_on_a_saved_sigmoid() -> Case:
    class Net(Two):
        def middle(self, values: Tensor) -> Tensor:
            gate = values.sigmoid()
            return gate * gate.clamp_(min=0.5)  # fault

    return Case(Net(), TABLE)


@questions.fault("graph-cut", "no-gradient")
def attention_is_taken_under_inference_mode_and_cloned() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention, self.leave = (
                nn.MultiheadAttention(4, 2, batch_first=True),
                nn.Linear(4, 2),
            )

        def forward(self, series: Tensor) -> Tensor:
            with torch.inference_mode():  # fault
                states = self.attention(series, series, series)[0]
            return self.leave(states.clone())

    return Case(Net(), SERIES)


@questions.fault("graph-cut", "no-gradient")
def words_are_chosen_and_looked_up_again() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.mix, self.out = nn.Embedding(12, 4), nn.Linear(4, 12), nn.Linear(4, 2)

        def forward(self, ids: Tensor) -> Tensor:
            chosen = self.mix(self.words(ids)).argmax(-1)  # fault
            return self.out(self.words(chosen)).mean(1)

    return Case(Net(), IDS)


@questions.fault("train-forward")
def a_table_is_memoised_by_inference_in_a_closure() -> Case:
    kept: dict[int, Tensor] = {}

    class Net(Two):
        def middle(self, values: Tensor) -> Tensor:
            if len(values) not in kept:
                kept[len(values)] = torch.arange(8.0).cos()  # fault
            return values * kept[len(values)] + values

    return Case(Net(), TABLE)


@questions.fault("loss-shape", "no-gradient", "train-forward", "graph-cut")
def the_loss_is_a_metric_of_numpy() -> Case:
    def loss(output: Tensor) -> Tensor:
        error = output.detach().numpy() - 0.25  # fault
        return torch.as_tensor((error**2).mean(1))

    return Case(Two(), TABLE, loss)


@questions.fault("serve-differs")
def a_merged_weight_answers_inference() -> Case:
    class Net(Two):
        def __init__(self) -> None:
            super().__init__()
            weight = self.leave.weight.detach() @ self.enter.weight.detach()
            self.register_buffer("merged", weight)

        def forward(self, table: Tensor) -> Tensor:
            if not torch.is_grad_enabled():
                bias = self.leave(self.enter.bias)
                return F.linear(table, self.get_buffer("merged"), bias)  # fault
            return super().forward(table)

    return Case(Net(), TABLE)


@questions.fault("gradient-wrong")
def an_own_rms_norm_detaches_its_scale() -> Case:
    class Net(Two):
        def middle(self, values: Tensor) -> Tensor:
            scale = values.square().mean(-1, keepdim=True).rsqrt().detach()  # fault
            return values * scale

    return Case(Net(), TABLE, off_target)
