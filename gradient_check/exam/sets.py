"""The sets of questions, by their names."""

import importlib
import re
from pathlib import Path

from gradient_check.exam.case import Question
from gradient_check.exam.second_exam import open_questions, sealed_questions

_FOLDER = Path(__file__).parent
_PLAIN = (
    *("faults_vision", "faults_sequence", "faults_attention", "faults_functions"),
    *("faults_in_place", "faults_adapters", "faults_losses", "faults_training"),
    *("faults_wrappers", "faults_values", "healthy_wrappers"),
    *("adversarial", "adversarial_hidden", "healthy_pictures", "healthy_generative"),
    *("healthy_sequences", "healthy_tables", "healthy_extremes"),
)
SETS: dict[str, tuple[str, ...]] = {
    "known": tuple(
        f"known.{path.stem}"
        for kind in ("faults", "healthy")
        for path in sorted((_FOLDER / "known").glob(f"{kind}_*.py"))
    ),
    "plain": _PLAIN,
    "transformers": ("library_all",),
    "vision": ("library_vision",),
}
APART = {"second": open_questions, "sealed": sealed_questions}


def questions(name: str, only: str = "") -> list[Question]:
    """Return the questions of a set whose group and name match a pattern."""
    if name in APART:
        found = APART[name]()
    else:
        modules = [importlib.import_module(f"{__package__}.{module}") for module in SETS[name]]
        found = [question for module in modules for question in module.questions]
    return [q for q in found if re.search(only, f"{q.group}: {q.name}")]
