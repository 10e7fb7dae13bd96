"""Frozen values that say how to run: where, in which precision, and by which recipe.

Settings are read once, at a door, by `RunnerSettings.from_environment`. This module knows no
model.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from cog_adapt.runner.allowed_values import check_globs, check_range
from cog_adapt.runner.errors import ConfigError, InputError
from gradient_check.phases.precision import PRECISIONS, ServeMode

_FROM_ONE = ("batch_size", "served_adapters", "adaptations_at_once", "checkpoint_days")
AUTO, HEAD = "auto", "head"
QUICK, FULL, OFF = SELF_TESTS = ("quick", "full", "off")
METHODS = (AUTO, "lora", HEAD, "norms", "bias", "all")
MATCH_PREFIX = "match:"
_TEXTS = {
    "device": (r"auto|cpu|cuda(:\d+)?", "auto, cpu, cuda or cuda:N"),
    "precision": ("auto|" + "|".join(PRECISIONS), f"auto, {', '.join(PRECISIONS)}"),
    "serve_mode": ("inference_mode|no_grad", "inference_mode or no_grad"),
    "self_test": ("|".join(SELF_TESTS), "quick, full or off"),
    "adapter_store": (r"(\w+://.*)?", "a URL, such as s3://bucket/folder"),
}
_FLAGS = ("deterministic", "compile_blocks", "self_test_strict")
_SHOWN = 80


@dataclass(frozen=True)
class RunnerSettings:
    """What a process decides once, at its door.

    Attributes:
        device: `auto` (CUDA where there is one, else CPU), `cpu`, `cuda` or `cuda:N`.
        precision: `auto` (bf16 on a CUDA device that has it, else fp32), `fp32`, `bf16`, `fp16`.
        serve_mode: how inference runs; `no_grad` for models that keep tensors between calls.
        batch_size: inputs per inference tick.
        served_adapters: adapters kept ready on the device; the longest unused goes first.
        served_adapter_bytes: bytes of adapters kept ready on the device; 0: an eighth of it.
        weights_dir: where adapters and checkpoints are stored.
        checkpoint_days: days for which the state of a killed training is kept.
        checkpoint_bytes: of all such states, the newest; 0: a tenth of what is free on the disk.
        checkpoint_owner_bytes: of one owner's states; 0: half of all.
        adapter_memory_bytes: bytes of adapters in memory; 0: an eighth of the machine's.
        adapter_owner_memory_bytes: bytes of one owner's adapters in memory; 0: half of all.
        adapter_disk_bytes: bytes of adapters on disk; 0: a quarter of the disk.
        adapter_owner_disk_bytes: bytes of one owner's adapters on disk; 0: half of all.
        adapter_days: days after which an unused adapter without pin or name goes; 0: never.
        adapter_store: URL for fsspec, where what the disk lets go stays; empty: nowhere.
        feature_bytes: features and encoded inputs of recent examples; 0: a 64th of the memory.
        adaptation_memory_bytes: that adaptations under way may need; 0: 7/8 of what is free before.
        adaptations_at_once: under way, tick by tick in turn; further ones wait. Predictions do not.
        generation_bytes: keys and values of growing answers; 0: 1/8 of the device. An owner: half.
        deterministic: 1: on CUDA too the same seed gives the same bits, and what cannot is refused.
        compile_blocks: 1: on CUDA, blocks of a step run by torch.compile; unproven on a card.
        receipt_key: PEM file of the Ed25519 key that signs receipts; empty: they are not signed.
        self_test: at the start: `quick` where `full` has passed before under the same conditions
            (beside the weights), else `full`; `full` always; `off`: nothing is proved.
        self_test_strict: 1: checks that the whole self-test leaves out, and unverified parameters,
            are failures.
    """

    device: str = "auto"
    precision: str = "auto"
    serve_mode: ServeMode = "inference_mode"
    batch_size: int = 32
    served_adapters: int = 16
    weights_dir: Path = Path("weights")
    checkpoint_days: int = 7
    checkpoint_bytes: int = 0
    adapter_memory_bytes: int = 0
    adapter_owner_memory_bytes: int = 0
    adapter_disk_bytes: int = 0
    adapter_owner_disk_bytes: int = 0
    adapter_days: int = 90
    adapter_store: str = ""
    served_adapter_bytes: int = 0
    feature_bytes: int = 0
    receipt_key: str = ""
    checkpoint_owner_bytes: int = 0
    adaptation_memory_bytes: int = 0
    adaptations_at_once: int = 8
    generation_bytes: int = 0
    deterministic: bool = False
    compile_blocks: bool = False
    self_test: str = QUICK
    self_test_strict: bool = False

    def __post_init__(self) -> None:
        for name, (pattern, allowed) in _TEXTS.items():
            if not re.fullmatch(pattern, getattr(self, name)):
                _refuse(name.upper(), getattr(self, name), allowed)
        if not isinstance(self.weights_dir, Path):
            _refuse("WEIGHTS_DIR", self.weights_dir, "a pathlib.Path")
        if self.receipt_key and not Path(self.receipt_key).is_file():
            _refuse("RECEIPT_KEY", self.receipt_key, "a PEM file of an Ed25519 private key")
        _check_numbers(self)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "RunnerSettings":
        """Read each setting from the variable of its name in capitals.

        Raises:
            ConfigError: a value is not allowed.
        """
        readers: dict[str, Callable[[str], object]] = {
            **dict.fromkeys((*_TEXTS, "receipt_key"), str),
            "weights_dir": Path,
            **dict.fromkeys(_FLAGS, lambda text: {"0": False, "1": True}.get(text, text)),
            **dict.fromkeys(_lowest(), _whole_number),
        }
        values = {
            name: read(environment[name.upper()])
            for name, read in readers.items()
            if environment.get(name.upper())
        }
        return cls(**values)  # type: ignore[arg-type]


def _check_numbers(settings: RunnerSettings) -> None:
    for name in _FLAGS:
        if getattr(settings, name) not in (False, True):
            _refuse(name.upper(), getattr(settings, name), "0 or 1")
    for name, lowest in _lowest().items():
        value = getattr(settings, name)
        if not isinstance(value, int) or value < lowest:
            _refuse(name.upper(), value, f"a whole number from {lowest}")


def _lowest() -> dict[str, int]:
    """Return the least value of each setting that is a whole number."""
    names = [each.name for each in fields(RunnerSettings) if each.name.endswith("_bytes")]
    return dict.fromkeys(_FROM_ONE, 1) | dict.fromkeys((*names, "adapter_days"), 0)


def _whole_number(text: str) -> object:
    is_number = re.fullmatch(r"[-+]?\d{1,30}", text.strip())
    return int(text) if is_number else text  # refused with its name by __post_init__


def _refuse(name: str, value: object, allowed: str) -> None:
    raise ConfigError(f"{name} is {value!r}; allowed: {allowed}. Set it in the environment.")


@dataclass(frozen=True)
class Recipe:
    """How one adaptation trains.

    Attributes:
        method: `auto` (a head in closed form, then the task's method where it pays), `lora`,
            `head`, `norms`, `bias`, `all`, or `match:GLOBS` (whole parameter names; `*`, `?` and
            `[…]`, several after commas); "": of the adapter that the adaptation goes on from, else
            the task's. The task's own start tensors (a classifier's head) train with every method.
        rank: columns of each LoRA pair; 0: as for `method`.
        max_steps: optimizer steps at most, 1 to 100,000.
        batch_size: examples per step, 1 to 4,096.
        learning_rate: None or 0 takes `adaptation.automatic_learning_rate`.
        seed: draws batches, LoRA's A and dropout; repeats a run bit for bit (see `docs/gpu.md`).
        budget_seconds: wall time after which the best adapter so far is returned; None: no limit.
        stop_after: steps after which the best is returned; the rate falls as for `max_steps`.
        halve_at: step before which parts of steps become half as large, as in what is replayed.
        hold_out: share of each label's examples kept for scoring (at least one of five), 0 to 0.5.
        clip_norm: the gradient's norm is clipped to this.
        weight_decay: AdamW's.
        blocks: how many of the last blocks (`Task.blocks`) are trained besides the head; 0: all.
        checkpointing: recompute activations in backward (non-reentrant): less memory, more time.
    """

    method: str = ""
    rank: int = 0
    max_steps: int = 40
    batch_size: int = 32
    learning_rate: float | None = None
    seed: int = 0
    budget_seconds: float | None = None
    hold_out: float = 0.0
    clip_norm: float = 1.0
    weight_decay: float = 0.0
    checkpointing: bool = False
    stop_after: int | None = None
    halve_at: int | None = None
    blocks: int = 0

    def __post_init__(self) -> None:
        if self.method:
            _check_method(self.method)
        check_range("rank", self.rank, 0, 1024)
        check_range("max_steps", self.max_steps, 1, 100_000)
        check_range("batch_size", self.batch_size, 1, 4_096)
        for name, least in (("stop_after", 0), ("halve_at", 1)):
            if (value := getattr(self, name)) is not None:
                check_range(name, value, least, 100_000)
        check_range("blocks", self.blocks, 0, 10_000)
        check_range("seed", self.seed, 0, 2**63 - 1)
        check_range("hold_out", self.hold_out, 0.0, 0.5)
        check_range("weight_decay", self.weight_decay, 0.0, 1.0)
        if self.learning_rate:
            check_range("learning_rate", self.learning_rate, 1e-8, 1.0)
        if self.budget_seconds is not None:
            check_range("budget_seconds", self.budget_seconds, 0.001, 86_400.0)
        check_range("clip_norm", self.clip_norm, 1e-6, 1e6)


def _check_method(method: str) -> None:
    if method.startswith(MATCH_PREFIX):
        check_globs(method, method.removeprefix(MATCH_PREFIX))
    elif method not in METHODS:
        allowed = f"{', '.join(METHODS)} or match:GLOBS"
        raise InputError(f"method is {method[:_SHOWN]!r}; allowed: {allowed}. Choose one.")
