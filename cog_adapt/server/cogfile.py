"""Read and check `cog.yaml`.

The keys are those of Cog 0.23.1. A mistake that would stop `cog build` is refused here, where
it costs a second: unknown keys, wrong types, values out of range. Deprecated keys are allowed.
"""

import re
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.yaml_file import YamlFile, read_yaml


def _matching(pattern: str, allowed: str) -> AfterValidator:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"allowed: {allowed}")
        return value

    return AfterValidator(check)


Item = TypeVar("Item")
# A strict tuple would refuse the lists of YAML; its items stay strict.
Items = Annotated[tuple[Item, ...], Strict(False)]
# What Cog keeps to itself; `cog build` refuses these names.
_RESERVED = (
    r"PATH|LD_LIBRARY_PATH|PYTHONPATH|VIRTUAL_ENV|PYTHONUNBUFFERED|LIBRARY_PATH|HF_ENDPOINT"
    r"|HF_HUB_ENABLE_HF_TRANSFER|(R8|REPLICATE|CUDA|NVIDIA|NV|PGET|KUBERNETES)_.*"
)
Reference = Annotated[
    str, _matching(r"[^:]+\.py:[A-Za-z_]\w*", "FILE.py:NAME, such as predict.py:Predictor")
]
PythonVersion = Annotated[
    str, _matching(r"3\.1[0-3](\.\d+)?", '"3.10" to "3.13" in quotes (bare 3.10 is read as 3.1)')
]
Variable = Annotated[
    str,
    _matching(rf"(?s)(?!(?:{_RESERVED})=)[^=]+=.*", "NAME=VALUE, the NAME not one reserved by Cog"),
]
WeightsUri = Annotated[str, _matching(r"(hf|file|https)://.+", "hf://…, file://… or https://…")]


class _Section(BaseModel):
    """A mapping of `cog.yaml`: frozen, and strict about types and unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, values: object) -> object:
        unknown = (
            [key for key in values if key not in cls.model_fields]
            if isinstance(values, dict)
            else []
        )
        if unknown:
            allowed = ", ".join(cls.model_fields)
            raise PydanticCustomError(
                "unknown_keys",
                "no such key; allowed: {allowed}",
                {"allowed": allowed, "keys": unknown},
            )
        return values


class Mount(_Section):
    """A build secret that a command may read."""

    type: Literal["secret"]
    id: str
    target: str


class RunCommand(_Section):
    """A build command with mounts."""

    command: str
    mounts: Items[Mount] = ()


# Told apart by type, so that a mistake in one is not called a mistake in the other too.
Command = Annotated[
    Annotated[str, Tag("text")] | Annotated[RunCommand, Tag("mapping")],
    Discriminator(lambda command: "mapping" if isinstance(command, dict) else "text"),
]


class Build(_Section):
    """How the image is built."""

    python_version: PythonVersion
    gpu: bool = False
    cuda: str | None = None
    cudnn: str | None = None
    python_requirements: str | None = None
    python_packages: Items[str] | None = None
    system_packages: Items[str] | None = None
    run: Items[Command] | None = None
    pre_install: Items[str] | None = None
    sdk_version: str | None = None

    @model_validator(mode="after")
    def _one_list_of_packages(self) -> Self:
        if self.python_requirements and self.python_packages:
            raise ValueError("python_requirements and python_packages are both set; keep the first")
        return self


class Concurrency(_Section):
    """Predictions at once (deprecated: `@cog.concurrent`)."""

    max: int = Field(ge=1)
    default_target: int | None = None


class WeightsSource(_Section):
    """Where managed weights come from."""

    uri: WeightsUri
    include: Items[str] = ()
    exclude: Items[str] = ()


class Weights(_Section):
    """Weights that the platform mounts."""

    name: str
    target: str
    source: WeightsSource | None = None


class Traces(_Section):
    """Export of traces."""

    enabled: bool = False
    sampler: str | None = None
    sampler_arg: float | None = None
    trace_header: str | None = None
    trace_header_format: Literal["w3c", "jaeger"] | None = None

    @property
    def variables(self) -> dict[str, str]:
        """The same in the environment of an image."""
        values = {
            "COG_TRACE_CONFIGURED": "true",
            "COG_TRACE_ENABLED": "true" if self.enabled else "false",
            "COG_TRACE_SAMPLER": self.sampler,
            "COG_TRACE_SAMPLER_ARG": None if self.sampler_arg is None else f"{self.sampler_arg:g}",
            "COG_TRACE_HEADER": self.trace_header,
            "COG_TRACE_HEADER_FORMAT": self.trace_header_format,
        }
        return {name: value for name, value in values.items() if value is not None}


class Observability(_Section):
    """Telemetry, off by default."""

    config: Annotated[str, _matching(r".+\.py", "a .py file")] | None = None
    traces: Traces | None = None


class Cogfile(_Section):
    """The whole of `cog.yaml`."""

    build: Build | None = None
    run: Reference | None = None
    predict: Reference | None = None
    train: Reference | None = None
    image: str | None = None
    model: str | None = None
    concurrency: Concurrency | None = None
    environment: Items[Variable] | None = None
    weights: Items[Weights] | None = None
    observability: Observability | None = None

    @model_validator(mode="after")
    def _one_predictor(self) -> Self:
        if self.run and self.predict:
            raise ValueError("run and predict are both set; keep run, the name in use")
        return self

    @property
    def predict_reference(self) -> str | None:
        """What serves predictions: `run`, or `predict` by its older name."""
        return self.run or self.predict

    @property
    def variables(self) -> dict[str, str]:
        """What `cog build` writes into the image: `environment`, and how to trace."""
        traces = self.observability and self.observability.traces
        return (traces.variables if traces else {}) | dict(
            line.split("=", 1) for line in self.environment or ()
        )


def read_cogfile(path: Path = Path("cog.yaml")) -> Cogfile:
    """Read `cog.yaml`.

    Raises:
        ConfigError: there is no such file, it is no YAML, or a key or value is not allowed; the
            message has one line for each.
    """
    file = read_yaml(path)
    try:
        return Cogfile.model_validate(file.value)
    except ValidationError as error:
        lines = [line for detail in error.errors() for line in _lines(file, detail)]
        raise ConfigError("\n".join(lines)) from error


# Where pydantic speaks of Python, the words of YAML.
_YAML_WORDS = {"tuple_type": "Input should be a list", "model_type": "Input should be a mapping"}


def _lines(file: YamlFile, detail: ErrorDetails) -> list[str]:
    """One line for what pydantic found; of unknown keys, for each."""
    location, kind = detail["loc"], detail["type"]
    if kind == "unknown_keys":
        found = [(*file.find((*location, key)), key) for key in detail["ctx"]["keys"]]
        return [f"{place}: {name or key}: {detail['msg']}" for place, name, key in found]
    place, name = file.find(location)
    if kind == "missing":
        return [f"{place}: {name}.{location[-1]} is required; add it"]
    message = _YAML_WORDS.get(kind, detail["msg"]).removeprefix("Value error, ")
    return [f"{place}: {name or 'the file'} is {detail['input']!r}: {message}"]
