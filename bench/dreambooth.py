"""Steps of LoRA on a folder of FLUX: ours beside diffusers' own DreamBooth script.

    python -m bench.dreambooth SCRIPT --output docs/results/dreambooth.json

SCRIPT is diffusers' `examples/dreambooth/train_dreambooth_lora_flux.py` (Apache-2.0), unchanged. It
lies in no package, and is not committed here; it needs torchvision, accelerate and peft. Both sides
are processes of one thread, which take few steps and many in turn: the difference of their times is
that of the steps alone. Both adapters are then scored by our held-out loss, on the same noise, and
a picture is drawn with the script's file by diffusers' pipeline and by us.
"""

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import diffusers
import numpy as np
import torch
from PIL import Image

from cog_adapt import Example, ModelRunner, Recipe, RunnerSettings
from examples.diffusion.drawing import DrawOptions
from examples.diffusion.folder import Folder
from examples.diffusion.tests.tiny_folder import write_flux

SCRIPT = "ea51c6843b1e27909a134de1eb59e6bc54ad99f4b349c55bdd62321cb5412885"  # of diffusers v0.40.0
FEW, MANY, RATE, RANK, SIDE = 10, 110, 4e-4, 16, 64
PROMPT = "a TOK"
LAYERS = (
    *("to_q", "to_k", "to_v", "to_out.0"),
    *("add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"),
)


def write_model(folder: Path) -> None:
    """Write a folder of FLUX with all parts, 128 wide and untrained."""
    write_flux(folder)
    torch.manual_seed(1)
    pipeline = diffusers.FluxPipeline.from_pretrained(folder)
    config = dict(pipeline.transformer.config)
    config |= {"num_layers": 3, "num_single_layers": 6, "attention_head_dim": 32}
    config |= {"num_attention_heads": 4, "axes_dims_rope": (8, 12, 12)}
    transformer = diffusers.FluxTransformer2DModel.from_config(config)
    transformer.save_pretrained(folder / "transformer")
    vae = folder / "vae" / "config.json"
    vae.write_text(json.dumps(json.loads(vae.read_text()) | {"sample_size": SIDE}))


def write_pictures(folder: Path) -> None:
    """Write eight pictures of stripes."""
    folder.mkdir()
    for number in range(8):
        rows, columns = np.indices((SIDE, SIDE))
        shade = 127.5 + 127.5 * np.sin((rows + number * columns) / 5)
        Image.fromarray(shade.astype(np.uint8)).convert("RGB").save(folder / f"{number}.png")


def theirs(script: Path, model: Path, pictures: Path, output: Path, steps: int) -> list[str]:
    """Return the command of diffusers' script."""
    asked = {
        "pretrained_model_name_or_path": model,
        "instance_data_dir": pictures,
        "instance_prompt": PROMPT,
        "output_dir": output,
        "resolution": SIDE,
        "train_batch_size": 1,
        "max_train_steps": steps,
        "rank": RANK,
        "lora_alpha": 2 * RANK,
        "lora_layers": ",".join(f"attn.{each}" for each in LAYERS),
        "learning_rate": RATE,
        "lr_scheduler": "linear",
        "lr_warmup_steps": 0,
        "guidance_scale": 1,
        "seed": 0,
        "mixed_precision": "no",
        "logging_dir": "logs",
    }
    values = [f"--{name}={value}" for name, value in asked.items()]
    return [sys.executable, str(script), *values, "--cache_latents", "--gradient_checkpointing"]


def ours(model: Path, pictures: Path, output: Path, steps: int) -> list[str]:
    """Return the command of this module that adapts."""
    paths = (str(each) for each in (model, pictures, output))
    return [sys.executable, "-m", "bench.dreambooth", "--adapt", str(steps), *paths]


def runner_of(model: Path, scratch: str) -> ModelRunner:
    """Load a folder."""
    settings = RunnerSettings(device="cpu", weights_dir=Path(scratch))
    return ModelRunner(Folder(str(model), SIDE), settings)


def examples_in(pictures: Path) -> list[Example]:
    """Return the pictures with the prompt as caption."""
    files = sorted(pictures.glob("*.png"))
    return [Example({"caption": PROMPT, "picture": each.read_bytes()}, 0) for each in files]


