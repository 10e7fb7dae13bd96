"""Faults of models of pictures."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, rows

questions = Questions("faults")
PICTURES = rows(3, 3, 8, 8)


class Stages(nn.Module):
    """Two convolutions and a head, with a step between them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.body = nn.Conv2d(6, 6, 3, padding=1)
        self.head = nn.Linear(6, 4)

    def forward(self, pictures: Tensor) -> Tensor:
        features = self.between(F.gelu(self.stem(pictures)))
        return self.head(F.gelu(self.body(features)).mean((2, 3)))

    def between(self, features: Tensor) -> Tensor:
        return features


@questions.fault("graph-cut")
def stem_is_detached() -> Case:
    class Net(Stages):
        def between(self, features: Tensor) -> Tensor:
            return features.detach()  # fault

    return Case(Net(), PICTURES)


@questions.fault("graph-cut")
def features_go_through_a_list() -> Case:
    class Net(Stages):
        def between(self, features: Tensor) -> Tensor:
            return torch.tensor(features.tolist())  # fault

    return Case(Net(), PICTURES)


@questions.fault("graph-cut")
def features_are_flipped_in_numpy() -> Case:
    class Net(Stages):
        def between(self, features: Tensor) -> Tensor:
            flipped = features.detach().numpy()[..., ::-1].copy()  # fault
            return torch.from_numpy(flipped)  # fault

    return Case(Net(), PICTURES)


@questions.fault("grad-zero")
def features_are_rounded() -> Case:
    class Net(Stages):
        def between(self, features: Tensor) -> Tensor:
            return torch.round(features * 8) / 8  # fault

    return Case(Net(), PICTURES)


@questions.fault("backward")
def a_saved_sigmoid_is_scaled_in_place() -> Case:
    class Net(Stages):
        def between(self, features: Tensor) -> Tensor:
            gate = torch.sigmoid(features)
            gate.mul_(2)  # fault
            return features * gate

    return Case(Net(), PICTURES)


@questions.fault("gradient-wrong")
def a_skip_is_taken_without_grad() -> Case:
    class Net(Stages):
        def between(self, features: Tensor) -> Tensor:
            with torch.no_grad():  # the fault
                skip = F.avg_pool2d(features, 3, 1, 1)  # fault
            return features + skip

    return Case(Net(), PICTURES)


@questions.fault("gradient-wrong")
def own_batch_norm_takes_data() -> Case:
    class Net(Stages):
        def between(self, features: Tensor) -> Tensor:
            mean = features.data.mean((0, 2, 3), keepdim=True)  # fault
            return (features - mean) / (features.std() + 1e-3)

    return Case(Net(), PICTURES)


@questions.fault("graph-cut")
def squeeze_and_excitation_without_grad() -> Case:
    class Net(Stages):
        def __init__(self) -> None:
            super().__init__()
            self.squeeze, self.excite = nn.Linear(6, 3), nn.Linear(3, 6)

        @torch.no_grad()  # the fault
        def weights(self, features: Tensor) -> Tensor:
            return self.excite(F.relu(self.squeeze(features.mean((2, 3))))).sigmoid()

        def between(self, features: Tensor) -> Tensor:
            return features * self.weights(features)[:, :, None, None]

    return Case(Net(), PICTURES)


@questions.fault("gradient-wrong")
def spectral_norm_detaches_sigma() -> Case:
    class Scaled(nn.Conv2d):
        def forward(self, pictures: Tensor) -> Tensor:
            sigma = torch.linalg.matrix_norm(self.weight.flatten(1), 2)
            return F.conv2d(pictures, self.weight / sigma.detach(), self.bias, padding=1)  # fault

    class Net(Stages):
        def __init__(self) -> None:
            super().__init__()
            self.body = Scaled(6, 6, 3)

    return Case(Net(), PICTURES)


@questions.fault("unregistered")
def blocks_are_kept_in_a_list() -> Case:
    class Net(Stages):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = [nn.Conv2d(6, 6, 1) for _ in range(2)]

        def between(self, features: Tensor) -> Tensor:
            for block in self.blocks:
                features = features + block(features)
            return features

    return Case(Net(), PICTURES)


@questions.fault("unregistered")
def a_scale_is_a_plain_tensor() -> Case:
    class Net(Stages):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.full((1, 6, 1, 1), 0.5, requires_grad=True)

        def between(self, features: Tensor) -> Tensor:
            return features * self.scale

    return Case(Net(), PICTURES)


@questions.fault("grad-nonfinite")
def a_norm_over_black_pixels() -> Case:
    class Net(Stages):
        def between(self, features: Tensor) -> Tensor:
            dark = features * (features > 50)
            return features + dark.square().sum(1, keepdim=True).sqrt()  # fault

    return Case(Net(), PICTURES)


@questions.fault("loss-nonfinite")
def instance_statistics_of_one_pixel() -> Case:
    class Net(Stages):
        def between(self, features: Tensor) -> Tensor:
            pooled = F.adaptive_avg_pool2d(features, 1)
            return features / (pooled.std((2, 3), keepdim=True) + 1e-5)  # fault

    return Case(Net(), PICTURES)


@questions.fault("graph-cut")
def a_learned_crop_is_rounded_to_pixels() -> Case:
    class Net(Stages):
        def __init__(self) -> None:
            super().__init__()
            self.offset = nn.Parameter(torch.tensor([0.3, 0.4]))

        def between(self, features: Tensor) -> Tensor:
            top, left = (self.offset * 10).tolist()  # fault
            grid = torch.linspace(-1, 1, 8)
            rows_, columns = torch.meshgrid(grid + top / 8, grid + left / 8, indexing="ij")
            places = torch.stack((columns, rows_), -1).expand(len(features), -1, -1, -1)
            return F.grid_sample(features, places, align_corners=True)

    return Case(Net(), PICTURES)


@questions.fault("gradient-wrong")
def a_style_statistic_is_an_item() -> Case:
    class Net(Stages):
        def between(self, features: Tensor) -> Tensor:
            return features / (1e-3 + features.square().mean().item())  # fault

    return Case(Net(), PICTURES)


@questions.fault("graph-cut")
def a_forward_hook_detaches_for_a_heat_map() -> Case:
    net = Stages()

    def keep(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return output.detach()  # fault

    net.stem.register_forward_hook(keep)
    return Case(net, PICTURES)


@questions.fault("gradient-wrong")
def a_tensor_hook_halves_for_guided_backpropagation() -> Case:
    class Net(Stages):
        def between(self, features: Tensor) -> Tensor:
            if features.requires_grad:
                features.register_hook(lambda gradient: gradient.clamp(min=0))  # fault
            return features * 1.5

    return Case(Net(), PICTURES)
