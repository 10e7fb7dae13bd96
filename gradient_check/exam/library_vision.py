"""Healthy models of torchvision and timm: the smallest of each family, drawn at random."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from gradient_check.exam.case import Case, Question, Questions, rows


def stub_operators() -> None:
    """Let torchvision be imported beside a torch that its operators were not compiled for."""
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _KEPT.append(library)


_KEPT: list[Any] = []
stub_operators()

import timm  # noqa: E402
import torchvision  # noqa: E402

questions = Questions("torchvision and timm")
TESTED = (
    *("byobnet", "coatnet", "convnext", "convnext2", "convnext3", "efficientnet"),
    *("efficientnet_evos", "efficientnet_gn", "efficientnet_ln", "mambaout", "maxvit", "nfnet"),
    *("resnet", "vit", "vit2", "vit3", "vit4", "vit_relpos"),
)
SMALLEST = (
    *("mobilenetv3_small_050", "lcnet_050", "tinynet_e", "edgenext_xx_small", "mobilevit_xxs"),
    *("ghostnet_050", "mnasnet_small", "semnasnet_050", "dla46x_c", "regnetx_002", "rexnet_100"),
    *("efficientvit_b0", "fastvit_t8", "repvit_m0_9", "starnet_s1", "shvit_s1", "iformer_t"),
    *("pvt_v2_b0", "tiny_vit_5m_224", "hgnetv2_b0", "inception_next_atto", "fasternet_t0"),
    *("swiftformer_xs", "mambaout_femto", "gernet_s", "poolformer_s12", "skresnet18"),
)
SIZED = (
    *("crossvit_tiny_240", "pit_ti_224", "coat_tiny", "xcit_nano_12_p16_224", "levit_128s"),
    *("convit_tiny", "deit_tiny_patch16_224", "eva02_tiny_patch14_224", "gmlp_ti16_224"),
    *("efficientvit_m0", "visformer_tiny", "efficientformerv2_s0", "cait_xxs24_224"),
)
TORCHVISION = (
    *("mobilenet_v2", "mobilenet_v3_small", "shufflenet_v2_x0_5", "squeezenet1_1", "mnasnet0_5"),
    *("resnet18", "efficientnet_b0", "regnet_y_400mf", "densenet121", "googlenet"),
)
SMALL_VIT: dict[str, Any] = {
    **{"image_size": 32, "patch_size": 8, "num_layers": 2, "num_heads": 4},
    **{"hidden_dim": 32, "mlp_dim": 64, "num_classes": 4},
}
SMALL_SWIN: dict[str, Any] = {
    **{"patch_size": [2, 2], "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 2]},
    **{"window_size": [4, 4], "num_classes": 4},
}


def cross_entropy(output: Any) -> torch.Tensor:
    """Return a loss for each picture; of some models' outputs the first."""
    logits = output if isinstance(output, torch.Tensor) else output[0]
    return torch.nn.functional.cross_entropy(logits, torch.arange(2), reduction="none")


def add(name: str, make: Callable[..., Any], size: int, *warnings: str) -> None:
    """Register a healthy model for pictures of some size."""

    def case() -> Case:
        torch.manual_seed(0)
        return Case(make(), rows(2, 3, size, size), cross_entropy)

    # of deep nets at their first values, norms in eval
    true = ("vanishing", "exploding", *warnings)
    questions.append(Question(questions.group, name, case, warnings=true))


for _name in TESTED:
    add(f"timm, test_{_name}", partial(timm.create_model, f"test_{_name}", num_classes=4), 160)
for _name in SMALLEST:
    add(f"timm, {_name}", partial(timm.create_model, _name, num_classes=4), 64)
for _name in SIZED:
    _size = int(_name[-3:]) if _name[-3:] in ("224", "240") else 224
    add(f"timm, {_name}", partial(timm.create_model, _name, num_classes=4), _size)
for _name in TORCHVISION:
    _make = partial(torchvision.models.get_model, _name, weights=None, num_classes=4)
    add(f"torchvision, {_name}", _make, 64, *(("unused",) if _name == "googlenet" else ()))
add(
    "torchvision, vision transformer",
    partial(torchvision.models.VisionTransformer, **SMALL_VIT),
    32,
)
add("torchvision, swin", partial(torchvision.models.SwinTransformer, **SMALL_SWIN), 32)