def adapt(steps: int, model: Path, pictures: Path, output: Path) -> None:
    """Adapt by the kind's recipe, and write the adapter."""
    recipe = replace(
        Folder.recipe, max_steps=steps, learning_rate=RATE, rank=RANK, method="lora", ema=0.0
    )
    with TemporaryDirectory() as scratch, runner_of(model, scratch) as runner:
        done = runner.adapt(examples_in(pictures), recipe)
    assert done.adapter is not None
    output.mkdir(exist_ok=True)
    (output / "adapter.safetensors").write_bytes(done.adapter.to_bytes())


def seconds_of(command: Sequence[str]) -> tuple[float, float]:
    """Run a command; return its CPU and wall seconds."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.monotonic() - began


def losses(model: Path, pictures: Path, files: dict[str, Path]) -> dict[str, float]:
    """Return the loss of half of the pictures by each adapter's file, on the same noise."""
    looked = Recipe(hold_out=0.5, stop_after=0, batch_size=8, learning_rate=RATE)
    found = {}
    with TemporaryDirectory() as scratch, runner_of(model, scratch) as runner:
        for name, file in files.items():
            begin = runner.files.read(file)
            done = runner.adapt(examples_in(pictures), looked, begin=begin)
            found[name] = done.report.scores[0].loss
    return found


def drawn_apart(model: Path, file: Path) -> dict[str, float]:
    """Return by how much latents differ after 28 steps: ours from diffusers', both with a file.

    Beside it stands by how much the file moves them.
    """
    options = DrawOptions(steps=28, guidance=3.5, height=SIDE, width=SIDE, form="raw")
    with TemporaryDirectory() as scratch, runner_of(model, scratch) as runner:
        adapter = runner.files.read(file)
        plain, found = (runner.predict([PROMPT], a, options=options)[0] for a in (None, adapter))
    pipeline = diffusers.FluxPipeline.from_pretrained(model)
    pipeline.load_lora_weights(file.parent, weight_name=file.name)
    c, side = pipeline.vae.config.latent_channels, SIDE // 2
    noise = torch.randn(c, side, side, generator=torch.Generator().manual_seed(options.seed))
    latents = pipeline(
        PROMPT,
        height=SIDE,
        width=SIDE,
        num_inference_steps=options.steps,
        guidance_scale=options.guidance,
        latents=pipeline._pack_latents(noise[None], 1, c, side, side),
        output_type="latent",
    ).images
    expected = pipeline._unpack_latents(latents, SIDE, SIDE, 2)[0].numpy()
    return {
        "greatest difference": float(np.abs(found - expected).max()),
        "moved by the file": float(np.abs(found - plain).max()),
    }


def measured(script: Path, rounds: int) -> dict[str, object]:
    """Return seconds of a hundred steps in each round, and both losses."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        model, pictures = folder / "model", folder / "pictures"
        write_model(model)
        write_pictures(pictures)
        sides: dict[str, Callable[..., list[str]]] = {
            "ours": ours,
            "diffusers": partial(theirs, script),
        }
        taken: dict[str, list[float]] = {side: [] for side in sides}
        for side, command in [*sides.items()] * rounds:
            few, many = (
                seconds_of(command(model, pictures, folder / side, steps))[0]
                for steps in (FEW, MANY)
            )
            taken[side].append(round(many - few, 2))
        files = {
            "ours": folder / "ours" / "adapter.safetensors",
            "diffusers": folder / "diffusers" / "pytorch_lora_weights.safetensors",
        }
        found = losses(model, pictures, files)
        drawn = drawn_apart(model, files["diffusers"])
    ratios = [a / b for a, b in zip(taken["ours"], taken["diffusers"], strict=True)]
    return {
        "script": SCRIPT,
        "torch": torch.__version__,
        "diffusers": diffusers.__version__,
        "CPU seconds of 100 steps": taken,
        "ours / diffusers": round(median(ratios), 3),
        "ratios": [round(each, 3) for each in ratios],
        "loss": {side: round(value, 4) for side, value in found.items()},
        "drawn with the script's file": drawn,
    }


def main() -> None:
    """Measure, or adapt for a measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", type=Path, nargs="+", help="SCRIPT; of --adapt: its three folders")
    parser.add_argument("--adapt", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    if asked.adapt:
        adapt(asked.adapt, *asked.paths)
        return
    (script,) = asked.paths
    digest = hashlib.sha256(script.read_bytes()).hexdigest()
    if digest != SCRIPT:
        raise SystemExit(f"{script} has the digest {digest}; diffusers v0.40.0 has {SCRIPT}.")
    found = measured(script, asked.rounds)
    print(json.dumps(found, indent=1))
    if asked.output:
        asked.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
