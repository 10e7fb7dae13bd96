"""Reads the schema of a prediction or training from a server's OpenAPI document."""

from dataclasses import dataclass
from typing import Any

from cog_adapt.server.errors import InputError
from cog_adapt.server.protocol import Kind
from cog_adapt.server.schema.types import Schema


@dataclass(frozen=True)
class InputSchema:
    """The inputs and the output of a server's predictor or training.

    Attributes:
        document: the OpenAPI document.
        kind: the predictor or the training.

    Raises:
        InputError: the server has no such kind.
    """

    document: dict[str, Any]
    kind: Kind

    def __post_init__(self) -> None:
        if self._prefix + "Input" not in self.components:
            has = "no predictor" if self.kind == "predict" else "no training function"
            raise InputError(f"the server has {has}; name another with --url, or set it.")

    @property
    def _prefix(self) -> str:
        return "" if self.kind == "predict" else "Training"

    @property
    def components(self) -> dict[str, Schema]:
        """All schemas of the document."""
        components: dict[str, Schema] = self.document["components"]["schemas"]
        return components

    @property
    def input_name(self) -> str:
        """The name of the component that describes the inputs."""
        return f"{self._prefix}Input"

    @property
    def properties(self) -> dict[str, Schema]:
        """The schema of each input, in the order of the signature."""
        properties: dict[str, Schema] = self.components[self.input_name].get("properties", {})
        return dict(sorted(properties.items(), key=lambda one: one[1].get("x-order", 0)))

    @property
    def required(self) -> tuple[str, ...]:
        """The inputs without a default."""
        return tuple(self.components[self.input_name].get("required", ()))

    @property
    def is_text(self) -> bool:
        """Whether the output is a list of the pieces of one text."""
        output = self.components.get(f"{self._prefix}Output", {})
        return bool(output.get("x-cog-array-display") == "concatenate")

    def steps(self, inputs: dict[str, Any]) -> int | None:
        """Return the most steps of a run: its input `steps`, given or by default, or None."""
        steps = inputs.get("steps", self.properties.get("steps", {}).get("default"))
        return steps if isinstance(steps, int) else None
