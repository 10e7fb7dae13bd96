"""The round trip of a training, through Cog's real server.

`train.py` makes an adapter from a larger file; a second server starts with it as COG_WEIGHTS, and
a request to a third server sends it as its `weights`.
"""

import argparse
import base64
from pathlib import Path

from cog_adapt import cog_server, read_examples, write_schema
from examples.few_shot import PREDICTOR, ROOT, accuracy, as_file, ask, console, finished

TRAINER = "train.py:Trainer"


def main() -> None:
    """Train an adapter, and serve it in two ways."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--examples", type=Path, default=ROOT / "examples" / "tickets_train.jsonl")
    parser.add_argument(
        "--held-out", type=Path, default=ROOT / "examples" / "tickets_heldout.jsonl"
    )
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--output", type=Path, default=ROOT / "weights" / "tickets.safetensors")
    chosen = parser.parse_args()
    held_out = read_examples(chosen.held_out).examples
    texts = {"texts": [example.input for example in held_out]}

    write_schema(ROOT, predict=PREDICTOR, train=TRAINER)
    console.print(f"Training on {chosen.examples.name} with `{TRAINER}` …")
    with cog_server(ROOT, predict=PREDICTOR, train=TRAINER, mode="train") as server:
        values = {"examples_file": as_file(chosen.examples), "steps": chosen.steps}
        trained = finished(server.post("/trainings", {"input": values}).json())
    weights = base64.b64decode(trained["weights"].partition(",")[2])
    chosen.output.write_bytes(weights)
    report = trained["report"]
    console.print(
        f"{report['steps']} steps in {report['seconds']:.1f} s; wrote {len(weights):,} bytes"
    )

    with cog_server(ROOT, predict=PREDICTOR, env={"COG_WEIGHTS": str(chosen.output)}) as server:
        started_with = ask(server, texts)
    with cog_server(ROOT, predict=PREDICTOR) as server:
        named = ask(server, texts | {"weights": as_file(chosen.output)})
    console.print(
        f"COG_WEIGHTS: adapter {started_with['adapter']}, "
        f"accuracy {accuracy(held_out, started_with['predictions']):.0%}"
    )
    if named != started_with:
        raise SystemExit("the input `weights` answers differently from COG_WEIGHTS: a defect")
    console.print("The input `weights` with the same file gives the same answers.")


if __name__ == "__main__":
    main()
