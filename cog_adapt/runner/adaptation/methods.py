"""The tensors that a recipe's method trains, and their learning rate.

A method gives named start tensors: copies of the base's parameters, or fresh LoRA pairs. This
module knows no examples and takes no steps.
"""

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import replace

from torch import Tensor, nn

from cog_adapt.runner.config import ALL, AUTO, LORA, MATCH_PREFIX, Recipe
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.task.task import Task
from gradient_check.phases.lora import lora_tensors
from gradient_check.phases.randomness import generator
from gradient_check.phases.replicas import is_norm

# at 2,000 columns, from the sweep behind Tinker's rule; the rule's exponent is 0.78
_LORA_RATE = 5e-4
_REFERENCE_WIDTH = 2000
_EXPONENT = 0.78


def start_tensors(template: nn.Module, task: Task, recipe: Recipe) -> dict[str, Tensor]:
    """Return the tensors that `recipe.method` trains, at their values before the first step.

    Raises:
        InputError: the method finds nothing to train in this model.
    """
    head: dict[str, Tensor] = {
        n: p for n, p in template.named_parameters() if re.fullmatch(task.head, n)
    }
    method = recipe.method or own_method(template, task)
    if method == LORA:
        chosen = dict(_lora(template, task, recipe))
    elif method == "head":
        chosen = head
    else:
        names = _names(template, method)
        chosen = {n: p for n, p in template.named_parameters() if n in names}
    if recipe.blocks and method != "head":
        chosen = _in_blocks(chosen, last_blocks(template, task, recipe.blocks))
    if not chosen:
        raise InputError(
            f"method {method!r} finds nothing to train in {type(template).__name__}"
            f"{_why_none(method)}. Choose another: 'all' trains every parameter."
        )
    return chosen | head


def _why_none(method: str) -> str:
    return ", where `lora_targets` matches no linear layer below the head" * (method == LORA)


def own_method(template: nn.Module, task: Task) -> str:
    """Return the method of a task whose request names none."""
    return task.method or gradient_method(template, task)


def gradient_method(template: nn.Module, task: Task) -> str:
    """Return the task's method of gradient steps: LoRA where it has layers, else all parameters.

    A net without linear layers, of convolutions say, is small as a rule, and its norms or biases
    alone can learn little.
    """
    if task.method not in ("", AUTO):
        return task.method
    return LORA if lora_layers(template, task) else ALL


def last_blocks(template: nn.Module, task: Task, count: int) -> list[str]:
    """Return the names of the model's last `count` blocks, in order.

    Raises:
        InputError: the model has fewer.
    """
    names = [name for name, _ in template.named_modules() if re.fullmatch(task.blocks, name)]
    if count > len(names):
        raise InputError(
            f"blocks is {count}, but {type(task).__name__} names {len(names)} blocks. Ask for "
            f"{f'at most {len(names)}' if names else '0, or set `blocks` in the task'}."
        )
    return names[len(names) - count :]


def _in_blocks(tensors: dict[str, Tensor], blocks: list[str]) -> dict[str, Tensor]:
    starts = tuple(f"{name}." for name in blocks)
    return {name: tensor for name, tensor in tensors.items() if name.startswith(starts)}


def resolve(recipe: Recipe, task: Task, own: str, begin: Adapter | None = None) -> Recipe:
    """Fill in method, rank and blocks: those of the adapter to continue from, else the task's.

    Args:
        recipe: of the request.
        task: has the rank and the names of the blocks.
        own: the task's own method (`own_method`).
        begin: the adapter to continue from.

    Raises:
        InputError: the recipe differs from the adapter.
    """
    if begin is not None:
        return continuing(recipe, task, begin)
    method, rank = recipe.method or own, recipe.rank or task.rank
    return replace(recipe, method=method, rank=rank, learning_rate=recipe.learning_rate or None)


def continuing(recipe: Recipe, task: Task, begin: Adapter) -> Recipe:
    """Fill in method, rank and blocks of the adapter to continue from.

    Raises:
        InputError: the recipe differs from the adapter.
    """
    for name, asked, own in (
        ("method", recipe.method.replace(AUTO, ""), begin.method),
        ("rank", recipe.rank, begin.rank),
        ("blocks", recipe.blocks, blocks_of(begin, task)),
    ):
        if asked and asked != own:
            raise InputError(
                f"{name} is {asked!r}, but adapter {begin.id} was made with {own!r}. Leave "
                f"`{name}` out to continue that adapter, or send the examples without the adapter."
            )
    return replace(recipe, method=begin.method, rank=begin.rank or 0, blocks=0)


def blocks_of(adapter: Adapter, task: Task) -> int:
    """Count the blocks that an adapter has tensors of; 0 if it has tensors elsewhere too."""
    names = [name for name in adapter.tensors if not re.fullmatch(task.head, name)]
    found = [_block_of(name, task.blocks) for name in names]
    return 0 if None in found else len({*found})


def _block_of(name: str, pattern: str) -> str | None:
    """Return the path of a tensor's block, or None."""
    parts = name.split(".")
    paths = (".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
    return next((path for path in paths if re.fullmatch(pattern, path)), None)


def _lora(template: nn.Module, task: Task, recipe: Recipe) -> Iterator[tuple[str, Tensor]]:
    for name, layer in lora_layers(template, task):
        pair = lora_tensors(layer, recipe.rank or task.rank, generator(recipe.seed, "lora", name))
        for leaf, tensor in pair.items():
            yield f"{name}.{leaf}", tensor


def lora_layers(template: nn.Module, task: Task) -> list[tuple[str, nn.Linear]]:
    """Return the linear layers that `task.lora_targets` names.

    Exactly `nn.Linear`: the `forward` of a subclass may never be called (the output projection of
    `nn.MultiheadAttention`), and a pair there would have no effect.
    """
    return [
        (name, layer)
        for name, layer in template.named_modules()
        if type(layer) is nn.Linear
        and re.fullmatch(task.lora_targets, name)
        and not re.fullmatch(task.head, f"{name}.weight")
    ]


def _names(template: nn.Module, method: str) -> set[str]:
    names = {name for name, p in template.named_parameters() if p.is_floating_point()}
    if method == "bias":
        return {name for name in names if name.rpartition(".")[2].endswith("bias")}
    if method == "norms":
        norms = {name for name, part in template.named_modules() if is_norm(part)}
        return {name for name in names if name.rpartition(".")[0] in norms}
    if method.startswith(MATCH_PREFIX):
        globs = method.removeprefix(MATCH_PREFIX).split(",")
        return {name for name in names if any(fnmatch.fnmatchcase(name, g) for g in globs)}
    return names


def automatic_learning_rate(template: nn.Module, task: Task, method: str) -> float:
    """Return 5e-4 (2000 / width)^0.78 for LoRA, norms, biases and heads, else a tenth of it.

    `width` is the median number of columns of the layers that LoRA would adapt (or of all matrices,
    if there are none). LoRA's best rate does not depend on its rank, and is about ten times that of
    the weights themselves (Schulman et al. 2025, "LoRA without regret").
    """
    widths = sorted(layer.in_features for _, layer in lora_layers(template, task))
    widths = widths or sorted(p.shape[1] for p in template.parameters() if p.dim() > 1) or [1]
    rate = _LORA_RATE * (_REFERENCE_WIDTH / widths[len(widths) // 2]) ** _EXPONENT
    whole_weights = method == ALL or method.startswith(MATCH_PREFIX)
    return float(f"{rate / 10 if whole_weights else rate:.1e}")
