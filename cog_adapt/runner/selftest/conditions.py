"""The conditions under which a pass of the whole self-test is valid.

Each is a text. A pass is void once one of them differs: other weights, other code of the task or of
this package, another version, driver, card or flag.
"""

import hashlib
import json
import platform
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

import gradient_check
from cog_adapt.runner.data.plain_values import not_plain
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.task.code import code_behind
from cog_adapt.runner.task.task import Task
from gradient_check.phases.census import process_flags

PACKAGES = (Path(__file__).parents[2], Path(gradient_check.__file__).parent)
DRIVER = Path("/proc/driver/nvidia/version")
_BACKEND_FLAGS = {
    "cuda.matmul": (
        "allow_tf32",
        "allow_fp16_reduced_precision_reduction",
        "allow_bf16_reduced_precision_reduction",
    ),
    "cudnn": ("enabled", "allow_tf32", "benchmark", "deterministic"),
    "mkldnn": ("enabled", "allow_tf32"),
}


def conditions_of(model: LoadedModel) -> dict[str, str]:
    """Return the conditions of a pass of this model's self-test, by name."""
    kinds = {type(part) for part in model.base.module.modules()}
    own, libraries = code_behind([type(model.task), *kinds])
    return {
        "base": model.base.digest,
        "structure": _digest([str(model.base.module).encode()]),
        "task": f"{type(model.task).__qualname__} {_digest([*_texts(own), _values(model.task)])}",
        "package": _digest(_texts(file for folder in PACKAGES for file in folder.rglob("*.py"))),
        "libraries": ", ".join(f"{name} {_version(name)}" for name in sorted(libraries)),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "cudnn": str(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
        "driver": _driver(),
        "card": _card(model.base.precision.device),
        "precision": f"{model.base.precision} {model.serve_mode}",
        "flags": json.dumps(_flags(), sort_keys=True),
    }


def _values(task: Task) -> bytes:
    """Return the task's own plain values, which its code alone does not determine."""
    plain = {n: v for n, v in vars(task).items() if isinstance(v, Path) or not_plain(v) is None}
    return json.dumps(plain, sort_keys=True, default=str).encode()


def _texts(files: Iterable[Path]) -> Iterator[bytes]:
    yield from (file.read_bytes() for file in sorted(files))


def _digest(parts: Iterable[bytes]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()[:32]


def _version(name: str) -> str:
    return str(getattr(sys.modules.get(name), "__version__", "?"))


def _driver() -> str:
    try:
        return DRIVER.read_text().splitlines()[0]
    except (OSError, IndexError):
        return "none"


def _card(device: torch.device) -> str:
    if device.type != "cuda":
        return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    found = torch.cuda.get_device_properties(device)
    return f"{found.name} {found.major}.{found.minor} {found.total_memory}"


def _flags() -> dict[str, Any]:
    """Return the flags that may change an operation's numbers."""
    flags = {name: str(value) for name, value in process_flags().items()}
    for path, names in _BACKEND_FLAGS.items():
        backend: Any = torch.backends
        for part in path.split("."):
            backend = getattr(backend, part)
        flags |= {f"{path}.{name}": str(getattr(backend, name, None)) for name in names}
    return flags
