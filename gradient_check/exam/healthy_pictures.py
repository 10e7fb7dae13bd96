"""Healthy models of pictures, points and signals."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from gradient_check.exam.case import Case, Questions, rows

questions = Questions("healthy")
PICTURES = rows(3, 3, 8, 8)
VALUES = rows(6, 5)


@questions.healthy()
def a_convolutional_net_with_batch_norm() -> Case:
    net = nn.Sequential(
        *(nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.3), nn.Linear(54, 4)),
    )
    return Case(net, PICTURES)


@questions.healthy()
def a_residual_net_in_place() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.first = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
            self.norm, self.out = nn.GroupNorm(2, 6), nn.Linear(6, 2)

        def forward(self, pictures: Tensor) -> Tensor:
            features = F.relu(self.stem(pictures), inplace=True)
            features = F.relu_(self.norm(self.first(features)).add_(features))
            return self.out(features.mean((2, 3)))

    return Case(Net(), PICTURES)


@questions.healthy()
def a_u_net() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down, self.deep = nn.Conv2d(3, 6, 3, 1, 1), nn.Conv2d(6, 8, 3, 2, 1)
            self.up, self.out = nn.ConvTranspose2d(8, 6, 2, 2), nn.Conv2d(12, 1, 1)

        def forward(self, pictures: Tensor) -> Tensor:
            skip = F.silu(self.down(pictures))
            raised = self.up(F.silu(self.deep(skip)))
            return self.out(torch.cat((skip, raised), 1))

    return Case(Net(), PICTURES)


@questions.healthy("vanishing")
def a_layer_scale_of_a_millionth() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.deep = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 7, padding=3, groups=8)
            self.scale, self.out = nn.Parameter(torch.full((8, 1, 1), 1e-6)), nn.Linear(8, 2)

        def forward(self, pictures: Tensor) -> Tensor:
            features = self.stem(pictures)
            return self.out((features + self.scale * self.deep(features)).mean((2, 3)))

    return Case(Net(), PICTURES)


@questions.healthy()
def parametrized_weights() -> Case:
    net = nn.Sequential(
        parametrizations.weight_norm(nn.Linear(5, 8)),
        *(nn.Tanh(), parametrizations.spectral_norm(nn.Linear(8, 8)), nn.Tanh()),
        parametrizations.orthogonal(nn.Linear(8, 3)),
    )
    return Case(net, VALUES)


@questions.healthy()
def a_spatial_transformer() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.place, self.out = nn.Linear(192, 6), nn.Linear(192, 2)

        def forward(self, pictures: Tensor) -> Tensor:
            change = self.place(pictures.flatten(1)).view(-1, 2, 3) * 0.1 + torch.eye(2, 3)
            grid = F.affine_grid(change, list(pictures.shape), align_corners=False)
            return self.out(F.grid_sample(pictures, grid, align_corners=False).flatten(1))

    return Case(Net(), PICTURES)


@questions.healthy()
def a_super_resolution_by_pixel_shuffle() -> Case:
    return Case(
        nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.PReLU(), nn.PixelShuffle(2)), PICTURES
    )


@questions.healthy()
def a_fourier_layer_with_complex_weights() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.complex(rows(3, 8, 5), rows(3, 8, 5, seed=1)))
            self.out = nn.Conv2d(3, 2, 1)

        def forward(self, pictures: Tensor) -> Tensor:
            return self.out(torch.fft.irfft2(torch.fft.rfft2(pictures) * self.weight))

    return Case(Net(), PICTURES)


@questions.healthy()
def a_net_of_points_with_maximum_pooling() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.each, self.out = nn.Linear(3, 16), nn.Linear(16, 2)

        def forward(self, points: Tensor) -> Tensor:
            return self.out(self.each(points).relu().amax(1))

    return Case(Net(), rows(3, 30, 3))


@questions.healthy()
def a_field_of_sines() -> Case:
    class Sine(nn.Linear):
        def forward(self, places: Tensor) -> Tensor:
            return torch.sin(30 * super().forward(places))

    first, second = Sine(2, 16), Sine(16, 16)
    nn.init.uniform_(first.weight, -0.5, 0.5)
    nn.init.uniform_(second.weight, -0.02, 0.02)
    return Case(nn.Sequential(first, second, nn.Linear(16, 1)), rows(20, 2))


@questions.healthy()
def a_chamfer_distance() -> Case:
    net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 24))

    def loss(points: Tensor) -> Tensor:
        apart = torch.cdist(points.view(6, 8, 3), rows(6, 9, 3))
        return apart.amin(1).mean(1) + apart.amin(2).mean(1)

    return Case(net, VALUES, loss)


@questions.healthy()
def blocks_under_checkpoint() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.out = nn.Linear(5, 8), nn.Linear(8, 2)
            self.deep = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.1))

        def forward(self, values: Tensor) -> Tensor:
            hidden = checkpoint(self.deep, self.stem(values), use_reentrant=False)
            return self.out(hidden)

    return Case(Net(), VALUES)
