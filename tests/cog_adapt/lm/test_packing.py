"""Packed rows: what is in them, and that examples in one do not see each other."""

import pytest
import torch
from torch.nn import functional as F
from transformers import AutoModelForCausalLM

from cog_adapt.lm.causal_lm import CausalLM
from cog_adapt.lm.packing import PackedTokens, Tokens, pack
from cog_adapt.runner.data.examples import Example
from tests.cog_adapt.lm.test_key_values import model_of
from tests.cog_adapt.lm.tiny import FAMILIES, TEXTS, write_model

COMMON = [7, 8, 9]
EXAMPLES = [
    Tokens([*COMMON, 1], [11, 12]),
    Tokens([*COMMON, 2, 3, 4], [13]),
    Tokens([*COMMON, 1, 5], [11, 14, 15]),
    Tokens([*COMMON, 6], [16, 17]),
]


def test_a_row_has_the_common_beginning_once_and_then_each_example():
    (row,) = pack(EXAMPLES[:3])
    assert row.prefix == 3
    assert row.input_ids.tolist() == [[7, 8, 9, 1, 11, 2, 3, 4, 1, 5, 11, 14]]
    assert row.position_ids.tolist() == [[0, 1, 2, 3, 4, 3, 4, 5, 3, 4, 5, 6]]
    assert row.asked.tolist() == [3, 4, 7, 9, 10, 11]
    assert row.answers.tolist() == [11, 12, 13, 11, 14, 15]
    seen = [tokens.nonzero().flatten().tolist() for tokens in row.mask[0, 0]]
    assert seen[4] == [0, 1, 2, 3, 4]
    assert seen[7] == [0, 1, 2, 5, 6, 7]
    assert seen[9] == [0, 1, 2, 8, 9]


def test_each_example_keeps_a_token_of_its_prompt():
    same = Tokens([1, 2, 3], [4])
    (row,) = pack([same] * 4)
    assert row.prefix == 2
    assert row.input_ids.tolist() == [[1, 2, 3, 3, 3, 3]]


def test_a_row_that_is_full_is_followed_by_another():
    rows = pack(EXAMPLES, most=9)
    assert [len(row.examples) for row in rows] == [2, 2]
    assert [example for row in rows for example in row.examples] == EXAMPLES
    alone = pack([Tokens([*COMMON, 1] * 9, [2])] + EXAMPLES[:1] * 9, most=9)
    assert len(alone[0].examples) == 1  # longer than a row may be


def test_nothing_is_packed_where_padding_costs_as_little():
    assert pack([Tokens([n, n, n, n], [1, 2]) for n in range(4)]) == []
    assert pack(EXAMPLES[:1]) == []


@pytest.mark.parametrize("most", [512, 9], ids=["one row", "two rows"])
@pytest.mark.parametrize("family", [*FAMILIES])
def test_losses_and_gradients_are_those_of_examples_apart(family, most):
    packed, apart = model_of(family, "sdpa"), model_of(family, "sdpa")
    own = []
    for example in EXAMPLES:
        logits = apart(torch.tensor([example.read])).logits[0, len(example.prompt) - 1 :]
        own.append(F.cross_entropy(logits, torch.tensor(example.answer), reduction="none"))
    losses = []
    for row in pack(EXAMPLES, most):
        logits = packed(
            input_ids=row.input_ids,
            attention_mask=row.mask,
            position_ids=row.position_ids,
            logits_to_keep=row.asked,
        ).logits[0]
        losses.append(F.cross_entropy(logits, row.answers, reduction="none"))
    torch.testing.assert_close(torch.cat(losses), torch.cat(own), rtol=0, atol=1e-5)
    torch.cat(losses).square().sum().backward()  # so that each token's loss has its own weight
    torch.cat(own).square().sum().backward()
    for (name, one), other in zip(packed.named_parameters(), apart.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5, msg=name)


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    made = {}

    def get(family="llama"):
        if family not in made:
            made[family] = write_model(tmp_path_factory.mktemp(family), family, scale=8.0)
        return made[family]

    return get


def learning(folder, **changes):
    """The weights as an adaptation has them: they train."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = changes.get("trains", lambda name: True)(name)
    return model


def forwards_of(task, model, pairs):
    """The losses of pairs, their gradients, and the shapes of what the model read."""
    shapes = []
    model.register_forward_pre_hook(
        lambda _module, _args, given: shapes.append(tuple(given["input_ids"].shape)),
        with_kwargs=True,
    )
    batch = task.encode([pair.input for pair in pairs])
    losses = task.loss(model, batch, task.encode_targets([pair.target for pair in pairs], ()))
    (losses * torch.arange(1.0, len(pairs) + 1)).sum().backward()
    found = [p.grad for p in model.parameters() if p.grad is not None]
    return losses.detach(), found, shapes


SYSTEM = {"role": "system", "content": "the quick brown fox " * 3}
MANY = [Example([SYSTEM, {"role": "user", "content": text[:8]}], "dog") for text in TEXTS]


@pytest.mark.parametrize("family", [*FAMILIES])
def test_a_step_packs_examples_and_learns_as_from_padded_ones(family, folder_of, monkeypatch):
    folder = folder_of(family)
    task = CausalLM(folder)
    packed = forwards_of(task, learning(folder), MANY)
    monkeypatch.setattr("cog_adapt.lm.causal_lm.pack", lambda tokens: [])
    padded = forwards_of(task, learning(folder), MANY)
    assert len(packed[2]) == 1
    rows, length = padded[2][0]
    assert packed[2][0][0] == (rows if family == "mistral" else 1)  # its window is shorter
    assert family == "mistral" or packed[2][0][1] < rows * length / 2
    torch.testing.assert_close(packed[0], padded[0], rtol=1e-5, atol=1e-5)
    for one, other in zip(packed[1], padded[1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=2e-4)


def test_examples_stay_padded_where_the_first_block_does_not_learn(folder_of):
    model = learning(folder_of(), trains=lambda name: "layers.1." in name)
    assert forwards_of(CausalLM(folder_of()), model, MANY)[2][0][0] == len(MANY)


def test_a_part_of_a_step_has_the_examples_that_fit_packed(folder_of):
    task, cpu = CausalLM(folder_of()), torch.device("cpu")

    def tokens(example, device):
        batch, targets = task.encode([example.input]), task.encode_targets([example.target], ())
        return task.counts.of({n: t[0] for n, t in batch.items()}, targets[0], device)

    def said(example):
        return task.encode_targets([example.target], ())[0]

    pair = Example("what is the best team", "fox team")
    prompt, answer = task.encode([pair.input])["input_ids"][0], said(pair)
    read = len(prompt) + len(answer) - 1
    assert tokens(pair, torch.device("meta")) == read  # a GPU reads padded rows
    assert isinstance(task.counts, PackedTokens)
    assert tokens(pair, cpu) == read - len(task.counts.common) < read
    text = Example({"text": ""}, "the quick brown fox")
    assert tokens(text, cpu) == len(said(text))
    assert task.counts.all([3, 5], cpu) == 8
    assert task.counts.all([3, 5], torch.device("meta")) == 10
