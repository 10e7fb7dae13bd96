"""`Task`: the one class that a user writes for a model."""

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

NO_NAME = "(?!)"
"""A pattern that matches no name."""
_SHOWN = 10
_PATTERNS = {
    "lora_targets": ("linear layers", r"encoder[.].*"),
    "head": ("parameters", r"head[.].*"),
    "blocks": ("blocks", r"encoder[.]layers[.]\d+"),
    "unused": ("parameters", r"pooler[.].*"),
}
_LARGEST_FACTOR = 1_000
Batch = dict[str, Tensor]
"""Tensors by name, each with one row per input: (N, ...)."""


class PartTokens:
    """Counts the tokens of a step's part, whose rows are padded to the longest."""

    def of(self, row: Batch, target: Tensor, device: torch.device) -> int:
        """Count the tokens of an encoded example; 0: those of its `attention_mask`."""
        return 0

    def all(self, tokens: Sequence[int], device: torch.device) -> int:
        """Count the tokens of a part with examples of these counts."""
        return len(tokens) * max(tokens, default=0)


class Task(ABC):
    """A model and its task.

    Write `load`, `encode`, `loss`, `predict` and `probe`; every other hook has a default. The
    runner calls `load` once in setup, `example`, `labels` and `decoding_cost` on any thread,
    `decode_input` and `decodes_quickly` on threads of their own, and everything else on its model
    thread, in the right phase, with tensors on the right device. A task keeps no state that a call
    changes.

    Attributes:
        method: the method of an adaptation, unless the request names one (`Recipe.method`); "":
            `lora`, or `all` for a module without linear layers that LoRA could adapt.
        rank: columns of each LoRA pair, unless the request names them.
        lora_targets: full-match regex of the linear layers that LoRA adapts; by default all.
        head: full-match regex of the parameters that every method trains besides its own; a model
            without a head leaves it out.
        rates: factors of the learning rate by full-match regex of parameter names, as for a new
            embedding that learns faster than LoRA: `{"style[.].*": 20.0}`. The first match counts.
        blocks: full-match regex of the names of the model's blocks, which run one after the other
            in this order, each once, on the output of the one before it (`encoder[.]layers[.].`);
            `Recipe.blocks` trains the last of them. Those before the first that is trained run once
            for each example instead of at each step. By default no block has a name.
        unused: regex of parameters that the loss rightly ignores (an encoder's pooler, say).
        stop_gradients: intended stops: regexes of module paths or parameter names, or parts of the
            line that stops the gradient, as texts or as regexes; one text is one pattern. The
            self-test excuses only these.
        reversed_gradients: blocks whose backward is the slope times a factor, of either sign, by
            such patterns: `{"domain.reverse": -0.3}`.
        surrogate_gradients: such patterns of blocks whose gradient is intentionally not the slope.
        random_loss: whether the loss draws noise (a diffusion's steps, a VAE's sample), so that it
            differs from seed to seed; the self-test then holds its checks under one seed. Noise
            from `cog_adapt.row_generators()` is the same however a batch is cut.
        max_labels: the most names of a label set.
        max_label_characters: the most characters of each name.
        max_characters: of an input that is a text, or of all texts in it, and of an example's
            target; longer inputs are refused before any function of the task sees them on the model
            thread. One input is encoded in one tick, so this bounds the wait of other requests: 33
            ms of a tokenizer at worst. A task whose `encode` cuts texts before its tokenizer may
            allow more; so may one that tokenizes in `decode_input`.
        max_decoding: the most that a request's inputs and examples may cost by `decoding_cost`.
        decoding_unit: the unit of `decoding_cost`, in words.
        max_scores: inputs times labels of one request: an answer holds a number for each.
        shares_forwards: whether inputs of several adapters may be rows of one forward. Then
            `predict` only calls `module(batch)` (or `module(**batch)`), whose result is a tensor
            with a row for each input and, with a head, a last axis of labels that no later layer
            mixes; and each layer sees the rows of the batch in order, or those that the model
            declares by `cog_adapt.batch_rows`. More padding must not change an answer.
        rows_are_independent: False if the loss compares examples of a batch, which is then never
            cut into parts (docs/predictions.md).
        part_tokens: tokens of such a part; 0: 192 on a CPU (128 if most weights are trained),
            16,384 on a GPU. `counts` counts them.
        options: a frozen dataclass with the defaults of a request's own parameters (a temperature);
            `predict` and `generate` get it, or the request's, of its class.
        probe_options: options of the same class with which the self-test predicts, such as few
            denoising steps; None: `options`.
    """

    method: str = ""
    rank: int = 8
    lora_targets: str = ".*"
    head: str = r"head\..*"
    rates: Mapping[str, float] = MappingProxyType({})
    blocks: str = NO_NAME
    unused: str = NO_NAME
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
    probe_options: Any = None

    @abstractmethod
    def load(self) -> nn.Module:
        """Build the module with its weights, on the CPU."""

    @abstractmethod
    def encode(self, inputs: Sequence[Any]) -> Batch:
        """Turn N inputs into CPU tensors with N rows each; refuse unusable ones (InputError).

        Each is a result of `decode_input`.

        An adaptation encodes each example at most once and joins the rows with the same padding; if
        a joined batch would differ from an encoded one, it encodes each batch instead.
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
        """Return a few examples for the self-test (two are enough) that any host can encode."""

    def example(self, row: Mapping[str, Any]) -> Example:
        """Turn a row of CSV, JSON Lines or JSON into an example; refuse an unusable one.

        The default takes the columns `input` (or `text`, `sentence`) and `target` (or `label`), in
        any case. The report names columns that were not used.
        """
        return usual_example(row)

    def decoding_cost(self, value: Any) -> int:  # noqa: ANN401 - what a caller sent
        """Return the cost of decoding an input, from its header alone: pixels or samples.

        A request whose inputs and examples cost more than `max_decoding` together is refused before
        anything is decoded, in `encode` too. The default counts the pixels of the pictures that an
        input is or holds, as files, bytes, base64 or data URIs: PNG, JPEG, WebP, GIF, BMP, TIFF.
        """
        return pixel_count(value)

    def decode_input(self, value: Any) -> Any:  # noqa: ANN401 - what a caller sent
        """Decode a compressed input (a picture, a sound) for `encode`; refuse a broken one.

        `decode_input` is called for each input of a request, and for the input of each example
        before the example is learned, one at a time on a thread of its own; only the probe is
        decoded on the model thread. The result is kept until the request ends, so the result should
        be small: 150 kB of pixels. A task with `decodes_quickly` has a second such thread.
        """
        return value

    def decodes_quickly(self, value: Any) -> bool:  # noqa: ANN401 - what a caller sent
        """Return whether an input is decoded within about 20 ms, by its size and header alone.

        Such inputs are decoded on a thread of their own, so that a small picture does not wait for
        a large one. A task that overrides this method allows two calls of `decode_input` at a time,
        one on each thread. By default one thread decodes all inputs.
        """
        return False

    def shortened(self, inputs: Sequence[Any]) -> Sequence[int]:
        """Return the positions of the inputs that `encode` cuts; the report names them.

        The inputs are those that were sent, not the results of `decode_input`.
        """
        return ()

    def labels(self, examples: Sequence[Example]) -> tuple[str, ...]:
        """Return the label set of these examples, in a stable order; refuse an unusable one.

        A task with a fixed set returns it for any examples, also for none; a task without labels
        returns ().
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
        """Return a label set's named tensors before any training, for example a head's rows.

        The tensors replace or join the module's parameters of the same names, which `head` matches,
        and every method trains the tensors; the first axis has a row for each label. `start` is
        called with the base, in the inference phase; `examples` is empty if a request only names
        labels. Many labels come in portions, a tick each; the rows of all portions are joined.
        """
        return {}

    def prepare(self, module: nn.Module, batch: Batch, targets: Tensor) -> tuple[Batch, Tensor]:
        """Compute once what `loss` and `score` need of examples, such as a picture's latents.

        `prepare` is called with the base, in the inference phase, once for each example of an
        adaptation, before its first step; the result is kept on the CPU as encoded rows are, and
        beyond 256 MiB it is computed at each use. Tensors of 16 bits, as autocast makes them,
        become float32. All examples have rows of the same shapes. A draw of noise belongs into
        `loss`.
        """
        return batch, targets

    def extra_examples(
        self, module: nn.Module, examples: Sequence[Example], count: int
    ) -> Iterator[Example | None]:
        """Yield examples that the base makes, so that steps on `examples` do not unlearn them.

        It is called with the base, in the inference phase, if a recipe asks for `extra_examples`,
        and continues a part a tick: yield None between the steps of one example. Inputs are as
        `encode` gets them. The same arguments have to make the same examples.
        """
        raise InputError(
            f"{type(self).__name__} makes no extra examples. "
            "Leave `extra_examples` (`num_class_images`) at 0."
        )

    def features(self, module: nn.Module, batch: Batch) -> Tensor | None:
        """Compute the head's inputs, shape (N, D); None for a model without such a head.

        With them, a head can be fitted in closed form.
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
        """Rate each example's answer, shape (N,), higher is better; by default -loss.

        With `random_loss`, the default is the mean of eight draws of the noise for each example,
        the same draws at each scoring.
        """
        return -self.loss(module, batch, targets)


def options_of_probe(task: Task) -> Any:  # noqa: ANN401 - the task's own class
    """Return the options with which a task answers its probe."""
    return task.options if task.probe_options is None else task.probe_options


def prepares(task: Task) -> bool:
    """Return whether a task computes something of its examples once."""
    return type(task).prepare is not Task.prepare


def decodes(task: Task) -> bool:
    """Return whether a task decodes inputs before it encodes them."""
    return type(task).decode_input is not Task.decode_input


def tells_quick_inputs(task: Task) -> bool:
    """Return whether a task tells which inputs are decoded quickly."""
    return type(task).decodes_quickly is not Task.decodes_quickly


def _numbers(targets: Sequence[Any]) -> Tensor:
    """Convert targets to float32 numbers; those of a CSV are texts."""
    try:
        values = [float(target) if isinstance(target, str) else target for target in targets]
        return torch.tensor(values, dtype=torch.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"the targets {brief([*targets])} are no numbers: {error}. Send numbers, all of one "
            "shape, or give the task `labels`; other targets need `encode_targets`."
        ) from error


def on_device(batch: Batch, device: torch.device) -> Batch:
    """Move the batch's tensors to `device`."""
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}


