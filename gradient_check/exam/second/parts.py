"""What several questions build on."""

from torch import nn


def mlp(*sizes: int) -> nn.Sequential:
    """Return linear layers of these sizes with tanh between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in zip(sizes[:-2], sizes[1:-1], strict=True):
        layers += [nn.Linear(inputs, outputs), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(*sizes[-2:]))
