"""The wheel as a stranger gets it: with torch and rich alone, and with what a hook needs."""

import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from gradient_check.tests import clean

CUT = """
import torch
from torch import nn

class Cut(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x).detach()

def loss(output):
    return output.square().mean()
"""
PLAIN = """
import sys
import torch
from model import Cut, loss
from gradient_check import check_gradients

print(check_gradients(Cut(), torch.randn(3, 4), loss))
loaded = {name.partition(".")[0] for name in sys.modules}
print("others:", sorted(loaded & {"numpy", "cog", "cog_adapt", "pydantic", "transformers"}))
"""
TEST = """
import pytest
import torch
from model import Cut, loss

@pytest.mark.gradients_flow(Cut(), torch.randn(3, 4), loss)
def test_learning(): ...
"""
LIGHTNING = """
import torch
from torch.utils.data import DataLoader
from lightning.pytorch import LightningModule, Trainer
from gradient_check.hooks.lightning import GradientFlowCheck
from model import Cut, loss

class Module(LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Cut()

    def training_step(self, batch, number):
        return loss(self.model(batch))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
trainer = Trainer(max_steps=1, accelerator="cpu", callbacks=[GradientFlowCheck()], **quiet)
trainer.fit(Module(), DataLoader(torch.randn(6, 4), batch_size=3))
"""
TRAINER = """
import torch
from torch import nn
from transformers import Trainer, TrainingArguments
from gradient_check.hooks.trainer_callback import GradientFlowCheck
from model import Cut, loss

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cut = Cut()

    def forward(self, x):
        return {"loss": loss(self.cut(x))}

rows = [{"x": row} for row in torch.randn(6, 4)]
arguments = TrainingArguments("out", max_steps=1, use_cpu=True, report_to=[])
trainer = Trainer(Model(), arguments, train_dataset=rows)
trainer.add_callback(GradientFlowCheck(trainer))
trainer.train()
"""
LINE = "model.py:11: return self.fc(x).detach()"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clean.build(tmp_path_factory.mktemp("wheel"))


def test_it_asks_for_torch_and_rich_and_nothing_else(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
    asked = message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])
    assert {Requirement(each).name for each in asked} == {"torch", "rich"}


def test_it_holds_the_sources_of_the_package_and_neither_exam_nor_tests(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = clean.ROOT / "gradient_check"
    sources = {path.relative_to(clean.ROOT).as_posix() for path in package.rglob("*.py")}
    left_out = ("gradient_check/exam/", "gradient_check/tests/")
    assert names == {name for name in sources if not name.startswith(left_out)}


def foreign(folder: Path, **files: str) -> Path:
    """A project that knows nothing of this checkout."""
    folder.mkdir()
    (folder / "model.py").write_text(CUT)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_with_torch_and_rich_alone_it_names_the_line_that_cuts(wheel, tmp_path):
    python = clean.environment(tmp_path / "venv", "torch", "rich", wheel=wheel)
    done = clean.run(python, "plain.py", folder=foreign(tmp_path / "project", plain=PLAIN))
    assert LINE in done.stdout, done.stdout + done.stderr
    assert "others: []" in done.stdout


@pytest.mark.parametrize(
    ("libraries", "files", "arguments"),
    [
        (("pytest",), {"test_it": TEST}, ("-m", "pytest", "-q")),
        (("lightning",), {"fit": LIGHTNING}, ("fit.py",)),
        (("transformers", "accelerate"), {"fit": TRAINER}, ("fit.py",)),
    ],
    ids=["pytest", "lightning", "trainer"],
)
def test_a_foreign_project_fails_by_its_hook(wheel, tmp_path, libraries, files, arguments):
    python = clean.environment(tmp_path / "venv", "torch", "rich", *libraries, wheel=wheel)
    done = clean.run(python, *arguments, folder=foreign(tmp_path / "project", **files))
    assert done.returncode == 1, done.stdout + done.stderr
    assert LINE in done.stdout + done.stderr
