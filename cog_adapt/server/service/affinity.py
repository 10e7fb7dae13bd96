"""What a request needs of a worker: the adapter that it names, the examples that it brings."""

import hashlib
from dataclasses import dataclass

import msgspec

_NOTHING = (b"", b'""', b"null", b"[]")


class _Inputs(msgspec.Struct):
    """The inputs by which predictors of this package take examples, recipes and adapters."""

    examples: msgspec.Raw = msgspec.Raw(b"")
    examples_file: msgspec.Raw = msgspec.Raw(b"")
    adapter: msgspec.Raw = msgspec.Raw(b"")
    method: msgspec.Raw = msgspec.Raw(b"")
    rank: msgspec.Raw = msgspec.Raw(b"")
    blocks: msgspec.Raw = msgspec.Raw(b"")
    steps: msgspec.Raw = msgspec.Raw(b"")
    budget_seconds: msgspec.Raw = msgspec.Raw(b"")
    learning_rate: msgspec.Raw = msgspec.Raw(b"")
    hold_out: msgspec.Raw = msgspec.Raw(b"")
    seed: msgspec.Raw = msgspec.Raw(b"")
    fresh: msgspec.Raw = msgspec.Raw(b"")
    weights: msgspec.Raw = msgspec.Raw(b"")
    deterministic: msgspec.Raw = msgspec.Raw(b"")


_decoder = msgspec.json.Decoder(_Inputs)


@dataclass(frozen=True)
class Affinity:
    """The parts of a request that make one worker quicker than another.

    Attributes:
        adaptation: owner, and digest of the examples and the recipe; None without examples. Another
            recipe is another adaptation: a search over seeds or rates uses every worker.
        adapter: owner, and the adapter's id or name; None without an adapter.
    """

    adaptation: tuple[str, str] | None = None
    adapter: tuple[str, str] | None = None

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """Return those that are there."""
        return tuple(each for each in (self.adapter, self.adaptation) if each is not None)


def adapter_word(name: bytes) -> str:
    """Return a short word for an adapter's name in JSON, however long a caller makes the name."""
    return hashlib.sha256(name).hexdigest()


def read_affinity(inputs: bytes, owner: str) -> Affinity:
    """Read the affinity of a request; a predictor with other inputs has none.

    Args:
        inputs: the model's input, a JSON object.
        owner: of the request.
    """
    try:
        found = _decoder.decode(inputs)
    except msgspec.DecodeError:
        return Affinity()
    rows = [bytes(each) for each in (found.examples, found.examples_file)]
    adaptation = adapter = None
    if any(each not in _NOTHING for each in rows):
        parts = [bytes(each) for each in msgspec.structs.astuple(found)]
        adaptation = owner, hashlib.sha256(b"\0".join(parts)).hexdigest()
    if (name := bytes(found.adapter)) not in _NOTHING:
        adapter = owner, adapter_word(name)
    return Affinity(adaptation, adapter)