def load_module(task: Task) -> nn.Module:
    """Load a task's module; refuse any other object, and first a pattern that is no regex."""
    _check_patterns(task)
    module: object = task.load()
    if not isinstance(module, nn.Module):
        raise SetupError(
            f"{type(task).__name__}.load returned a {type(module).__name__}. Return the module; "
            "give it a state dict with load_state_dict."
        )
    return module


def _check_patterns(task: Task) -> None:
    """Refuse invalid patterns, options and rates, before a long load."""
    if type(options_of_probe(task)) is not type(task.options):
        raise ConfigError(
            f"{type(task).__name__}.probe_options is {brief(task.probe_options)}, and `options` is "
            f"{brief(task.options)}. Make both of one class."
        )
    for attribute in _PATTERNS:
        _check_pattern(task, attribute, getattr(task, attribute))
    rates: object = task.rates
    if not isinstance(rates, Mapping):
        raise ConfigError(
            f"{type(task).__name__}.rates is {brief(rates)}, which is no mapping. Write factors by "
            'regexes of parameter names, such as {"style[.].*": 20.0}.'
        )
    for pattern, factor in rates.items():
        _check_pattern(task, "rates", pattern)
        if not (type(factor) in {int, float} and 0 < factor <= _LARGEST_FACTOR):
            raise ConfigError(
                f"{type(task).__name__}.rates has the factor {brief(factor)} for {pattern!r}; "
                f"allowed: above 0, to {_LARGEST_FACTOR:,}. To train nothing there, choose another "
                "method."
            )


def _check_pattern(task: Task, attribute: str, pattern: Any) -> None:  # noqa: ANN401 - the task's
    named, example = _PATTERNS.get(attribute, ("parameters", r"style[.].*"))
    try:
        re.fullmatch(pattern, "")
    except (re.error, TypeError, OverflowError, RecursionError) as error:
        raise ConfigError(
            f"{type(task).__name__}.{attribute} is {brief(pattern)}, which is no regex "
            f"({error}). Write one text that matches the whole names of {named}, such as "
            f"{example!r}; `|` joins several."
        ) from error
