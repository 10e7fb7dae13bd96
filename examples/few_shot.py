"""The main job: a prediction that carries examples, through Cog's real server.

The program starts `python -m cog.server.http` and asks the base model. Then it sends one request
with the examples of `examples/tickets.jsonl`, shows the adaptation live, and asks the base again.
"""

import argparse
import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from cog_adapt import CogServer, Example, cog_server, read_examples, write_schema
from examples.serve import IS_STRICT, LINK

ROOT = Path(__file__).parent.parent
PREDICTOR = "predict.py:Predictor"
SHOWN = 10

console = Console()


def main() -> None:
    """Send a prediction with examples to Cog's server, and show its effect."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--examples", type=Path, default=ROOT / "examples" / "tickets.jsonl")
    parser.add_argument(
        "--held-out", type=Path, default=ROOT / "examples" / "tickets_heldout.jsonl"
    )
    parser.add_argument("--steps", type=int, default=40)
    chosen = parser.parse_args()
    held_out = read_examples(chosen.held_out).examples
    texts = [example.input for example in held_out]
    labels = list(dict.fromkeys(e.target for e in read_examples(chosen.examples).examples))

    console.print("Starting Cog's server: load the model, run the gradient self-test …")
    write_schema(ROOT, predict=PREDICTOR)
    with cog_server(ROOT, predict=PREDICTOR) as server:
        unchanged = {"texts": texts, "labels": labels, "deterministic": True}
        base = ask(server, unchanged)
        done = adapt(
            server,
            {"texts": texts, "examples_file": as_file(chosen.examples), "steps": chosen.steps},
        )
        again = ask(server, unchanged)
    done["before"] = done["before"] or base["predictions"]  # none where the examples were known
    show_predictions(held_out, done)
    show_report(held_out, done)
    if again["predictions"] != base["predictions"]:
        raise SystemExit("the base model answers differently after the adaptation: a defect")
    console.print("The base answers exactly as it did before the adaptation.")
    if not IS_STRICT:
        console.print(f"In a browser: make serve, then open {LINK}")


def ask(server: CogServer, values: dict[str, Any]) -> dict[str, Any]:
    """Run a prediction, and return its output."""
    return finished(server.post("/predictions", {"input": values}).json())


def adapt(server: CogServer, values: dict[str, Any]) -> dict[str, Any]:
    """Run a prediction that adapts, show its steps live, and return its output."""
    columns = (
        "[progress.description]{task.description}",
        BarColumn(),
        "{task.completed}/{task.total}",
    )
    with Progress(
        *columns, TextColumn("{task.fields[loss]}"), TimeElapsedColumn(), console=console
    ) as bar:
        row = bar.add_task("adapting", total=values["steps"], loss="")
        event, data = "", dict[str, Any]()
        for event, data in server.stream("/predictions", {"input": values}):
            bar.update(row, **progress(event, data))
    if event != "completed":
        raise SystemExit("the server ended the stream without a result")
    return finished(data)


def progress(event: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return the bar's update for a log line such as `step 3/40 loss 0.512`, else an empty one."""
    if event != "log" or not data["data"].startswith("step "):
        return {}
    _, count, _, loss = data["data"].split()[:4]
    done, total = map(int, count.split("/"))
    return {"completed": done, "total": total, "loss": f"loss {loss}"}


def finished(prediction: dict[str, Any]) -> dict[str, Any]:
    """Return the output of a prediction, or exit with the reason if it did not succeed."""
    if prediction.get("status") != "succeeded":
        raise SystemExit(f"the prediction failed: {json.dumps(prediction, indent=2)}")
    output: dict[str, Any] = prediction["output"]
    return output


def as_file(path: Path) -> str:
    """Return a file as `cog predict -i examples_file=@FILE` sends it."""
    content = base64.b64encode(path.read_bytes()).decode()
    return f"data:application/octet-stream;base64,{content}"


def show_predictions(held_out: Sequence[Example], done: dict[str, Any]) -> None:
    """Print some held-out texts with their labels before and after."""
    table = Table("text", "label", "before", "after", title="Held-out texts")
    rows = list(zip(held_out, done["before"], done["predictions"], strict=True))
    for example, before, after in rows[:SHOWN]:
        cells = [_marked(answer["label"], example.target) for answer in (before, after)]
        table.add_row(example.input, example.target, *cells)
    console.print(table)


def _marked(label: str, right: str) -> str:
    return f"[green]{label}[/]" if label == right else f"[red]{label}[/]"


def accuracy(held_out: Sequence[Example], answers: Sequence[dict[str, Any]]) -> float:
    """Return the share of texts whose best label is right."""
    right: int = sum(a["label"] == e.target for e, a in zip(held_out, answers, strict=True))
    return right / len(held_out)


def show_report(held_out: Sequence[Example], done: dict[str, Any]) -> None:
    """Print the report of the adaptation."""
    report = done["report"]
    before, after = (accuracy(held_out, done[key]) for key in ("before", "predictions"))
    table = Table("report", "", title="Adaptation", show_header=False)
    table.add_row("adapter", done["adapter"] or "none: the base answers best")
    table.add_row("accuracy", f"{before:.0%} before, {after:.0%} after ({len(held_out)} texts)")
    table.add_row("examples", str(report["examples"]))
    table.add_row("method", f"{report['method']}, {report['trained_parameters']:,} parameters")
    table.add_row("steps", f"{report['steps']} ({report['stop_reason']})")
    table.add_row("learning rate", f"{report['learning_rate']:g}")
    if report["decision"]:
        table.add_row("chosen", report["decision"]["why"])
        table.add_row("said before", report["decision"]["expected"])
    if losses := report["losses"]:
        table.add_row("loss", f"{losses[0]:.3f} to {losses[-1]:.3f}")
    if norms := report["gradient_norms"]:
        table.add_row("gradient norm", f"{min(norms):.3f} to {max(norms):.3f}")
    known = ", known from before" if report["known"] else ""
    table.add_row("seconds", f"{report['seconds']:.1f}{known} on {report['precision']}")
    console.print(table)


if __name__ == "__main__":
    main()
