"""Storages on the device: this build of torch makes none, and `copy.deepcopy` of a tensor asks."""

from typing import Any

import torch
from torch import UntypedStorage
from torch.storage import _StorageBase

_of_cpu_clone, _of_cpu_to = _StorageBase.clone, _StorageBase.to
_of_cpu_deepcopy = UntypedStorage.__deepcopy__


def _bytes(storage: UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _clone(self: UntypedStorage) -> Any:
    if self.device.type != "cuda":
        return _of_cpu_clone(self)
    return _bytes(self).clone().untyped_storage()


def _deepcopy(self: UntypedStorage, memo: dict[Any, Any]) -> Any:
    if self.device.type != "cuda":
        return _of_cpu_deepcopy(self, memo)
    copies = memo.setdefault("torch", {})
    if self._cdata not in copies:
        copies[self._cdata] = self.clone()
    return copies[self._cdata]


def _to(self: UntypedStorage, *, device: torch.device, non_blocking: bool = False) -> Any:
    if torch.device(device).type != "cuda":
        return _of_cpu_to(self, device=device, non_blocking=non_blocking)
    return _bytes(self).to(device).untyped_storage()


def _cuda(self: UntypedStorage, device: Any = None, non_blocking: bool = False) -> Any:
    number = torch.cuda.current_device() if device is None else torch.device(device).index
    return _to(self, device=torch.device("cuda", number))


def install() -> None:
    """Let storages be copied on the device, and to it."""
    methods = {"clone": _clone, "__deepcopy__": _deepcopy, "to": _to, "cuda": _cuda}
    for name, method in methods.items():
        setattr(UntypedStorage, name, method)
