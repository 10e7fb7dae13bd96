"""The bodies of OpenAI's requests: what is supported, and what is refused by name.

A field that this server does not support may have the API's default; any other value, and any
unknown field, is refused. https://platform.openai.com/docs/api-reference describes the fields.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

BASE = "base"
_SHOWN = 100  # characters of a value in a message
_OFF: tuple[Any, ...] = (None, False)
_NONE: tuple[Any, ...] = (None, 0, 0.0)
_ABSENT: tuple[Any, ...] = (None, [], {})


class UnsupportedError(ValueError):
    """A field has a value that this server does not support.

    Attributes:
        field: its name.
    """

    def __init__(self, field: str, value: object, remedy: str) -> None:
        shown = repr(value)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
        super().__init__(f"{field} is {shown}, which this server does not support. {remedy}")
        self.field = field


class _Fields(BaseModel):
    """Fields by name; others are kept, so that they can be refused."""

    model_config = ConfigDict(extra="allow")
    DEFAULTS: ClassVar[Mapping[str, tuple[Any, ...]]] = {}

    def refuse_unsupported(self, place: str = "") -> None:
        """Raise UnsupportedError for the first field that would have to be ignored."""
        for name, value in (self.model_extra or {}).items():
            defaults = self.DEFAULTS.get(name)
            if defaults is None:
                raise UnsupportedError(f"{place}{name}", value, "Leave it out.")
            if not any(type(value) is type(each) and value == each for each in defaults):
                remedy = f"Leave it out, or send {defaults[-1]!r}."
                raise UnsupportedError(f"{place}{name}", value, remedy)


class StreamOptions(_Fields):
    """What a stream has besides its pieces."""

    DEFAULTS = {"include_obfuscation": _OFF}
    include_usage: bool = False


class Part(_Fields):
    """A part of a message; only texts are supported."""

    type: Literal["text"]
    text: str


class Message(_Fields):
    """What one side said."""

    DEFAULTS = dict.fromkeys(
        ("name", "tool_calls", "tool_call_id", "function_call", "refusal", "audio", "annotations"),
        _ABSENT,
    )
    role: str
    content: str | list[Part]

    def plain(self) -> dict[str, str]:
        """Return it with one text."""
        content = self.content
        text = content if isinstance(content, str) else "".join(part.text for part in content)
        return {"role": self.role, "content": text}


class Asked(_Fields):
    """The fields of both routes; `extra_body` of OpenAI's clients holds those from `top_k` on."""

    DEFAULTS = {
        "n": (None, 1),
        "best_of": (None, 1),
        "frequency_penalty": _NONE,
        "presence_penalty": _NONE,
        "logit_bias": _ABSENT,
        "user": (None,),
        "store": _OFF,
        "service_tier": (None, "auto"),
        "metadata": _ABSENT,
    }
    model: str = BASE
    max_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None
    adapter: str | None = None
    examples: str | list[dict[str, Any]] | None = None
    steps: int | None = None
    learning_rate: float | None = None
    hold_out: float | None = None

    def inputs(self) -> dict[str, Any]:
        """Return the predictor's inputs, but for the text."""
        named = "" if self.model == BASE else self.model
        found = {
            "adapter": self.adapter or named,
            "temperature": 1.0 if self.temperature is None else self.temperature,
            "stop": [self.stop] if isinstance(self.stop, str) else self.stop,
            "max_tokens": self.max_tokens,
            "top_p": self.top_p,
            "seed": self.seed,
            "top_k": self.top_k,
            "repetition_penalty": self.repetition_penalty,
            "examples": self.examples,
            "steps": self.steps,
            "learning_rate": self.learning_rate,
            "hold_out": self.hold_out,
        }
        return {name: value for name, value in found.items() if value is not None}

    def check(self) -> None:
        """Raise UnsupportedError for a value that would have to be ignored."""
        self.refuse_unsupported()
        if self.adapter and self.model not in (BASE, self.adapter):
            remedy = f"Leave it out, or send model={BASE!r}: `model` names an adapter too."
            raise UnsupportedError("adapter", self.adapter, remedy)
        if self.stream_options is not None:
            self.stream_options.refuse_unsupported("stream_options.")


class ChatAsked(Asked):
    """The body of `/v1/chat/completions`."""

    DEFAULTS = {
        **Asked.DEFAULTS,
        "logprobs": _OFF,
        "top_logprobs": _NONE,
        "response_format": (None, {"type": "text"}),
        "tools": _ABSENT,
        "functions": _ABSENT,
        "tool_choice": (None, "auto", "none"),
        "function_call": (None, "auto", "none"),
        "parallel_tool_calls": (None, True),
        "modalities": (None, ["text"]),
    }
    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)

    def inputs(self) -> dict[str, Any]:
        """Return the predictor's inputs."""
        newer = {"max_tokens": self.max_completion_tokens} if self.max_completion_tokens else {}
        said = [message.plain() for message in self.messages]
        return super().inputs() | newer | {"messages": said}

    def check(self) -> None:
        """Raise UnsupportedError for a value that would have to be ignored."""
        super().check()
        for number, message in enumerate(self.messages):
            message.refuse_unsupported(f"messages.{number}.")
            parts = message.content if isinstance(message.content, list) else ()
            for at, part in enumerate(parts):
                part.refuse_unsupported(f"messages.{number}.content.{at}.")


class TextAsked(Asked):
    """The body of `/v1/completions`: a text to go on with."""

    DEFAULTS = {**Asked.DEFAULTS, "logprobs": (None,), "echo": _OFF, "suffix": (None, "")}
    prompt: str

    def inputs(self) -> dict[str, Any]:
        """Return the predictor's inputs."""
        return super().inputs() | {"prompt": self.prompt, "raw": True}
