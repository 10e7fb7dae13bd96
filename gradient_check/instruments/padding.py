"""Padding rows of embeddings, whose gradient torch omits on purpose."""

from torch import Tensor, nn


def ignoring_padding(module: nn.Module, name: str, gradient: Tensor) -> Tensor:
    """Return a parameter's gradient, with ones in the padding row of an embedding."""
    gradient, padding = gradient.to_dense(), _padding_row(module, name)
    if padding is None:
        return gradient
    gradient = gradient.clone()
    gradient[padding] = 1.0
    return gradient


def drop_padding(module: nn.Module, name: str, gradient: Tensor) -> Tensor:
    """Return a parameter's gradient, with zeros in the padding row of an embedding.

    If the embedding is also the head, its padding row has only the head's gradient. Texts may hold
    the padding token: SmolLM2 pads with the token that ends a message. Zeros are written in place.
    """
    gradient, padding = gradient.to_dense(), _padding_row(module, name)
    if padding is not None:
        gradient[padding] = 0.0
    return gradient


def _padding_row(module: nn.Module, name: str) -> int | None:
    owner = module.get_submodule(name.rpartition(".")[0])
    return owner.padding_idx if isinstance(owner, nn.Embedding | nn.EmbeddingBag) else None
