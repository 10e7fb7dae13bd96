"""Counts the bytes of tensors that live at once, on any device, the meta device too.

Kernels' temporary memory is not counted, nor are other threads' tensors.
"""

from typing import Any

from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the storages that calls on this thread make while the context is open.

    Args:
        known: modules with storages from before, which do not count.

    Attributes:
        peak: the most bytes that lived at once.
    """

    def __init__(self, *known: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        self._live: dict[int, tuple[StorageWeakRef, int]] = {}
        self._total = 0
        tensors = [t for module in known for t in (*module.parameters(), *module.buffers())]
        self._known = {_reference(t).cdata for t in tensors}

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 - PyTorch's protocol
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Run one call and count what it makes."""
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._note(leaf)
        return result

    def now(self) -> int:
        """Return the bytes that live now."""
        for key in [key for key, (storage, _) in self._live.items() if _is_gone(storage)]:
            self._total -= self._live.pop(key)[1]
        return self._total

    def _note(self, tensor: Tensor) -> None:
        reference, size = _reference(tensor), tensor.untyped_storage().nbytes()
        if reference.cdata in self._known:
            return
        before = self._live.pop(reference.cdata, None)
        self._total -= before[1] if before else 0
        self._live[reference.cdata] = (reference, size)
        self._total += size
        if self._total > self.peak:  # perhaps: of what was counted, some has gone
            self.peak = max(self.peak, self.now())


def _reference(tensor: Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]


def _is_gone(storage: StorageWeakRef) -> bool:
    return bool(storage.expired())  # type: ignore[no-untyped-call]
