"""Room is what is free, but for an eighth."""

import torch

from gradient_check.phases import room


def test_an_eighth_of_what_is_free_stays_free(monkeypatch):
    monkeypatch.setattr(room, "free_memory", lambda _device: 800)
    assert room.has_room(torch.device("cpu"), 700)
    assert not room.has_room(torch.device("cpu"), 701)
