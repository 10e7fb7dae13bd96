"""Padding rows of embeddings, whose gradient torch leaves out on purpose."""

from torch import Tensor, nn


def ignoring_padding(module: nn.Module, name: str, gradient: Tensor) -> Tensor:
    """Return a parameter's gradient, with ones in the padding row if it is an embedding's."""
    gradient = gradient.to_dense()
    owner = module.get_submodule(name.rpartition(".")[0])
    padding = getattr(owner, "padding_idx", None)
    if not isinstance(owner, nn.Embedding | nn.EmbeddingBag) or padding is None:
        return gradient
    gradient = gradient.clone()
    gradient[padding] = 1.0
    return gradient
