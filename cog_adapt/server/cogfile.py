"""Reads the server's part of `cog.yaml`: what to run, how many at once, the environment.

Other keys are left to `cog build`, which checks the whole file.
"""

import re
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from cog_adapt.server.errors import ConfigError


def _matching(pattern: str, allowed: str) -> AfterValidator:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"allowed: {allowed}")
        return value

    return AfterValidator(check)


# Names that Cog reserves; `cog build` refuses them.
_RESERVED = (
    r"PATH|LD_LIBRARY_PATH|PYTHONPATH|VIRTUAL_ENV|PYTHONUNBUFFERED|LIBRARY_PATH|HF_ENDPOINT"
    r"|HF_HUB_ENABLE_HF_TRANSFER|(R8|REPLICATE|CUDA|NVIDIA|NV|PGET|KUBERNETES)_.*"
)
Reference = Annotated[
    str, _matching(r"[^:]+\.py:[A-Za-z_]\w*", "FILE.py:NAME, such as predict.py:Predictor")
]
Variable = Annotated[
    str,
    _matching(rf"(?s)(?!(?:{_RESERVED})=)[^=]+=.*", "NAME=VALUE, the NAME not one reserved by Cog"),
]


class _Section(BaseModel):
    """A mapping of `cog.yaml`, frozen and strict about the types of the keys that are read."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class Concurrency(_Section):
    """Predictions at once (deprecated: `@cog.concurrent`)."""

    max: int | None = Field(default=None, ge=1)


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

    traces: Traces | None = None


class Cogfile(_Section):
    """The keys of `cog.yaml` that are read."""

    run: Reference | None = None
    predict: Reference | None = None
    train: Reference | None = None
    concurrency: Concurrency | None = None
    environment: list[Variable] | None = None
    observability: Observability | None = None

    @model_validator(mode="after")
    def _one_predictor(self) -> Self:
        if self.run and self.predict:
            raise ValueError("run and predict are both set; keep run, the name in use")
        return self

    @property
    def predict_reference(self) -> str | None:
        """The reference for predictions: `run`, or `predict` by its older name."""
        return self.run or self.predict

    @property
    def variables(self) -> dict[str, str]:
        """The variables that `cog build` writes into the image: `environment`, and the tracing."""
        traces = self.observability and self.observability.traces
        return (traces.variables if traces else {}) | dict(
            line.split("=", 1) for line in self.environment or ()
        )


def read_cogfile(path: Path = Path("cog.yaml")) -> Cogfile:
    """Read `cog.yaml`.

    Raises:
        ConfigError: there is no such file, the file is not YAML, or values are not allowed; the
            message has one line for each such value.
    """
    try:
        with path.open("rb") as file:
            return Cogfile.model_validate(yaml.safe_load(file))
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist; create it or name another file.") from error
    except ValidationError as error:
        lines = [f"{path}: {_words(problem)}" for problem in error.errors()]
        raise ConfigError("\n".join(lines)) from error
    except (OSError, ValueError, yaml.YAMLError) as error:  # for instance an impossible date
        reason = " ".join(str(error).split())
        raise ConfigError(f"{path} cannot be read as YAML: {reason}. Correct it.") from error


# pydantic's texts about Python, in the words of YAML.
_YAML_WORDS = {"model_type": "Input should be a mapping"}


def _words(problem: ErrorDetails) -> str:
    key = ".".join(map(str, problem["loc"])) or "the file"
    message = _YAML_WORDS.get(problem["type"], problem["msg"]).removeprefix("Value error, ")
    return f"{key} is {problem['input']!r}: {message}"
