"""Private replicas of an immutable base.

A template is a structural copy of the base that is never executed. A replica is a copy of the
template: its frozen tensors share the base's storage, its buffers are its own, and given tensors
replace or join its parameters by name. Changes to a replica never need to be undone. This module
knows no task, no recipe and no optimizer.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from gradient_check.phases.errors import SetupError, WeightsError
from gradient_check.phases.lora import LORA_A, LORA_B, SCALE, wrap_layer
from gradient_check.phases.modes import put_in_eval, run_setup
from gradient_check.phases.module_copies import deep_copy

T = TypeVar("T")
Tensors = dict[str, Tensor]
NO_SCALES: Mapping[str, float] = MappingProxyType({})
_copies: WeakSet[nn.Module] = WeakSet()
_NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


def freeze(module: nn.Module) -> None:
    """Make `module` a base: in eval mode, with no parameter that requires grad."""
    put_in_eval(module)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
        parameter.grad = None


def is_norm(part: nn.Module) -> bool:
    """Return whether `part` is a normalisation layer: one of PyTorch's, or one by its class name.

    Parametrizations do not count: spectral norm's vectors must follow the weights they measure.
    """
    if type(part).__module__ == parametrizations.__name__:
        return False
    return isinstance(part, _NORMS) or "norm" in type(part).__name__.lower()


def make_template(base: nn.Module) -> nn.Module:
    """Copy the structure of `base`, sharing every parameter's storage.

    Raises:
        SetupError: a part of the module cannot be copied.
    """
    return run_setup(_copy, base, {})


def training_replica(
    template: nn.Module, tensors: Mapping[str, Tensor], scales: Mapping[str, float] = NO_SCALES
) -> nn.Module:
    """Make a replica whose parameters named in `tensors` are float32 copies that require grad.

    `scales` are those of LoRA pairs, by layer, if they differ from `lora.SCALE`.
    """
    return run_setup(_replica, template, tensors, _trained, scales)


def serving_replica(
    template: nn.Module, tensors: Mapping[str, Tensor], scales: Mapping[str, float] = NO_SCALES
) -> nn.Module:
    """Make a frozen replica in eval mode with `tensors`; `scales` are those of the training."""
    replica = run_setup(_replica, template, tensors, _frozen, scales)
    freeze(replica)
    return replica


def serving_part(
    template: nn.Module,
    place: str,
    tensors: Mapping[str, Tensor],
    scales: Mapping[str, float] = NO_SCALES,
) -> nn.Module | None:
    """Make the part of a serving replica at `place`, without the rest of the replica.

    Args:
        template: that of the whole replica.
        place: the part's name in it.
        tensors: of the whole replica, by name; those of other parts are left out.
        scales: of the whole replica's LoRA pairs.

    Returns:
        The part; None if it refers to modules or parameters outside itself, which only a whole
        replica has.
    """
    part, own = template.get_submodule(place), _below(place, tensors)
    memo: dict[int, object] = {}
    replica = run_setup(_replica, part, own, _frozen, _below(place, scales), memo)
    if _refers_outside(part, memo):
        return None
    freeze(replica)
    return replica


def _below(place: str, named: Mapping[str, T]) -> dict[str, T]:
    """Return what is named at or below a place, by the names from there on."""
    start = f"{place}."
    own = (name for name in named if name == place or name.startswith(start))
    return {name[len(start) :]: named[name] for name in own}


def _refers_outside(part: nn.Module, memo: Mapping[int, object]) -> bool:
    """Return whether the copying that left this memo copied more than the part."""
    made = [*memo.values()]
    modules = sum(isinstance(value, nn.Module) for value in made)
    parameters = sum(isinstance(value, nn.Parameter) for value in made)
    own = (sum(1 for _ in part.modules()), sum(1 for _ in part.parameters()))
    return (modules, parameters) != own


def _replica(
    template: nn.Module,
    tensors: Mapping[str, Tensor],
    make: Callable[[Tensor], nn.Parameter],
    scales: Mapping[str, float],
    memo: dict[int, object] | None = None,
) -> nn.Module:
    parameters = dict(template.named_parameters(remove_duplicate=False))
    buffers = dict(template.named_buffers(remove_duplicate=False))
    swaps = {id(parameters[n]): make(t) for n, t in tensors.items() if n in parameters}
    replica = _copy(template, swaps, memo)
    for name, tensor in tensors.items():
        if name in buffers:
            _owner(replica, name)._buffers[_leaf(name)] = tensor.detach().clone()
        elif name not in parameters:
            _join(replica, name, make(tensor), scales)
    return replica


def _copy(
    module: nn.Module, swaps: Mapping[int, nn.Parameter], memo: dict[int, object] | None = None
) -> nn.Module:
    memo = {} if memo is None else memo
    for parameter in module.parameters():
        swap = swaps.get(id(parameter))
        memo[id(parameter)] = _frozen(parameter) if swap is None else swap
    memo.update((id(value), value.detach().clone()) for value in _recomputed(module))
    try:
        made: nn.Module = deep_copy(module, memo)
    except (TypeError, RuntimeError, AttributeError) as error:
        raise SetupError(
            f"{type(module).__name__} cannot be copied: {error}. Keep locks, sessions, files and "
            "tensors with a graph out of the module's attributes."
        ) from error
    _copies.add(made)
    return made


def copies_alive() -> int:
    """Return the number of copies that are not freed yet, including those in a user's cycles."""
    return len(_copies)


