"""Refuses a wrong use of `check_gradients`, with a sentence on the assumption and the remedy."""

import difflib
import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from types import MappingProxyType
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from gradient_check.distributed import check_local
from gradient_check.findings.examination import Examination, describe
from gradient_check.instruments.loss_forms import (
    MODULE_NAMES,
    required_arguments,
    takes_for_module,
    takes_targets,
)
from gradient_check.phases.errors import ConfigError
from gradient_check.phases.gradient_step import MakeOptimizer
from gradient_check.phases.precision import PRECISIONS, Precision, ServeMode

NO_FACTORS: Mapping[str, float] = MappingProxyType({})
Patterns = str | Sequence[str]
"""Some patterns; one text is one pattern."""
_FORMS = (
    "a loss is `(module, probe) -> losses`, `(output) -> losses`, or, with a probe of (inputs, "
    "targets), `(output, targets) -> losses`"
)


def check_module(module: object) -> None:
    """Refuse an object that is no module, and a module that is spread over processes."""
    if not isinstance(module, nn.Module):
        raise ConfigError(f"module is a {type(module).__name__}. Pass a torch.nn.Module.")
    check_local(module)


def check_loss(loss: Any, probe: object) -> None:  # noqa: ANN401 - whatever the caller gives
    """Refuse a loss that would be called with other values than it expects."""
    if not callable(loss):
        raise ConfigError(f"loss is a {type(loss).__name__}; {_FORMS}.")
    names = required_arguments(loss)
    if names is None:
        return
    name = getattr(loss, "__name__", type(loss).__name__)
    call = f"{name}({', '.join(names)})"
    if not names and not _takes_any(loss):
        raise ConfigError(f"the loss {call} takes no argument, but {_FORMS}.")
    if len(names) > 2:
        raise ConfigError(f"the loss {call} asks for {len(names)} arguments, but {_FORMS}.")
    if takes_targets(loss):
        _check_pair(call, names, probe)
    else:
        _check_order(loss, name, names)


def _check_pair(call: str, names: Sequence[str], probe: object) -> None:
    """Refuse a probe that is no pair, beside a loss that takes an output and targets."""
    if isinstance(probe, tuple | list) and len(probe) == 2:
        return
    given = f"a {type(probe).__name__}"
    given += f" of {len(probe)}" if isinstance(probe, tuple | list | Mapping) else ""
    raise ConfigError(
        f"the loss {call} takes an output and targets, and the probe is {given}: {_FORMS}. Pass "
        f"`(inputs, targets)` as the probe; if {names[0]!r} is the module, annotate it: nn.Module."
    )


def _check_order(loss: Any, name: str, names: Sequence[str]) -> None:  # noqa: ANN401
    """Refuse a loss whose module is not the first of its two arguments, if that is visible."""
    call = f"{name}({', '.join(names)})"
    is_module = [takes_for_module(loss, each) for each in names]
    if is_module == [True]:
        raise ConfigError(
            f"the loss {call} takes the module alone, but {_FORMS}. Write "
            f"`lambda module, batch: ...`, and use the batch that it is given."
        )
    if is_module == [False, True]:
        raise ConfigError(
            f"the loss {call} takes the module second, but {_FORMS}. Write "
            f"`lambda module, batch: {name}(batch, module)`."
        )
    is_method = isinstance(getattr(loss, "__self__", None), nn.Module)
    if is_module == [False, False] and is_method and names[0] not in MODULE_NAMES:
        raise ConfigError(
            f"the loss {call} is a module's method, and its two arguments are taken for (module, "
            f"probe). Write `lambda module, batch: module.{name}(batch, 0)`."
        )


def _takes_any(function: Callable[..., Any]) -> bool:
    """Return whether a function takes a positional argument that it does not require."""
    parameters = inspect.signature(function).parameters.values()
    return any(p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters)


def _takes_two(function: Callable[..., Any]) -> bool:
    """Return whether a function accepts two arguments, as far as that is known."""
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # built-in functions have no signature
        return True
    return True


def check_probe(probe: object) -> None:
    """Refuse a source of batches in place of a batch, and an empty probe."""
    if probe is None:
        raise ConfigError("probe is None. Pass one small batch: a tensor, a tuple or a mapping.")
    tensors = [leaf for leaf in tree_leaves(probe) if isinstance(leaf, Tensor)]
    if any(tensor.is_nested and tensor.layout == torch.strided for tensor in tensors):
        raise ConfigError(
            "probe holds a nested tensor of layout torch.strided, which has no shape. Build it "
            "with layout=torch.jagged, or pad it: `nested.to_padded_tensor(0.0)`."
        )
    if tensors and not any(tensor.numel() for tensor in tensors):
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors)
        raise ConfigError(f"probe holds no values, only {shapes}. Pass a batch of two examples.")
    if isinstance(probe, torch.utils.data.DataLoader | torch.utils.data.Dataset | Iterator):
        raise ConfigError(
            f"probe is a {type(probe).__name__}. Pass one small batch: `next(iter(loader))`."
        )


