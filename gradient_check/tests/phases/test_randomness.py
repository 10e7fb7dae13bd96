"""Streams of its own for each purpose, and the process's own left where it was."""

import pytest
import torch

from gradient_check.phases.randomness import derive_seed, generator, seeded

CPU = torch.device("cpu")


def test_seeds_are_the_same_for_the_same_purpose_and_else_unrelated():
    paths = [
        (),
        ("step", 0),
        ("step", 1),
        ("epoch", 1),
        ("lora", "a"),
        ("lora", "b"),
        (1,),
        ("1", 1),
    ]
    seeds = [derive_seed(seed, *path) for seed in (0, 1) for path in paths]
    assert len(set(seeds)) == len(seeds)
    assert derive_seed(0, "step", 1) == derive_seed(0, "step", 1)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_generator_leaves_the_processs_stream_alone():
    before = torch.get_rng_state()
    drawn = [torch.rand(3, generator=generator(1, "x")).tolist() for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_a_seeded_stretch_repeats_and_puts_the_stream_back(error):
    torch.rand(1)
    before = torch.get_rng_state()
    drawn = []
    for _ in range(2):
        try:
            with seeded(5, CPU):
                drawn.append(torch.nn.functional.dropout(torch.ones(20)).tolist())
                if error:
                    raise error
        except (ValueError, KeyboardInterrupt):
            pass
        assert torch.equal(torch.get_rng_state(), before)
    assert drawn[0] == drawn[1]


def test_a_seeded_stretch_draws_what_its_seed_gives():
    with seeded(5, CPU):
        drawn = torch.rand(3)
    with seeded(6, CPU):
        other = torch.rand(3)
    assert torch.equal(drawn, torch.rand(3, generator=torch.Generator().manual_seed(5)))
    assert not torch.equal(drawn, other)


def test_a_cuda_device_is_seeded_and_put_back_too(monkeypatch):
    """On a machine without one: the calls that a device would get."""
    calls = []
    cuda = torch.device("cuda", 1)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: f"state of {device}")
    monkeypatch.setattr(torch.cuda, "device", lambda device: seeded(0, CPU))
    monkeypatch.setattr(torch.cuda, "manual_seed", lambda seed: calls.append(seed))
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda *given: calls.append(given))
    with seeded(5, cuda):
        assert calls == [5]
    assert calls == [5, ("state of cuda:1", cuda)]
