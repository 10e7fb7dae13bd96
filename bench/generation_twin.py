"""A peft loop as one would write it by hand, to teach a language model some pairs."""

import time
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from cog_adapt import CausalLM, Recipe
from cog_adapt.lm.models import model_name

_IGNORED = -100


def teach_by_hand(
    rows: Sequence[Mapping[str, str]], texts: Sequence[str], recipe: Recipe, seed: int
) -> tuple[float, list[str]]:
    """Teach pairs by LoRA on the same layers, with as many steps; then answer texts.

    Returns:
        The seconds of the loop, and the answers.
    """
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    name = model_name()
    tokenizer = AutoTokenizer.from_pretrained(name)
    base = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
    config = LoraConfig(r=8, lora_alpha=16, target_modules=CausalLM.lora_targets)
    model = get_peft_model(base, config)
    encoded = [_encoded(tokenizer, row) for row in rows]
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=float(recipe.learning_rate or 0.0))
    began = time.perf_counter()
    model.train()
    for step in range(recipe.max_steps):
        first = step * recipe.batch_size % len(rows)
        batch = _padded(encoded[first : first + recipe.batch_size])
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    seconds = time.perf_counter() - began
    model.eval()
    return seconds, [_answer(model, tokenizer, text) for text in texts]


def _chat(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def _encoded(tokenizer: object, row: Mapping[str, str]) -> tuple[list[int], list[int]]:
    read = tokenizer.apply_chat_template(  # type: ignore[attr-defined]
        _chat(row["prompt"]), add_generation_prompt=True, return_dict=True
    )["input_ids"]
    said = tokenizer(row["completion"])["input_ids"]  # type: ignore[operator]
    said = [*said, tokenizer.eos_token_id]  # type: ignore[attr-defined]
    return [*read, *said], [*([_IGNORED] * len(read)), *said]


def _padded(rows: Sequence[tuple[list[int], list[int]]]) -> dict[str, Tensor]:
    pad = torch.nn.utils.rnn.pad_sequence
    ids = [torch.tensor(row) for row, _ in rows]
    return {
        "input_ids": pad(ids, True),
        "attention_mask": pad([torch.ones_like(row) for row in ids], True),
        "labels": pad([torch.tensor(row) for _, row in rows], True, _IGNORED),
    }


def _answer(model: torch.nn.Module, tokenizer: object, text: str) -> str:
    given = tokenizer.apply_chat_template(  # type: ignore[attr-defined]
        _chat(text), add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    made = model.generate(**given, max_new_tokens=8, do_sample=False)  # type: ignore[operator]
    said = made[0, given["input_ids"].shape[1] :]
    return str(tokenizer.decode(said, skip_special_tokens=True))  # type: ignore[attr-defined]