def _recomputed(module: nn.Module) -> Iterator[Tensor]:
    """Yield weights with a graph that a hook of PyTorch computes before each forward.

    Pruning and the older spectral norm keep them in attributes.
    """
    hooked = (part for part in module.modules() if part._forward_pre_hooks)
    for part in hooked:
        named = ((name.removesuffix("_orig"), name) for name in part._parameters)
        values = (vars(part).get(name) for name, own in named if name != own)
        yield from (value for value in values if isinstance(value, Tensor))


def _join(
    replica: nn.Module, name: str, parameter: nn.Parameter, scales: Mapping[str, float]
) -> None:
    """Register a parameter that the template lacks."""
    owner = _owner(replica, name)
    if _leaf(name) in (LORA_A, LORA_B):
        wrap_layer(owner, scales.get(name.rpartition(".")[0], SCALE))
    owner.register_parameter(_leaf(name), parameter)


def _owner(module: nn.Module, name: str) -> nn.Module:
    path = name.rpartition(".")[0]
    try:
        return module.get_submodule(path)
    except AttributeError as error:
        raise WeightsError(
            f"tensor {name} has no place in {type(module).__name__}: it has no module {path!r}. "
            "Use an adapter that was made with this model."
        ) from error


def _leaf(name: str) -> str:
    return name.rpartition(".")[2]


def _trained(tensor: Tensor) -> nn.Parameter:
    dtype = torch.promote_types(tensor.dtype, torch.float32)  # 16 bits would lose small updates
    return nn.Parameter(tensor.detach().to(dtype, copy=True), requires_grad=True)


def _frozen(tensor: Tensor) -> nn.Parameter:
    return nn.Parameter(tensor.detach(), requires_grad=False)


def trained_tensors(replica: nn.Module, device: torch.device | None = None) -> Tensors:
    """Return copies of the replica's trainable parameters by name; a tie is listed once.

    They are made directly on `device`, by default the replica's.
    """
    named = replica.named_parameters()
    return run_setup(lambda: {n: _copied(p, device) for n, p in named if p.requires_grad})


def _copied(tensor: Tensor, device: torch.device | None) -> Tensor:
    return tensor.detach().to(device or tensor.device, copy=True)


def weights_buffers(module: nn.Module) -> Tensors:
    """Return the buffers that belong to a trained weight: those of PyTorch's parametrizations.

    Examples are the vectors of a spectral norm. Other buffers stay untrained and outside adapters,
    because a buffer of positions or counts could hold anything.
    """
    return {
        name: buffer
        for path, part in module.named_modules()
        if type(part).__module__ == parametrizations.__name__
        for name, buffer in part.named_buffers(path, recurse=False)
        if buffer.is_floating_point()
    }


def changed_buffers(
    replica: nn.Module, template: nn.Module, device: torch.device | None = None
) -> Tensors:
    """Return copies of the `weights_buffers` that training changed, as `trained_tensors` does."""
    before = weights_buffers(template)
    return run_setup(
        lambda: {
            name: _copied(buffer, device)
            for name, buffer in weights_buffers(replica).items()
            if not torch.equal(buffer, before[name])
        }
    )


def trained_state(
    replica: nn.Module, template: nn.Module, device: torch.device | None = None
) -> Tensors:
    """Return copies of everything that training changes: parameters and buffers."""
    return trained_tensors(replica, device) | changed_buffers(replica, template, device)


def modules_in_training(replica: nn.Module) -> frozenset[str]:
    """Return the modules to put in training mode: those with trainable parameters, except norms.

    A module without parameters (dropout) follows the module that holds it. Frozen parts stay in
    eval mode, so they drop nothing and keep their statistics.
    """
    names = {""}
    for name, part in replica.named_modules():
        if name and not is_norm(part) and _trains(replica, name, part):
            names.add(name)
    return frozenset(names)


def _trains(replica: nn.Module, name: str, part: nn.Module) -> bool:
    if next(part.parameters(), None) is None:
        part = replica.get_submodule(name.rpartition(".")[0])
    return any(p.requires_grad for p in part.parameters())
