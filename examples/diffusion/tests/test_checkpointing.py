"""A folder's transformer is recomputed block by block, and its frozen encoders are not."""

from dataclasses import replace

import pytest
import torch

from cog_adapt import Example, ModelRunner
from examples.diffusion.folder import Folder
from examples.diffusion.photos import gradient_bar
from examples.diffusion.tests.pictures_of_letters import settings_in
from examples.diffusion.tests.tiny_folder import write_flux, write_sd3

SIDE = 32


def counting(monkeypatch, block, calls):
    """Note for each forward of a block whether it keeps what backward needs."""
    forward = block.forward

    def counted(self, *given, **named):
        calls.append(torch.is_grad_enabled())
        return forward(self, *given, **named)

    monkeypatch.setattr(block, "forward", counted)


@pytest.mark.parametrize("write", [write_flux, write_sd3])
def test_each_block_runs_again_in_backward_and_the_same_is_learned(write, tmp_path, monkeypatch):
    write(tmp_path / "folder")
    examples = [Example({"caption": "a TOK", "picture": gradient_bar(0)}, 0)]
    task = Folder(str(tmp_path / "folder"), SIDE)
    with ModelRunner(task, settings_in(tmp_path)) as runner:
        transformer = task.load().transformer
        blocks = getattr(transformer, "single_transformer_blocks", transformer.transformer_blocks)
        calls: list[bool] = []
        counting(monkeypatch, type(blocks[0]), calls)
        found = []
        for checkpointing in (True, False):
            calls.clear()
            recipe = replace(task.recipe, checkpointing=checkpointing, max_steps=3, rank=4)
            adapter = runner.adapt(examples, recipe).adapter
            assert adapter
            found.append((adapter.tensors, sum(calls)))
    (recomputed, often), (plain, once) = found
    assert often >= 1.5 * once
    for name, tensor in recomputed.items():
        assert torch.allclose(tensor, plain[name], atol=1e-5), name
