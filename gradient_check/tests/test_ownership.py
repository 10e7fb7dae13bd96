"""Parameters belong to the library's model around them, or to the user."""

from typing import Any

import transformers
from torch import nn

from gradient_check.instruments.ownership import in_minority, library_model


class Own(nn.Module):
    """The user's module around a library's model."""

    def __init__(self) -> None:
        super().__init__()
        sizes: dict[str, Any] = {"hidden_size": 8, "num_hidden_layers": 1, "intermediate_size": 8}
        config = transformers.BertConfig(**sizes, num_attention_heads=2, vocab_size=9)
        self.bert = transformers.BertModel(config)
        self.head = nn.Sequential(nn.Linear(8, 2))


def test_a_librarys_model_is_found_and_a_layer_of_pytorch_is_the_users() -> None:
    module = Own()
    assert library_model(module, "bert.pooler.dense.weight") == "bert"
    assert library_model(module, "head.0.weight") is None
    assert library_model(module.bert, "pooler.dense.weight") == ""
    assert library_model(module.head, "0.weight") is None


def test_only_what_is_less_than_the_rest_of_its_model_is_in_the_minority() -> None:
    module = Own()
    pooler = [name for name, _ in module.named_parameters() if "pooler" in name]
    rest = [name for name, _ in module.named_parameters() if name not in pooler]
    assert in_minority(module, [*pooler, "head.0.weight"], rest) == pooler
    assert in_minority(module, rest, pooler) == []
