"""What a user writes for a model of their own: one class."""

import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from cog_adapt.runner.data.examples import Example, usual_example
from cog_adapt.runner.data.row import brief
from cog_adapt.runner.errors import ConfigError, InputError, SetupError
from cog_adapt.runner.task.picture_sizes import pixel_count

_SHOWN = 10
_PATTERNS = {
    "lora_targets": ("linear layers", r"encoder[.].*"),
    "head": ("parameters", r"head[.].*"),
    "blocks": ("blocks", r"encoder[.]layers[.]\d+"),
    "unused": ("parameters", r"pooler[.].*"),
}
Batch = dict[str, Tensor]
"""Tensors by name, each with one row per input: (N, ...)."""


class PartTokens:
    """Counts the tokens of a part of a step, of rows that are padded to the longest."""

    def of(self, row: Batch, target: Tensor, device: torch.device) -> int:
        """Count those of an encoded example; 0: those of its `attention_mask`."""
        return 0

    def all(self, tokens: Sequence[int], device: torch.device) -> int:
        """Count those of a part with examples of so many."""
        return len(tokens) * max(tokens, default=0)


class Task(ABC):
    """A model and what it is asked to do.

    Write `load`, `encode`, `loss`, `predict` and `probe`; every other hook has a default. The
    runner calls `load` once in setup, `example`, `labels` and `decoding_cost` on any thread,
    `decode_input` on a thread of its own, and everything else on its model thread, in the right
    phase, with tensors on the right device. A task keeps no state that a call changes.

    Attributes:
        method: what an adaptation trains where the request does not say (`Recipe.method`).
        rank: columns of each LoRA pair where the request does not say.
        lora_targets: full-match regex of the linear layers that LoRA adapts.
        head: full-match regex of the parameters that every method trains besides its own.
        blocks: full-match regex of the names of the model's blocks, which run one after the other
            in this order, each once, on what the one before it returned (`encoder[.]layers[.].`);
            `Recipe.blocks` trains the last of them. Those before the first that is trained run once
            for each example instead of at each step. By default no block has a name.
        unused: regex of parameters that the loss rightly ignores (an encoder's pooler, say).
        stop_gradients: stops that are meant: regexes of module paths or parameter names, or parts
            of the line that stops the gradient, as texts or as regexes; one text is one pattern.
            The self-test excuses these alone.
        reversed_gradients: where what passes backward is the slope times a factor, of either
            sign, by such patterns: `{"domain.reverse": -0.3}`.
        surrogate_gradients: such patterns of blocks whose gradient is meant to be no slope.
        random_loss: whether the loss draws noise (a diffusion's steps, a VAE's sample), so that it
            differs from seed to seed; the self-test then holds its checks under one seed. Noise
            from `cog_adapt.row_generators()` is the same however a batch is cut.
        max_labels: how many names a label set may have.
        max_label_characters: how long each may be.
        max_characters: of an input that is a text, or of all texts in it, and of an example's
            target; what has more is refused before any function of the task sees it on the model
            thread. One input is encoded in one tick, so this bounds what others wait for: 33 ms of
            a tokenizer at worst. A task whose `encode` cuts texts before its tokenizer may allow
            more; so may one that tokenizes in `decode_input`.
        max_decoding: of all that a request's inputs and examples have by `decoding_cost`.
        decoding_unit: what `decoding_cost` counts.
        max_scores: inputs times labels of one request: an answer holds a number for each.
        shares_forwards: whether inputs of several adapters may be rows of one forward. Then
            `predict` asks the module for `module(batch)` (or `module(**batch)`) and nothing else,
            whose answer is a tensor with a row for each input and, where there is a head, a last
            axis of labels that no later layer mixes; and each layer sees the rows of the batch in
            their order, or the model says otherwise by `cog_adapt.batch_rows`. More padding must
            not change an answer.
        rows_are_independent: False where the loss compares examples of a batch, which then is
            never cut into parts (docs/predictions.md).
        part_tokens: of such a part; 0: 192 on a CPU (128 where most weights are trained), 16,384 on
            a GPU. `counts` counts them.
        options: a frozen dataclass with the defaults of a request's own parameters (a
            temperature); `predict` and `generate` get it, or the request's, of its class.
    """

    method: str = "lora"
    rank: int = 8
    lora_targets: str = ".*"
    head: str = r"head\..*"
    blocks: str = "(?!)"  # matches nothing
    unused: str = "(?!)"
    stop_gradients: str | tuple[str, ...] = ()
    reversed_gradients: Mapping[str, float] = MappingProxyType({})
    surrogate_gradients: str | tuple[str, ...] = ()
    random_loss: bool = False
    max_labels: int = 1_000
    max_label_characters: int = 200
    max_characters: int = 16_384
    max_decoding: int = 200_000_000
    decoding_unit: str = "pixels"
    max_scores: int = 200_000
    shares_forwards: bool = False
    rows_are_independent: bool = True
    part_tokens: int = 0
    counts: PartTokens = PartTokens()
    options: Any = None

    @abstractmethod
    def load(self) -> nn.Module:
        """Build the module with its weights, on the CPU."""

    @abstractmethod
    def encode(self, inputs: Sequence[Any]) -> Batch:
        """Turn N inputs into CPU tensors with N rows each; refuse unusable ones (InputError).

        Each is what `decode_input` returned.

        An adaptation calls it at most once for each example, and joins the rows, where they are
        padded as it pads them; where that does not give what several at once do, for each batch.
        """

    @abstractmethod
    def loss(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        """Compute the loss of each example, shape (N,)."""

    @abstractmethod
    def predict(
        self,
        module: nn.Module,
        batch: Batch,
        labels: Sequence[str],
        options: Any,  # noqa: ANN401 - the task's own class
    ) -> list[Any]:
        """Compute N predictions as plain Python values."""

    @abstractmethod
    def probe(self) -> list[Example]:
        """Give a few examples for the self-test (two are enough) that any host can encode."""

    def example(self, row: Mapping[str, Any]) -> Example:
        """Turn a row of CSV, JSON Lines or JSON into an example; refuse an unusable one.

        The default takes the columns `input` (or `text`, `sentence`) and `target` (or `label`), in
        any case. Columns that are not asked for are named in the report.
        """
        return usual_example(row)

    def decoding_cost(self, value: Any) -> int:  # noqa: ANN401 - what a caller sent
        """Count what decoding an input takes, by its header alone: pixels or samples.

        A request whose inputs and examples have more than `max_decoding` together is refused before
        anything is decoded, in `encode` too. The default counts the pixels of the pictures that an
        input is or holds, as files, bytes, base64 or data URIs: PNG, JPEG, WebP, GIF, BMP, TIFF.
        """
        return pixel_count(value)

    def decode_input(self, value: Any) -> Any:  # noqa: ANN401 - what a caller sent
        """Decode a compressed input (a picture, a sound) for `encode`; refuse a broken one.

        Called for each input of a request, and for that of each example before it is learned, one
        at a time on a thread that keeps nobody waiting; on the model thread for the probe alone.
        What it returns is kept until the request ends, so it should be small: 150 kB of pixels.
        """
        return value

    def shortened(self, inputs: Sequence[Any]) -> Sequence[int]:
        """Give the positions of the inputs that `encode` cuts; the report names them.

        The inputs are as they were sent, also where `decode_input` makes others of them.
        """
        return ()

    def labels(self, examples: Sequence[Example]) -> tuple[str, ...]:
        """Give the label set of these examples, in a stable order; refuse an unusable one.

        A task with a fixed set returns it whatever the examples are, also for none; one without
        labels returns ().
        """
        return ()

    def encode_targets(self, targets: Sequence[Any], labels: Sequence[str]) -> Tensor:
        """Turn N targets into a CPU tensor with N rows.

        By default these are positions in the label set, or, without labels, float32 numbers.
        """
        if not labels:
            return _numbers(targets)
        rows = {label: row for row, label in enumerate(labels)}
        unknown = next((t for t in targets if not isinstance(t, Hashable) or t not in rows), None)
        if unknown is not None:
            raise InputError(
                f"label {brief(unknown)} is not among {', '.join(map(brief, labels[:_SHOWN]))}"
                f"{', …' if len(labels) > _SHOWN else ''}. "
                "Use these, or name it in `labels`."
            )
        return torch.tensor([rows[target] for target in targets])

    def start(
        self, module: nn.Module, labels: Sequence[str], examples: Sequence[Example]
    ) -> dict[str, Tensor]:
        """Give named tensors that a label set calls for before any training, say a head's rows.

        They replace or join the module's parameters of the same names, which `head` matches, and
        every method trains them; the first axis has a row for each label. Called with the base,
        in the inference phase; without examples where a request only names labels. Many labels
        come in portions, a tick each, whose rows are joined.
        """
        return {}

    def features(self, module: nn.Module, batch: Batch) -> Tensor | None:
        """Compute what the head sees of each input, shape (N, D); None for a model without it.

        Where it exists, a head can be fitted in closed form.
        """
        return None

    def generate(
        self,
        module: nn.Module,
        batch: Batch,
        options: Any,  # noqa: ANN401 - the task's own class
    ) -> Iterator[Any]:
        """Yield the pieces of a streamed output; each step is a tick, in the inference phase."""
        raise InputError(f"{type(self).__name__} gives no stream. Ask for a prediction instead.")

    def score(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        """Rate each example's answer, shape (N,), higher is better; by default -loss."""
        return -self.loss(module, batch, targets)


def decodes(task: Task) -> bool:
    """Return whether a task decodes inputs before it encodes them."""
    return type(task).decode_input is not Task.decode_input


def _numbers(targets: Sequence[Any]) -> Tensor:
    """Make float32 numbers of targets; those of a CSV are texts."""
    try:
        values = [float(target) if isinstance(target, str) else target for target in targets]
        return torch.tensor(values, dtype=torch.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"the targets {brief([*targets])} are no numbers: {error}. Send numbers, all of one "
            "shape, or give the task `labels`."
        ) from error


def on_device(batch: Batch, device: torch.device) -> Batch:
    """Move the batch's tensors to `device`."""
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}


def load_module(task: Task) -> nn.Module:
    """Load a task's module; refuse what is none, and first a pattern that is no regex."""
    _check_patterns(task)
    module: object = task.load()
    if not isinstance(module, nn.Module):
        raise SetupError(
            f"{type(task).__name__}.load returned a {type(module).__name__}. Return the module; "
            "give it a state dict with load_state_dict."
        )
    return module


def _check_patterns(task: Task) -> None:
    """Refuse patterns that no name can be matched with, before a long load."""
    for attribute, (named, example) in _PATTERNS.items():
        pattern: Any = getattr(task, attribute)
        try:
            re.fullmatch(pattern, "")
        except (re.error, TypeError, OverflowError, RecursionError) as error:
            raise ConfigError(
                f"{type(task).__name__}.{attribute} is {brief(pattern)}, which is no regex "
                f"({error}). Write one text that matches the whole names of {named}, such as "
                f"{example!r}; `|` joins several."
            ) from error
