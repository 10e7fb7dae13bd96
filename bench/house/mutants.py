"""Plants mistakes in the template and the package's main paths, and runs `make test` on each.

    python -m bench.house.mutants --output docs/results/house/mutants.md

Each is planted alone, in a copy of the tree. `make test` is what the user of the template runs, so
it must see them all.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SECONDS = 900
LEFT_BEHIND = shutil.ignore_patterns(".git", ".venv", ".data", "__pycache__", ".*_cache")


@dataclass(frozen=True)
class Mutant:
    """A mistake: a text that stands once in a file, and what takes its place."""

    what: str
    path: str
    old: str
    new: str

    def plant(self, tree: Path) -> None:
        """Write the mistake into a tree (ValueError if the text is not there once)."""
        text = (tree / self.path).read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.path} has {self.old!r} {text.count(self.old)} times, not once")
        (tree / self.path).write_text(text.replace(self.old, self.new))


_RUNNER, _SERVER = "cog_adapt/runner", "cog_adapt/server"
MUTANTS = (
    Mutant(
        "the loss has the wrong sign",
        "task.py",
        "return F.cross_entropy",
        "return -F.cross_entropy",
    ),
    Mutant(
        "the worst label wins", f"{_RUNNER}/task/labelled.py", "max(scores, key", "min(scores, key"
    ),
    Mutant("a head starts from nothing", "task.py", "_SCALE = 10.0", "_SCALE = 0.0"),
    Mutant("padding counts as text", "encoder.py", "(hidden * weights).sum(1)", "hidden.sum(1)"),
    Mutant("long texts are not cut", "encoder.py", "truncation=True", "truncation=False"),
    Mutant("predict drops the labels", "predict.py", "labels=labels or ()", "labels=()"),
    Mutant(
        "predict drops the file of weights",
        "predict.py",
        "weights=weights",
        "weights=None",
    ),
    Mutant("predict drops strict", "predict.py", "strict=strict", "strict=False"),
    Mutant("predict drops the seed", "predict.py", "seed=seed", "seed=0"),
    Mutant("train holds nothing out", "train.py", "hold_out=hold_out", "hold_out=0.0"),
    Mutant(
        "the app is not the mirror's",
        "server/app.py",
        "return create_app(settings)",
        "return FastAPI()",
    ),
    Mutant(
        "training mode is left on",
        "gradient_check/phases/modes.py",
        "    if _trains_somewhere(module):\n        module.eval()\n",
        "    module.train()\n",
    ),
    Mutant(
        "an adaptation has no gradients",
        "gradient_check/phases/modes.py",
        "(torch.enable_grad())",
        "(torch.no_grad())",
    ),
    Mutant(
        "no step is taken",
        "gradient_check/phases/gradient_step.py",
        "self.scaler.step(self.optimizer)",
        "pass",
    ),
    Mutant(
        "`before` is what comes after",
        f"{_RUNNER}/requests/few_shot.py",
        "predictions=predictions, before=before, adapter=",
        "predictions=predictions, before=predictions, adapter=",
    ),
    Mutant(
        "adapters are not kept",
        f"{_RUNNER}/requests/learning.py",
        "runner.store.put(done.adapter, wanted.owner, made)",
        "pass",
    ),
    Mutant(
        "any path is read",
        f"{_RUNNER}/request.py",
        "if not isinstance(value, os.PathLike):",
        "if not isinstance(value, os.PathLike | str):",
    ),
    Mutant(
        "an input is taken for a target",
        f"{_RUNNER}/data/examples.py",
        "Example(_value(row, INPUT_NAMES), _value(row, TARGET_NAMES))",
        "Example(_value(row, TARGET_NAMES), _value(row, INPUT_NAMES))",
    ),
    Mutant(
        "a killed training begins anew",
        f"{_RUNNER}/storage/checkpoint_folder.py",
        "load=lambda: load_state(file)",
        "load=lambda: None",
    ),
    Mutant(
        "a slot is not freed",
        f"{_SERVER}/service/dispatcher.py",
        "worker.running.pop(prediction.run_id, None)",
        "pass",
    ),
    Mutant(
        "any key opens any route", f"{_SERVER}/middleware/auth.py", "or key.opens(need)", "or key"
    ),
)


_SEEN_BY = {
    "task.py": "tests/test_task.py",
    "encoder.py": "tests/test_task.py",
    f"{_RUNNER}/task/labelled.py": "tests/test_task.py",
    "train.py": "tests/test_train.py",
    "server/app.py": "tests/test_server.py",
    f"{_RUNNER}/model_runner.py": "tests/test_train.py",
    f"{_SERVER}/middleware/auth.py": "tests/test_server.py",
    f"{_SERVER}/service/dispatcher.py": "tests/test_server.py",
}
"""Which file of tests is run first, so that most mistakes are seen soon."""


def kills(mutant: Mutant, folder: Path) -> str | None:
    """Return the first test that fails with the mistake, or None."""
    tree = folder / "tree"
    shutil.copytree(ROOT, tree, ignore=LEFT_BEHIND)
    mutant.plant(tree)
    try:
        first = _SEEN_BY.get(mutant.path, "tests/test_predict.py")
        whole = ("-n", "2", "--dist", "loadfile", "--ignore=tests/cog_adapt")
        return failing(tree, (first,)) or failing(tree, whole)
    finally:
        shutil.rmtree(tree)


def failing(tree: Path, chosen: Sequence[str]) -> str | None:
    """Return the first of some tests that fails in a tree, or None."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *chosen, "-x", "-q", "-p", "no:cacheprovider"],
        cwd=tree,
        env={"OMP_NUM_THREADS": "1", "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return failed[1] if failed else f"exit code {done.returncode}"


TITLE = "Mistakes that `make test` must see"
ORIGIN = "Written by `python -m bench.house.mutants`."


def table(title: str, origin: str, kind: str, rows: Sequence[tuple[Mutant, str | None]]) -> str:
    """Return which test saw each mistake, in Markdown."""
    seen = sum(test is not None for _, test in rows)
    lines = [
        f"# {title}",
        "",
        f"{seen} of {len(rows)} are seen. {origin}",
        "",
        f"| {kind} | file | first test that fails |",
        "|---|---|---|",
        *(f"| {m.what} | `{m.path}` | {f'`{test}`' if test else '**none**'} |" for m, test in rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Plant each mistake, and write which test sees it; fail if one is not seen."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", help="a part of the names of the mistakes to plant")
    chosen = parser.parse_args()
    rows = []
    for mutant in MUTANTS:
        if chosen.only and chosen.only not in mutant.what:
            continue
        with tempfile.TemporaryDirectory() as folder:
            rows.append((mutant, kills(mutant, Path(folder))))
        print(f"{mutant.what}: {rows[-1][1] or 'NOT SEEN'}", flush=True)
    if chosen.output:
        chosen.output.write_text(table(TITLE, ORIGIN, "mistake", rows))
    return 0 if all(test for _, test in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