def check_values(rate: object, seed: object, **flags: object) -> None:
    """Refuse a wrong learning rate or seed, and flags that are neither True nor False."""
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < math.inf:
        raise ConfigError(f"learning_rate is {rate!r}. Pass a number above 0, such as 1e-3.")
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise ConfigError(f"seed is {seed!r}. Pass a whole number.")
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ConfigError(f"{name} is {value!r}. Pass True or False.")


def checked_maker(make: MakeOptimizer) -> MakeOptimizer:
    """Return a maker that refuses any result but an optimizer of the replica's parameters."""

    def made(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        try:
            optimizer = make(parameters)
        except Exception as error:
            raise ConfigError(
                f"make_optimizer raised {describe(error)}; it is given the trained parameters. "
                "Pass `lambda parameters: torch.optim.SGD(parameters, lr=0.1)`, say."
            ) from error
        if not hasattr(optimizer, "step") or not hasattr(optimizer, "param_groups"):
            kind = type(optimizer).__name__
            raise ConfigError(f"make_optimizer returned a {kind}. Let it return an optimizer.")
        return optimizer

    return made


def check_factors(factors: object) -> None:
    """Refuse `reversed_gradients` of another type."""
    if not isinstance(factors, Mapping):
        raise ConfigError(
            f"reversed_gradients is {factors!r}. Pass a factor by pattern: "
            '`{"domain.reverse": -0.3}`.'
        )
    checked_patterns("reversed_gradients", list(factors))
    for pattern, factor in factors.items():
        is_number = isinstance(factor, int | float) and not isinstance(factor, bool)
        if not is_number or not math.isfinite(factor) or factor == 0:
            raise ConfigError(
                f"reversed_gradients[{pattern!r}] is {factor!r}. Pass a number other than 0; a "
                "gradient that stops belongs in `stop_gradients`."
            )


def check_options(
    trainable: object,
    unused: Sequence[str],
    serve_mode: object,
    entry: object,
    make_optimizer: object,
) -> None:
    """Refuse options of a wrong type."""
    if serve_mode not in get_args(ServeMode):
        raise ConfigError(
            f"serve_mode is {serve_mode!r}; allowed: {', '.join(get_args(ServeMode))}."
        )
    if not (trainable is None or isinstance(trainable, str) or callable(trainable)):
        raise ConfigError(
            f"trainable is a {type(trainable).__name__}. Pass a regex that is searched in "
            "parameter names, or a predicate of name and parameter."
        )
    if callable(trainable) and not _takes_two(trainable):
        raise ConfigError(
            f"trainable{inspect.signature(trainable)} is given two arguments. Pass `lambda name, "
            "parameter: ...`."
        )
    _check_regexes("trainable", [trainable] if isinstance(trainable, str) else [])
    _check_regexes("unused", unused)
    if isinstance(make_optimizer, torch.optim.Optimizer):
        kind = type(make_optimizer).__name__
        raise ConfigError(
            f"make_optimizer is an optimizer, of other parameters than the replica's. Pass a "
            f"function that builds one: `lambda parameters: torch.optim.{kind}(parameters)`."
        )
    for name, function in {"make_optimizer": make_optimizer, "entry": entry}.items():
        if function is not None and not callable(function):
            raise ConfigError(f"{name} is a {type(function).__name__}. Pass a function.")


def checked_patterns(name: str, patterns: object) -> tuple[str, ...]:
    """Return the patterns of an option; one text is one pattern, other values are refused."""
    if isinstance(patterns, str):
        patterns = [patterns]
    if not isinstance(patterns, Iterable):
        raise ConfigError(f"{name} is {patterns!r}. Pass a text, or a sequence of texts.")
    found = tuple(patterns)
    for each in found:
        if not isinstance(each, str):
            raise ConfigError(f"{name} holds a {type(each).__name__}. Pass texts.")
        if not each:
            raise ConfigError(f"{name} holds an empty text, which names everything. Take it out.")
    return found


def _check_regexes(name: str, patterns: Iterable[str]) -> None:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"{name} {pattern!r} is no regex: {error}.") from error


def chosen_precision(precision: object, module: nn.Module) -> Precision:
    """Return a precision from a name, a dtype, or the module's own weights."""
    if isinstance(precision, Precision):
        return precision
    parameters = list(module.parameters())
    device = parameters[0].device if parameters else torch.device("cpu")
    if precision is None:
        halves = (torch.bfloat16, torch.float16)
        coarse = [p.dtype for p in parameters if p.dtype in halves]
        return Precision(device, coarse[0] if coarse else torch.float32)
    dtype = PRECISIONS.get(precision) if isinstance(precision, str) else precision
    if not isinstance(dtype, torch.dtype) or dtype not in PRECISIONS.values():
        raise ConfigError(f"precision is {precision!r}; allowed: {', '.join(PRECISIONS)}.")
    return Precision(device, dtype)


def warn_of_misspelt(exam: Examination, unused: Sequence[str], names: Sequence[str]) -> None:
    """Warn of each `unused` that matches no parameter."""
    for pattern in unused:
        if any(pattern == name or re.fullmatch(pattern, name) for name in names):
            continue
        near = difflib.get_close_matches(pattern, names, 1)
        exam.add(
            "WARN",
            "unused",
            f"`unused` names {pattern!r}, which matches none of the {len(names)} parameters"
            + (f"; the nearest is {near[0]}." if near else "."),
        )
