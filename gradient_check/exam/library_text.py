"""Healthy models of transformers, tiny and drawn at random; the same for versions 4 and 5."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import transformers
from torch import Tensor

from gradient_check.exam.case import Case, Question, Questions, numbers

questions = Questions(f"transformers {transformers.__version__.split('.')[0]}")
SMALL: dict[str, Any] = {
    **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"intermediate_size": 48, "vocab_size": 99, "max_position_embeddings": 40},
}
PADS: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED: dict[str, Any] = {**SMALL, **PADS, "num_key_value_heads": 2}
IDS = numbers(80, 2, 9) + 5
MASK = torch.tensor([[1] * 9, [1] * 6 + [0] * 3])
WORDS = {"input_ids": IDS, "attention_mask": MASK}
LABELS = torch.tensor([1, 0])
# Version 4 replaces the methods of its modules while it collects these, which is unsafe in threads.
RACE = () if transformers.__version__ >= "5" else ("race",)
STATES, WEIGHTS = {"output_hidden_states": True}, {"output_attentions": True}


def squares(*tensors: Tensor) -> Tensor:
    """Return a loss for each example of some outputs."""
    return sum((t.float() - 0.25).square().flatten(1).mean(1) for t in tensors)  # type: ignore[return-value]


def last(output: Any) -> Tensor:
    """Return a loss of the last hidden state."""
    return squares(output.last_hidden_state)


def given(output: Any) -> Tensor:
    """Return the loss that the model computes."""
    return output.loss.mean()


def states(output: Any) -> Tensor:
    """Return a loss of all hidden states."""
    return squares(*output.hidden_states)


def attentions(output: Any) -> Tensor:
    """Return a loss of attention weights and of what the model answers."""
    first = output.logits if "logits" in output else output.last_hidden_state
    return squares(first, *output.attentions)


def add(
    name: str,
    make: Callable[[], Any],
    probe: dict[str, Any],
    loss: Callable[[Any], Tensor],
    *warnings: str,
) -> None:
    """Register a healthy model."""

    def case() -> Case:
        torch.manual_seed(0)
        return Case(make(), probe, loss)

    questions.append(Question(questions.group, name, case, warnings=warnings))


def build(kind: str, config: str, **values: Any) -> Any:
    """Return a model of a configuration."""
    sizes = getattr(transformers, config)(**values)
    return getattr(transformers, kind)(sizes)


def causal(name: str, **values: Any) -> None:
    """Register a causal language model: its loss, its hidden states, its attention weights."""
    kind = "GPT2LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM"
    make = partial(build, kind, f"{name}Config")
    labelled = {**WORDS, "labels": IDS}
    add(f"{name}, loss", partial(make, **values), labelled, given)
    add(
        f"{name}, hidden states",
        partial(make, **values),
        {**WORDS, **STATES},
        states,
        "unused",
        *RACE,
    )
    eager = {**values, "attn_implementation": "eager"}
    add(f"{name}, attentions", partial(make, **eager), {**WORDS, **WEIGHTS}, attentions, *RACE)
    add(f"{name}, cache", partial(make, **values), {**labelled, "use_cache": True}, given)


def encoder(name: str, kind: str = "ForSequenceClassification", **values: Any) -> None:
    """Register an encoder with a head: its loss, its hidden states, its attention weights."""
    make = partial(build, f"{name}{kind}", f"{name}Config")
    labelled = {**WORDS, "labels": LABELS}
    add(f"{name}, loss", partial(make, **values), labelled, given)
    both = {**labelled, **STATES}
    add(f"{name}, hidden states", partial(make, **values), both, with_states)
    eager = {**values, "attn_implementation": "eager"}
    add(f"{name}, attentions", partial(make, **eager), {**WORDS, **WEIGHTS}, attentions)


def with_states(output: Any) -> Tensor:
    """Return the model's loss and one of its hidden states."""
    return output.loss + squares(*output.hidden_states).mean()


GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40, "vocab_size": 99}
for _name in ("Llama", "Mistral", "Qwen2", "Qwen3", "Gemma", "Gemma2", "Phi", "Phi3", "Olmo2",
              "StableLm", "Granite", "Cohere", "SmolLM3", "Starcoder2"):  # fmt: skip
    causal(_name, **GROUPED, **({"head_dim": 8} if "emma" in _name or "Qwen3" in _name else {}))
causal("GPT2", **GPT2, **PADS)
causal("GPTNeoX", **SMALL, **PADS)
causal("OPT", **{**SMALL, **PADS, "ffn_dim": 48, "word_embed_proj_dim": 32})
causal("Bloom", **{"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, **PADS})
causal("Falcon", **SMALL, **PADS)
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
causal("Mixtral", **GROUPED, **EXPERTS)
for _name in ("Mixtral",):
    add(
        f"{_name}, router logits",
        partial(build, "MixtralForCausalLM", "MixtralConfig", **GROUPED, **EXPERTS),
        {**WORDS, "labels": IDS, "output_router_logits": True}, given,
    )  # fmt: skip
QWEN_MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
add(
    "Qwen3Moe, router logits",
    partial(build, "Qwen3MoeForCausalLM", "Qwen3MoeConfig", **GROUPED, **QWEN_MOE, head_dim=8),
    {**WORDS, "labels": IDS, "output_router_logits": True}, given,
)  # fmt: skip
for _name in (
    "Bert",
    "Roberta",
    "Electra",
    "DebertaV2",
    "Albert",
    "XLMRoberta",
    "MPNet",
    "RoFormer",
):
    encoder(_name, **SMALL, **({"embedding_size": 16} if _name in ("Albert", "Electra") else {}))
encoder("ModernBert", **SMALL, **PADS, cls_token_id=1, sep_token_id=2)
encoder("DistilBert", dim=32, n_layers=2, n_heads=4, hidden_dim=48, vocab_size=99)
