"""The pages of `docs`: their faulty code, what the tool says of it, and the mended code."""

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader
from transformers import Trainer as HuggingFaceTrainer
from transformers import TrainingArguments

from gradient_check.hooks.first_step import GradientFlowWarning
from gradient_check.phases.errors import GradientFlowError

PACKAGE = Path(__file__).parents[1]
ROOT = PACKAGE.parent  # of a checkout, where there is one
FOLDER = PACKAGE / "docs"
PAGES = sorted(FOLDER.glob("[1-5]-*.md"))
STRANGER = (PACKAGE / "README.md").read_text()
INDEX = (FOLDER / "README.md").read_text()
LINKING = [PACKAGE / "README.md", FOLDER / "README.md", FOLDER / "checks.md"]
FIXTURES = """
import pytest
import torch


@pytest.fixture
def model():
    return torch.nn.Linear(4, 2)


@pytest.fixture
def batch():
    return torch.ones(3, 4)


"""
ONES: Any = torch.ones(4, 4)
SAID = {
    "1-inference-mode": {"graph-cut"},
    "2-amp-and-no-grad": {"graph-cut"},
    "3-frozen-inputs-with-checkpointing": {"graph-cut", "frozen"},
    "4-a-wrapped-t5": {"graph-cut"},
    "5-none-nan-vanishing-exploding": {
        *("graph-cut", "grad-nonfinite", "vanishing", "exploding", "unverified")
    },
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:GPU available but not used"),  # a page names the CPU
    pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec"),
    pytest.mark.filterwarnings("ignore:.*number of training batches"),
    pytest.mark.filterwarnings("ignore:.*pin_memory"),
    pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True"),
    pytest.mark.filterwarnings(
        "ignore::" + f"{GradientFlowWarning.__module__}.GradientFlowWarning"
    ),
]


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def words(text):
    """The words of what the tool says, its times left out.

    How many of 30 tensors lie below rounding noise depends on the machine's sums, by one.
    """
    timeless = re.sub(r"\d+\.\d+ s$", "", text, flags=re.MULTILINE)
    near = re.sub(r"unverified: 1[678] parameters", "unverified: some parameters", timeless)
    near = re.sub(r", 1[678] unverified,", ", some unverified,", near)
    return re.sub(r"and 1[234]\s+more", "and more", near).split()


def codes(text):
    return set(re.findall(r"^ +(?:FAIL|WARN|NOTE) ([\w-]+):", text, re.MULTILINE))


@pytest.fixture
def run_block(tmp_path, monkeypatch, capsys):
    """Runs code as a file of a name in an empty folder, and returns what it prints."""

    def run_block(name, code):
        monkeypatch.chdir(tmp_path)
        path = tmp_path / name  # whole: lines are cached by the name of their file
        path.write_text(code)
        state = torch.get_rng_state()
        runpy.run_path(str(path))
        torch.set_rng_state(state)
        return capsys.readouterr().out

    return run_block


def test_there_are_five_stories_and_the_index_names_each():
    assert [page.stem for page in PAGES] == list(SAID)
    assert re.findall(r"\((\d-[\w-]+)\.md\)", INDEX) == list(SAID)
    assert "(README.md)" in (FOLDER / "checks.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_faulty_code_gets_what_the_page_shows(page, run_block):
    text = page.read_text()
    (shown,) = blocks(text, "text")
    said = run_block("fault.py", blocks(text, "python")[0])
    assert words(said) == words(shown)
    assert codes(shown) == SAID[page.stem]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_mended_code_passes(page, run_block):
    _, mended = blocks(page.read_text(), "python")
    said = run_block("mended.py", mended)
    assert said.count("gradient self-test passed") == (4 if page.stem.startswith("5") else 1)
    assert "FAIL" not in said
    assert "WARN" not in said


def test_the_loop_for_a_stranger_is_short_wrong_and_silent_but_for_the_check(run_block):
    (code,), (shown,) = blocks(STRANGER, "python"), blocks(STRANGER, "text")
    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    assert words(run_block("train.py", code)) == words(shown)
    assert "train.py:13: with torch.no_grad():" in shown
    mended = code.replace("        with torch.no_grad():", "        if True:")
    said = run_block("mended.py", mended)
    assert "step 100: loss 0.07" in said
    assert "gradient self-test passed" in said
    assert "FAIL" not in said
    assert "WARN" not in said


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.name)
def test_a_page_links_to_what_is_there(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[\w-]+)?\)", page.read_text()):
        outside = target.startswith(("../docs/", "../../docs/")) and not (ROOT / "docs").exists()
        assert outside or (page.parent / target).exists(), target


def test_the_page_for_a_stranger_names_headings_of_the_index():
    headings = {
        "-".join(re.findall(r"\w+", h.lower())) for h in re.findall("^## (.*)", INDEX, re.M)
    }
    assert set(re.findall(r"docs/README\.md#([\w-]+)\)", STRANGER)) <= headings


def test_the_fault_of_each_story_is_real(run_block):
    """What the stories say happens without the tool: nothing is learned, or a warning alone."""
    inference, _ = blocks(PAGES[0].read_text(), "python")
    assert run_block("fault.py", inference).startswith("learned: False\n")
    reentrant, _ = blocks(PAGES[2].read_text(), "python")
    with pytest.warns(UserWarning, match="Gradients will be None"):
        run_block("fault.py", reentrant)


@pytest.mark.parametrize("title", ["pytest", "Lightning", "Hugging Face `Trainer`"])
def test_each_way_is_shown_in_ten_lines(title):
    (section,) = re.findall(rf"^## {title}\n\n(.*?)\n```\n", INDEX, re.DOTALL | re.MULTILINE)
    prose, _, code = section.partition("```python\n")
    assert len(prose.strip().splitlines()) <= 10
    assert len(code.splitlines()) <= 10


class Cut(nn.Linear):
    def forward(self, inputs=None, labels=None):
        return {"loss": super().forward(inputs).detach().square().mean()}


class CutModule(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = Cut(4, 2)

    def training_step(self, batch):
        return self.net(batch)["loss"]

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def quiet_trainer(**options):
    off = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    return Trainer(max_steps=1, accelerator="cpu", **dict.fromkeys(off, False), **options)


def test_what_is_shown_for_lightning_finds_a_cut():
    _, lightning, _ = blocks(INDEX, "python")
    names = {
        "Trainer": quiet_trainer,
        "module": CutModule(),
        "loader": DataLoader(ONES),
    }
    with pytest.raises(GradientFlowError, match="graph-cut"):
        exec(lightning, names)


def test_what_is_shown_for_the_trainer_finds_a_cut(tmp_path):
    _, _, shown = blocks(INDEX, "python")
    rows = [{"inputs": torch.ones(4), "labels": 1} for _ in range(4)]
    arguments = TrainingArguments(str(tmp_path), max_steps=1, use_cpu=True, report_to=[])
    trainer = HuggingFaceTrainer(Cut(4, 2), arguments, train_dataset=rows)
    with pytest.raises(GradientFlowError, match="graph-cut"):
        exec(shown, {"trainer": trainer})


def test_what_is_shown_for_pytest_runs(tmp_path):
    shown, _, _ = blocks(INDEX, "python")
    (tmp_path / "test_shown.py").write_text(FIXTURES + shown)
    plugin = ["-p", "gradient_check.hooks.pytest_plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugin, f"--rootdir={tmp_path}", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert "2 passed" in done.stdout, done.stdout
