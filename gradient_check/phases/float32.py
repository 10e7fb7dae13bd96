"""The exactness of float32, for which TF32 or 16 bits may be substituted.

PyTorch has older and newer names for these switches, and refuses to read the older ones once only
the newer were used; so both are read and restored.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

T = TypeVar("T")
_cudnn: Any = torch.backends.cudnn
_BACKENDS: tuple[Any, ...] = (torch.backends.cuda.matmul, _cudnn.conv, _cudnn.rnn)
_TF32, _EXACT = "tf32", "ieee"


@dataclass(frozen=True)
class Float32:
    """The switches of this process.

    Attributes:
        products: the older switch of matrix products; None if PyTorch refuses to read the switch.
        cudnn_tf32: the older switch of convolutions; None if PyTorch refuses to read the switch.
        backends: the newer switches of matrix products, convolutions and recurrent layers.
    """

    products: str | None
    cudnn_tf32: bool | None
    backends: tuple[str, ...]

    @classmethod
    def current(cls) -> "Float32":
        """Return the present switches."""
        return cls(
            _read(torch.get_float32_matmul_precision),
            _read(lambda: torch.backends.cudnn.allow_tf32),
            tuple(backend.fp32_precision for backend in _BACKENDS),
        )

    def put_back(self) -> None:
        """Restore the switches to these values."""
        if self == Float32.current():
            return
        if self.products is not None:
            torch.set_float32_matmul_precision(self.products)
        if self.cudnn_tf32 is not None:
            torch.backends.cudnn.allow_tf32 = self.cudnn_tf32
        for backend, value in zip(_BACKENDS, self.backends, strict=True):
            if backend.fp32_precision != value:
                backend.fp32_precision = value

    def in_words(self) -> dict[str, str]:
        """Return the exactness of each kind of operation, in words."""
        products, *others = self.backends
        return {
            "float32 matmul precision": self.products or products,
            "float32 convolution precision": "/".join(others),
        }


@contextmanager
def exact_float32() -> Iterator[None]:
    """Compute float32 in all its bits, whatever the process has set; restore that at the end."""
    before = Float32.current()
    try:
        _set_exact()
        yield
    finally:
        before.put_back()


def _set_exact() -> None:
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    for backend in _BACKENDS:
        if backend.fp32_precision == _TF32:  # a more general switch has set it
            backend.fp32_precision = _EXACT


def _read(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except RuntimeError:  # only the newer API has set it
        return None
