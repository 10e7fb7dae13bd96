"""Examines `check_gradients` on planted faults and healthy models.

    python -m gradient_check.exam --output exam.json
    python -m gradient_check.exam --set known --only tower

The cases of `known` are those of the tests, which hold no others. The cases of `plain`
are by the same team, written before their figures were known. The cases of `second` are by two
examiners from the documentation alone, half of them open and half sealed (`second_exam.py`).
`--transformers` is a folder with another version of transformers and its dependencies, `--vision`
one with torchvision and timm:

    pip install --no-deps --target FOLDER 'transformers==4.57.*' 'huggingface_hub<1' requests ...
    pip install --no-deps --target FOLDER torchvision timm
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from gradient_check.exam.judging import Answer, ask, shares, table, wrong
from gradient_check.exam.sets import APART, SETS, questions


def examine(name: str, only: str, *, quick: bool) -> list[Answer]:
    """Ask a set's questions; print the wrong answers as they come."""
    answers: list[Answer] = []
    for question in questions(name, only)[:: 20 if quick else 1]:
        answers.append(ask(question))
        if not answers[-1].right:
            print(
                f"{question.group}: {question.name}", *answers[-1].found, sep="\n    ", flush=True
            )
    return answers


def examine_apart(name: str, folder: str | None, chosen: argparse.Namespace) -> list[Answer]:
    """Ask a set's questions in a process of its own, with a folder of other libraries."""
    paths = filter(None, (folder, os.environ.get("PYTHONPATH")))
    with tempfile.TemporaryDirectory() as place:
        output = Path(place, "answers.json")
        command = [sys.executable, "-m", "gradient_check.exam", "--set", name]
        command += ["--only", chosen.only, "--threads", str(chosen.threads)]
        command += ["--output", str(output)]
        command += ["--quick"] if chosen.quick else []
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        subprocess.run(command, env=environment, check=True)
        found = json.loads(output.read_text())
    return [Answer(**answer) for answer in found["answers"]]


def _arguments() -> argparse.Namespace:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "gradient_check.exam", description=__doc__, formatter_class=shown
    )
    parser.add_argument("--set", choices=[*SETS, *APART], help="one set, in this process")
    parser.add_argument("--only", default="", help="a regex of groups and names")
    parser.add_argument("--quick", action="store_true", help="one question in twenty")
    parser.add_argument("--threads", type=int, default=2, help="of each torch operation")
    parser.add_argument("--output", type=Path, help="write the answers here as JSON")
    parser.add_argument("--transformers", metavar="FOLDER", help="another version to examine")
    parser.add_argument("--vision", metavar="FOLDER", help="the folder of torchvision and timm")
    return parser.parse_args()


def main() -> None:
    """Run the examination, print the table, and write it."""
    chosen = _arguments()
    torch.set_num_threads(chosen.threads)
    if chosen.set:
        answers = examine(chosen.set, chosen.only, quick=chosen.quick)
    else:
        sets = [("plain", None), ("second", None), ("transformers", None)]
        sets += [("transformers", chosen.transformers)] if chosen.transformers else []
        sets += [("vision", chosen.vision)] if chosen.vision else []
        answers = [a for name, folder in sets for a in examine_apart(name, folder, chosen)]
    result: dict[str, Any] = {"table": table(answers), "wrong": wrong(answers)}
    if chosen.set:
        result["shares"] = shares(answers)
        result["answers"] = [vars(answer) for answer in answers]
    for row in (*result["table"], result.get("shares", {})):
        print(", ".join(f"{title} {value}" for title, value in row.items()))
    if chosen.output:
        chosen.output.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
