"""Examines `check_gradients` on faults and healthy models that its own tests do not hold.

The cases of the first sets were written by the same team, before the figures were known; those of
`second` by two examiners from the documentation alone, half of them open and half sealed
(`bench/exam/second_exam.py`). `--transformers` is a folder
with another version of transformers and what it needs, `--vision` one with torchvision and timm:

    pip install --no-deps --target FOLDER 'transformers==4.57.*' 'huggingface_hub<1' requests ...
    pip install --no-deps --target FOLDER torchvision timm
"""

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.exam.case import Question
from bench.exam.judging import Answer, ask, shares, table, wrong
from bench.exam.second_exam import open_questions, sealed_questions
from bench.report import arguments

PLAIN = (
    *("faults_vision", "faults_sequence", "faults_attention", "faults_functions"),
    *("faults_in_place", "faults_adapters", "faults_losses", "faults_training"),
    *("faults_wrappers", "faults_values", "healthy_wrappers"),
    *("adversarial", "adversarial_hidden", "healthy_pictures", "healthy_generative"),
    *("healthy_sequences", "healthy_tables", "healthy_extremes"),
)
SETS: dict[str, tuple[str, ...]] = {
    "plain": PLAIN,
    "transformers": ("library_all",),
    "vision": ("library_vision",),
}
APART = {"second": open_questions, "sealed": sealed_questions}


def questions(name: str, only: str) -> list[Question]:
    """Return the questions of a set whose group and name match a pattern."""
    if name in APART:
        found = APART[name]()
    else:
        modules = [importlib.import_module(f"bench.exam.{module}") for module in SETS[name]]
        found = [question for module in modules for question in module.QUESTIONS]
    return [q for q in found if re.search(only, f"{q.group}: {q.name}")]


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
        command = [sys.executable, "-m", "bench.exam", "--set", name, "--only", chosen.only]
        command += ["--threads", str(chosen.threads), "--output", str(output)]
        command += ["--quick"] if chosen.quick else []
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        subprocess.run(command, env=environment, check=True)
        found = json.loads(output.read_text())
    return [Answer(**answer) for answer in found["answers"]]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--set", choices=[*SETS, *APART], help="one set, in this process")
    parser.add_argument("--only", default="", help="a regex of groups and names")
    parser.add_argument("--transformers", metavar="FOLDER", help="another version to examine")
    parser.add_argument("--vision", metavar="FOLDER", help="where torchvision and timm are")


def main() -> None:
    """Run the examination, print the table, and write it."""
    chosen = arguments(__doc__, _options)
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
