"""Frozen values that configure a run: the device, the precision, the recipe.

Settings are read once, at start, by `RunnerSettings.from_environment`. This module knows no model.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field, ValidationError
from pydantic_settings import EnvSettingsSource, SettingsConfigDict

from cog_adapt.runner.allowed_values import check_globs, check_range
from cog_adapt.runner.errors import ConfigError, InputError
from cog_adapt.shared_settings import (
    Allowed,
    ExistingFile,
    Flag,
    SharedSettings,
    WholeNumber,
    refusals,
)
from gradient_check.phases.precision import ServeMode

AUTO, LORA, HEAD, ALL = "auto", "lora", "head", "all"
QUICK: Final = "quick"
FULL: Final = "full"
OFF: Final = "off"
METHODS = (AUTO, LORA, HEAD, "norms", "bias", ALL)
MATCH_PREFIX = "match:"
_SHOWN = 80


class RunnerSettings(SharedSettings):
    """The settings of a process; `docs/settings.md` has a row for each field.

    A value that is not passed has its default: only `from_environment` reads the environment.

    Raises:
        ConfigError: a value is not allowed.
    """

    model_config = SettingsConfigDict(extra="forbid")

    device: Annotated[str, Allowed("auto, cpu, cuda or cuda:N")] = Field(
        default="auto",
        pattern=r"^(auto|cpu|cuda(:\d+)?)$",
        description="`auto` (CUDA where there is one, else CPU), `cpu`, `cuda` or `cuda:N`",
    )
    precision: Literal["auto", "fp32", "bf16", "fp16"] = Field(
        default="auto",
        description="`auto` (bf16 on a CUDA device that has it, else fp32), `fp32`, `bf16`, `fp16`",
    )
    serve_mode: ServeMode = Field(
        default="inference_mode",
        description="how inference runs; `no_grad` for models that keep tensors between calls",
    )
    batch_size: WholeNumber = Field(default=32, ge=1, description="inputs per inference tick")
    served_adapters: WholeNumber = Field(
        default=16,
        ge=1,
        description="adapters kept ready on the device; the longest unused goes first",
    )
    weights_dir: Path = Field(
        default=Path("weights"), description="where adapters and checkpoints are stored"
    )
    checkpoint_days: WholeNumber = Field(
        default=7, ge=1, description="days for which the state of a killed training is kept"
    )
    checkpoint_bytes: WholeNumber = Field(
        default=0,
        ge=0,
        description="bytes of states of killed trainings; the oldest go; 0: a tenth of DISK_BYTES, "
        "or of the free disk",
    )
    adapter_memory_bytes: WholeNumber = Field(
        default=0, ge=0, description="bytes of adapters in memory; 0: memory / 8"
    )
    adapter_owner_memory_bytes: WholeNumber = Field(
        default=0,
        ge=0,
        description="bytes of one owner's adapters in memory; 0: OWNER_SHARE of all",
    )
    adapter_disk_bytes: WholeNumber = Field(
        default=0,
        ge=0,
        description="bytes of adapters on disk; 0: a quarter of DISK_BYTES, or of the disk",
    )
    adapter_owner_disk_bytes: WholeNumber = Field(
        default=0, ge=0, description="bytes of one owner's adapters on disk; 0: OWNER_SHARE of all"
    )
    adapter_days: WholeNumber = Field(
        default=90,
        ge=0,
        description="days after which an unused adapter without pin or name goes; 0: never",
    )
    adapter_store: Annotated[str, Allowed("URL, such as s3://bucket/folder")] = Field(
        default="",
        pattern=r"^(\w+://.*)?$",
        description="URL of the store that all servers share: s3, gs, az, file; empty: none",
    )
    served_adapter_bytes: WholeNumber = Field(
        default=0,
        ge=0,
        description="bytes of adapters kept ready on the device; 0: device memory / 8",
    )
    feature_bytes: WholeNumber = Field(
        default=0,
        ge=0,
        description="bytes of features and encoded inputs of recent examples; 0: memory / 64",
    )
    receipt_key: Annotated[ExistingFile, Allowed("PEM file of an Ed25519 private key")] = Field(
        default="",
        description="PEM file of the Ed25519 key that signs receipts; empty: they are not signed",
    )
    checkpoint_owner_bytes: WholeNumber = Field(
        default=0,
        ge=0,
        description="bytes of one owner's states of killed trainings; 0: OWNER_SHARE of all",
    )
    adaptation_memory_bytes: WholeNumber = Field(
        default=0,
        ge=0,
        description="bytes that adaptations under way may need; 0: MEMORY_SHARE of seven eighths "
        "of what is free before them",
    )
    adaptations_at_once: WholeNumber = Field(
        default=8,
        ge=1,
        description="adaptations under way, tick by tick in turn; further ones wait, predictions "
        "do not",
    )
    generation_bytes: WholeNumber = Field(
        default=0,
        ge=0,
        description="bytes of keys and values of growing answers; 0: device memory / 8",
    )
    deterministic: Flag = Field(
        default=False,
        description="1: on CUDA too the same seed gives the same bits, and what cannot is refused",
    )
    compile_blocks: Flag = Field(
        default=False,
        description="1: on CUDA, blocks of a step run by torch.compile; unproven on a card",
    )
    self_test: Literal["quick", "full", "off"] = Field(
        default=QUICK,
        description="at the start: `quick` where `full` has passed before under the same "
        "conditions (beside the weights), else `full`; `full` always; `off`: nothing is proved",
    )
    self_test_strict: Flag = Field(
        default=False,
        description="1: checks that the whole self-test leaves out, and unverified parameters, "
        "are failures",
    )

    if not TYPE_CHECKING:  # a type checker takes the fields from the class

        def __init__(self, **values: object) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise ConfigError("\n".join(refusals(type(self).model_fields, error))) from error

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "RunnerSettings":
        """Read each setting from the variable of its name in capitals.

        Raises:
            ConfigError: a value is not allowed.
        """
        source = EnvSettingsSource(cls)
        source.env_vars = {
            name: environment[name.upper()]
            for name in cls.model_fields
            if environment.get(name.upper())
        }
        return cls(**source())


@dataclass(frozen=True)
class Recipe:
    """The method and the settings of one adaptation.

    Attributes:
        method: `auto` (a head in closed form, then the task's method if it pays), `lora`, `head`,
            `norms`, `bias`, `all`, or `match:GLOBS` (whole parameter names; `*`, `?` and `[…]`,
            several after commas); "": of the adapter that the adaptation continues from, else the
            task's. The task's own start tensors (a classifier's head) train with every method.
        rank: columns of each LoRA pair; 0: as for `method`.
        max_steps: optimizer steps at most, 1 to 100,000.
        batch_size: examples per step, 1 to 4,096.
        repeats: rows of each of these examples in a step, 1 to 256: a loss with randomness
            (`Task.random_loss`) draws each row's noise anew, so that few examples give a steady
            gradient.
        ema: share that the average of the trained tensors keeps at each step, 0 to 0.9999, such as
            0.99; the adapter has the averages, which are scored too. 0: no average.
        extra_examples: so many examples are made by the base before the first step, and trained on
            (`Task.extra_examples`), so that it does not unlearn them; 0 to 1,000.
        extra_weight: the weight of each of these beside those that were sent, 0 to 1,000.
        learning_rate: None or 0 takes `adaptation.automatic_learning_rate`.
        seed: draws batches, LoRA's A and dropout; repeats a run bit for bit (see `docs/gpu.md`).
        budget_seconds: wall time after which the best adapter so far is returned; None: no limit.
        stop_after: steps after which the best is returned; the rate falls as for `max_steps`.
        halve_at: step before which parts of steps become half as large, as in the replayed
            adaptation.
        hold_out: share of each label's examples kept for scoring (at least one of five), 0 to 0.5.
        clip_norm: the gradient's norm is clipped to this.
        weight_decay: AdamW's.
        blocks: how many of the last blocks (`Task.blocks`) are trained besides the head; 0: all.
        checkpointing: recompute activations in backward (non-reentrant): less memory, more time.
        previews: the request is answered so many times while it learns, at even distances among the
            steps, 0 to 100; what is learned is the same.
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
    repeats: int = 1
    ema: float = 0.0
    extra_examples: int = 0
    extra_weight: float = 1.0
    previews: int = 0

    def __post_init__(self) -> None:
        if self.method:
            _check_method(self.method)
        check_range("rank", value=self.rank, low=0, high=1024)
        check_range("max_steps", value=self.max_steps, low=1, high=100_000)
        check_range("batch_size", value=self.batch_size, low=1, high=4_096)
        check_range("repeats", value=self.repeats, low=1, high=256)
        check_range("ema", value=self.ema, low=0.0, high=0.9999)
        check_range("extra_examples", value=self.extra_examples, low=0, high=1_000)
        check_range("extra_weight", value=self.extra_weight, low=0.0, high=1_000.0)
        check_range("previews", value=self.previews, low=0, high=100)
        for name, least in (("stop_after", 0), ("halve_at", 1)):
            if (value := getattr(self, name)) is not None:
                check_range(name, value=value, low=least, high=100_000)
        check_range("blocks", value=self.blocks, low=0, high=10_000)
        check_range("seed", value=self.seed, low=0, high=2**63 - 1)
        check_range("hold_out", value=self.hold_out, low=0.0, high=0.5)
        check_range("weight_decay", value=self.weight_decay, low=0.0, high=1.0)
        if self.learning_rate:
            check_range("learning_rate", value=self.learning_rate, low=1e-8, high=1.0)
        if self.budget_seconds is not None:
            check_range("budget_seconds", value=self.budget_seconds, low=0.001, high=86_400.0)
        check_range("clip_norm", value=self.clip_norm, low=1e-6, high=1e6)


def recipe_fields(recipe: Recipe) -> dict[str, Any]:
    """Return the fields that decide what is learned; the newer only if they are not the defaults.

    So digests and files of adaptations without them are those of versions that had no such fields.
    """
    usual = {"repeats": 1, "ema": 0.0, "extra_examples": 0, "extra_weight": 1.0}
    fields = {name: value for name, value in asdict(recipe).items() if name != "previews"}
    return {n: v for n, v in fields.items() if n not in usual or usual[n] != v}


def _check_method(method: str) -> None:
    if method.startswith(MATCH_PREFIX):
        check_globs(method, method.removeprefix(MATCH_PREFIX))
    elif method not in METHODS:
        allowed = f"{', '.join(METHODS)} or match:GLOBS"
        raise InputError(f"method is {method[:_SHOWN]!r}; allowed: {allowed}. Choose one.")
