"""A forward that computes another function from call to call is told from noise and from memory."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from gradient_check import check_gradients
from gradient_check.exam.known.plain import PROBE, Net, entropy
from gradient_check.tests.present import present


class Counting(Net):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def mid(self, h):
        self.calls += 1
        return h if self.calls % 2 else torch.relu(h)  # alternates


class Recomputed(Counting):
    def mid(self, h):
        return checkpoint(self.scaled, h, use_reentrant=False)

    def scaled(self, h):
        self.calls += 1
        return torch.tanh(h * (1 + 0.5 * (self.calls % 2)))  # alternates


class Scheduled(Counting):
    def mid(self, h):
        self.calls += 1
        return h / (1 + 0.1 * self.calls)  # alternates


class TrainedOnly(Counting):
    def mid(self, h):
        return super().mid(h) if self.training else h


CALLS = [0]


class Outside(Net):
    def mid(self, h):
        CALLS[0] += 1
        return h * (1 + 0.3 * (CALLS[0] % 3))  # alternates


@pytest.mark.parametrize("kind", [Counting, Recomputed, Scheduled, TrainedOnly, Outside])
def test_a_forward_that_alternates_fails_by_its_own_code_and_line(kind) -> None:
    report = check_gradients(kind(), PROBE, entropy)
    finding = report.findings[0]
    assert [f.code for f in report.findings if f.level == "FAIL"] == ["alternating"]
    assert "# alternates" in present(finding.line)
    assert ("`calls`" in finding.message) is (kind is not Outside)
    assert kind.__name__ in present(finding.module)


class OwnNoise(Net):
    """Draws from a stream of its own, which no seed of the test reaches."""

    draws = torch.Generator().manual_seed(3)

    def mid(self, h):
        return h + 0.1 * torch.randn(h.shape, generator=self.draws)


class SeededNoise(Net):
    def mid(self, h):
        return h + 0.1 * torch.randn_like(h)


class Counts(Net):
    """Counts its calls, which changes nothing that it computes."""

    calls = 0

    def mid(self, h):
        self.calls += 1
        return h


@pytest.mark.parametrize("kind", [OwnNoise, SeededNoise, Counts])
def test_noise_and_a_count_that_is_not_used_are_no_alternation(kind) -> None:
    report = check_gradients(kind(), PROBE, entropy)
    assert report.passed, report


class Remembers(Net):
    hidden = None

    def mid(self, h):
        out = h if self.hidden is None else h + 0.5 * self.hidden
        self.hidden = h.detach()
        return out


def test_a_state_that_goes_on_from_call_to_call_is_held_still_and_named() -> None:
    report = check_gradients(Remembers(), PROBE, entropy)
    assert report.passed, report
    assert report.unverified == ()
    assert any("an earlier call left in hidden" in f.message for f in report.findings)
