"""A module's state in plain attributes between its calls: numbers, texts, tensors, lists."""

from collections import deque
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn

_TORCHS_OWN = frozenset(vars(nn.Module()))
_NUMBERS = (bool, int, float, complex, str, type(None))
_Slot = tuple[str, str]  # the path of a module, and the name of its attribute


class PlainState:
    """The values of a module's plain attributes at one moment, without buffers.

    Random generators are ignored: a draw is no state of a model.

    Args:
        module: the module whose parts are examined and restored.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self._values = {slot: _copied(value) for slot, value in _slots(module).items()}

    def changed(self) -> list[_Slot]:
        """Return the attributes that have changed since that moment."""
        now = _slots(self.module)
        known = self._values
        gone = [slot for slot in known if slot not in now]
        return gone + [s for s, value in now.items() if not _same(known.get(s, _GONE), value)]

    def put_back(self, slots: Collection[_Slot]) -> None:
        """Restore these attributes to their values of that moment."""
        for path, name in slots:
            attributes = vars(self.module.get_submodule(path))
            if (path, name) in self._values:
                attributes[name] = _copied(self._values[path, name])
            else:
                attributes.pop(name, None)


_GONE = object()


def is_number(module: nn.Module, slot: _Slot) -> bool:
    """Return whether an attribute is now a number or a text: a counter, say, and no memory."""
    return isinstance(vars(module.get_submodule(slot[0])).get(slot[1], _GONE), _NUMBERS)


def _slots(module: nn.Module) -> Mapping[_Slot, Any]:
    return {
        (path, name): value
        for path, part in module.named_modules()
        for name, value in vars(part).items()
        if name not in _TORCHS_OWN and _is_plain(value)
    }


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple | deque):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    return isinstance(value, _NUMBERS) or _is_tensor(value)


def _is_tensor(value: object) -> bool:
    """Return whether a value is a tensor that can be restored: one without a graph."""
    if not isinstance(value, Tensor) or isinstance(value, nn.Parameter):
        return False
    return value.grad_fn is None


def _copied(value: Any) -> Any:  # noqa: ANN401 - plain values of any kind
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    if type(value) in (list, tuple, deque):
        return type(value)(map(_copied, value))
    return value


def _same(one: object, other: object) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(v, other[k]) for k, v in one.items())
    if isinstance(one, list | tuple | deque) and isinstance(other, list | tuple | deque):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other
