"""Whether a parameter belongs to the user's code or to an installed library's.

A library's model may keep parameters that one use of it leaves out (a pooler, the embedding of
masked frames), or freeze some of its parameters. PyTorch's layers belong to their user.
"""

from collections.abc import Collection, Iterable

from torch import nn

from gradient_check.phases.libraries import is_of_a_library

_LAYERS = ("torch", "gradient_check")


def library_model(module: nn.Module, name: str) -> str | None:
    """Return the path of the outermost library model around a parameter, or None."""
    path = _owner_of(module, name.rpartition(".")[0])
    if path is None or not is_of_a_library(module.get_submodule(path)):
        return None
    while path:
        above = _owner_of(module, path.rpartition(".")[0])
        if above is None or not is_of_a_library(module.get_submodule(above)):
            break
        path = above
    return path


def in_minority(module: nn.Module, names: Iterable[str], others: Collection[str]) -> list[str]:
    """Return those names whose library model holds more of the `others`."""
    models = {name: library_model(module, name) for name in names}
    held = [library_model(module, name) for name in others]
    own = list(models.values())
    return [
        name
        for name, model in models.items()
        if model is not None and own.count(model) < held.count(model)
    ]


def _owner_of(module: nn.Module, path: str) -> str | None:
    """Return the path of the nearest module, from `path` upwards, that is no PyTorch layer."""
    while _is_a_layer(module.get_submodule(path)):
        if not path:
            return None
        path = path.rpartition(".")[0]
    return path


def _is_a_layer(part: nn.Module) -> bool:
    return type(part).__module__.partition(".")[0] in _LAYERS
